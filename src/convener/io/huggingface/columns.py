"""The columns of Hugging Face data, checked and packed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset, Text
from convener.errors import DataError
from convener.io import arrow
from convener.io.messages import wrap_errors
from convener.packed import StringArray, lengths_to_offsets, row_at
from convener.tags import TagSet


class HFTable:
    """Columns of one table; `where` names it in messages."""

    def __init__(self, table: Any, where: str, features: Mapping[str, Any] | None = None) -> None:
        self.table, self.where = table, where
        self.names: list[str] = table.column_names
        self._features = features or _schema_features(table.schema)
        with wrap_errors(where, "Arrow table"):
            table.validate(full=True)
        self.lengths, flat_tokens = arrow.flatten_lists(self._column("tokens"), f"{where}: tokens")
        if len(flat_tokens) and not arrow.is_string(flat_tokens.type):
            raise DataError(f"{where}: tokens: expected lists of strings, got {flat_tokens.type}")
        self.tokens = arrow.to_strings(flat_tokens) if len(flat_tokens) else StringArray.from_list([])
        self.offsets = lengths_to_offsets(self.lengths)

    def to_dataset(self, tags: TagSet, votes: Mapping[str, NDArray[np.int16]], **fields: Any) -> Dataset:
        """The dataset with these votes and parts."""
        empty = np.zeros((len(self.tokens), 0), np.int16)
        return Dataset(
            tags=tags,
            tokens=self.tokens,
            offsets=self.offsets,
            sources=tuple(votes),
            votes=np.stack(list(votes.values()), axis=1) if votes else empty,
            **fields,
        )

    def _column(self, name: str) -> Any:
        if self.names.count(name) != 1:
            column_names = ", ".join(self.names) or "none"
            raise DataError(f"{self.where}: expected one column {name!r}, got {column_names}")
        return self.table.column(name)

    def row_location(self, token: int) -> str:
        """The row of a token, for messages."""
        return f"{self.where}: row {row_at(self.offsets, token)}"

    def token_values(self, name: str) -> Any:
        """The values of a list column that has one for each token."""
        lengths, values = arrow.flatten_lists(self._column(name), f"{self.where}: {name}")
        mismatched = np.flatnonzero(lengths != self.lengths)
        if len(mismatched):
            row = int(mismatched[0])
            raise DataError(
                f"{self.where}: row {row}: expected {name} of {self.lengths[row]} tokens, got {lengths[row]}"
            )
        return values

    def label_ids(self, name: str) -> NDArray[np.int16]:
        """Label ids as they are; whether they are in range is the dataset's question."""
        values = self.token_values(name)
        if not len(values):
            return np.zeros(0, np.int16)
        ids = arrow.to_numpy(values)
        if ids.dtype.kind not in "iu" or not -1 <= ids.min() <= ids.max() < 2**15:
            raise DataError(f"{self.where}: {name}: expected label ids, got {values.type}")
        return ids.astype(np.int16)

    def strings(self, name: str) -> StringArray:
        """A column of strings, or of numbers as strings."""
        column = self._column(name)
        types = arrow.import_pyarrow("pyarrow.types")
        if column.null_count or not (arrow.is_string(column.type) or types.is_integer(column.type)):
            raise DataError(f"{self.where}: {name}: expected strings without nulls")
        return arrow.to_strings(column)

    def text(self) -> Text:
        """The text of each row and the place of its tokens."""
        offset_pairs = self.token_values("chars")
        token_offsets = np.zeros((0, 2), np.int32)
        if len(offset_pairs):
            token_offsets = arrow.to_matrix(offset_pairs, 2, np.int32, f"{self.where}: chars")
        text = self.strings("text")
        doc_offsets = np.zeros(len(self.lengths), np.int64)
        if "char_start" in self.names:
            column = self._column("char_start")
            if column.null_count or not arrow.import_pyarrow("pyarrow.types").is_integer(column.type):
                raise DataError(f"{self.where}: char_start: expected whole numbers without nulls")
            doc_offsets = arrow.to_numpy(column).astype(np.int64)
        return Text(text, token_offsets, doc_offsets)

    def probabilities(self, num_labels: int) -> NDArray[np.float32]:
        """A row for each token.  -> (N, size)"""
        values = self.token_values("soft_labels")
        if not len(values):
            return np.zeros((0, num_labels), np.float32)
        return arrow.to_matrix(values, num_labels, np.float32, f"{self.where}: soft_labels")

    def class_names(self, name: str) -> tuple[str, ...] | None:
        """The names of a column's class labels."""
        return _class_names(self._features.get(name))

    def scores(self) -> NDArray[np.float32]:
        """The score of each span."""
        _, values = arrow.flatten_lists(self._column("scores"), f"{self.where}: scores")
        if not len(values):
            return np.zeros(0, np.float32)
        if not arrow.import_pyarrow("pyarrow.types").is_floating(values.type):
            raise DataError(f"{self.where}: scores: expected numbers, got {values.type}")
        return arrow.to_numpy(values).astype(np.float32)


def _schema_features(schema: Any) -> Mapping[str, Any]:
    """The features that `datasets` notes in a schema; empty where it did not."""
    try:
        values = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = values["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _class_names(feature: Any) -> tuple[str, ...] | None:
    """The names of class labels, in a feature or in lists of it."""
    while feature:
        if isinstance(feature, list):
            feature = feature[0]
        elif not isinstance(feature, dict):
            return None
        elif feature.get("_type") == "ClassLabel":
            names = feature.get("names")
            if isinstance(names, list) and all(isinstance(name, str) for name in names):
                return tuple(names)
            return None
        else:
            feature = feature.get("feature")
    return None
