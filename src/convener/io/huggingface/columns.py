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
from convener.io.messages import readable
from convener.packed import Strings, offsets_of, piece_at
from convener.tags import TagSet


class Columns:
    """Columns of one table; `where` names it in messages."""

    def __init__(self, table: Any, where: str, features: Mapping[str, Any] | None = None) -> None:
        self.table, self.where = table, where
        self.names: list[str] = table.column_names
        self._features = features or _features(table.schema)
        with readable(where, "Arrow table"):
            table.validate(full=True)
        self.lengths, words = arrow.opened(self._column("tokens"), f"{where}: tokens")
        if len(words) and not arrow.is_string(words.type):
            raise DataError(f"{where}: tokens: expected lists of strings, got {words.type}")
        self.tokens = arrow.strings(words) if len(words) else Strings.of([])
        self.offsets = offsets_of(self.lengths)

    def dataset(
        self, tags: TagSet, votes: Mapping[str, NDArray[np.int16]], **parts: Any
    ) -> Dataset:
        """The dataset with these votes and parts."""
        empty = np.zeros((len(self.tokens), 0), np.int16)
        return Dataset(
            tags=tags,
            tokens=self.tokens,
            offsets=self.offsets,
            sources=tuple(votes),
            votes=np.stack(list(votes.values()), axis=1) if votes else empty,
            **parts,
        )

    def _column(self, name: str) -> Any:
        if self.names.count(name) != 1:
            listed = ", ".join(self.names) or "none"
            raise DataError(f"{self.where}: expected one column {name!r}, got {listed}")
        return self.table.column(name)

    def row(self, token: int) -> str:
        """The row of a token, for messages."""
        return f"{self.where}: row {piece_at(self.offsets, token)}"

    def by_token(self, name: str) -> Any:
        """The values of a list column that has one for each token."""
        lengths, values = arrow.opened(self._column(name), f"{self.where}: {name}")
        wrong = np.flatnonzero(lengths != self.lengths)
        if len(wrong):
            row = int(wrong[0])
            raise DataError(
                f"{self.where}: row {row}: expected {name} of {self.lengths[row]} tokens, "
                f"got {lengths[row]}"
            )
        return values

    def ids(self, name: str) -> NDArray[np.int16]:
        """Label ids as they are; whether they are in range is the dataset's question."""
        values = self.by_token(name)
        if not len(values):
            return np.zeros(0, np.int16)
        found = arrow.numbers(values)
        if found.dtype.kind not in "iu" or not -1 <= found.min() <= found.max() < 2**15:
            raise DataError(f"{self.where}: {name}: expected label ids, got {values.type}")
        return found.astype(np.int16)

    def strings(self, name: str) -> Strings:
        """A column of strings, or of numbers as strings."""
        column = self._column(name)
        types = arrow.pyarrow("pyarrow.types")
        if column.null_count or not (arrow.is_string(column.type) or types.is_integer(column.type)):
            raise DataError(f"{self.where}: {name}: expected strings without nulls")
        return arrow.strings(column)

    def text(self) -> Text:
        """The text of each row and the place of its tokens."""
        pairs = self.by_token("chars")
        chars = np.zeros((0, 2), np.int32)
        if len(pairs):
            chars = arrow.matrix(pairs, 2, np.int32, f"{self.where}: chars")
        text = self.strings("text")
        starts = np.zeros(len(self.lengths), np.int64)
        if "char_start" in self.names:
            column = self._column("char_start")
            if column.null_count or not arrow.pyarrow("pyarrow.types").is_integer(column.type):
                raise DataError(f"{self.where}: char_start: expected whole numbers without nulls")
            starts = arrow.numbers(column).astype(np.int64)
        return Text(text, chars, starts)

    def probabilities(self, size: int) -> NDArray[np.float32]:
        """A row for each token.  -> (N, size)"""
        rows = self.by_token("soft_labels")
        if not len(rows):
            return np.zeros((0, size), np.float32)
        return arrow.matrix(rows, size, np.float32, f"{self.where}: soft_labels")

    def class_names(self, name: str) -> tuple[str, ...] | None:
        """The names of a column's class labels."""
        return _class_names(self._features.get(name))

    def scores(self) -> NDArray[np.float32]:
        """The score of each span."""
        _, values = arrow.opened(self._column("scores"), f"{self.where}: scores")
        if not len(values):
            return np.zeros(0, np.float32)
        if not arrow.pyarrow("pyarrow.types").is_floating(values.type):
            raise DataError(f"{self.where}: scores: expected numbers, got {values.type}")
        return arrow.numbers(values).astype(np.float32)


def _features(schema: Any) -> Mapping[str, Any]:
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
