"""Conversion between Arrow columns and packed arrays, and the columns of Hugging Face tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset, Text
from convener.data.issues import wrap_errors
from convener.data.ragged import Array, StringArray, lengths_to_offsets, locate
from convener.data.tags import TagSet
from convener.errors import DataError, require
from convener.io.metadata import VERSION_1_COLUMNS

VOTES_PREFIX = "votes:"
"""Prefix of the columns of votes; the name of the source follows."""


def import_pyarrow(module: str = "pyarrow") -> Any:
    """Import pyarrow or one of its modules; a MissingDependencyError names the extra."""
    return require(module, extra="arrow", purpose="Arrow and Parquet data")


def read_parquet_schema(path: Path) -> Any:
    """Return the Arrow schema of a Parquet file."""
    with wrap_errors(str(path), "Parquet file"):
        return import_pyarrow("pyarrow.parquet").read_schema(path)


def is_list(arrow_type: Any) -> bool:
    """Whether an Arrow type is a list, of any layout."""
    types = import_pyarrow("pyarrow.types")
    return bool(types.is_list(arrow_type) or types.is_large_list(arrow_type) or types.is_fixed_size_list(arrow_type))


def is_string(arrow_type: Any) -> bool:
    """Whether an Arrow type is a string, plain or dictionary-encoded."""
    types = import_pyarrow("pyarrow.types")
    if types.is_dictionary(arrow_type):
        arrow_type = arrow_type.value_type
    return bool(types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type))


def to_strings(column: Any) -> StringArray:
    """Return the strings of a column without nulls as a packed copy."""
    pa = import_pyarrow()
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return StringArray.concat(_chunk_to_strings(chunk) for chunk in chunks if len(chunk))


def _chunk_to_strings(chunk: Any) -> StringArray:
    pa = import_pyarrow()
    if chunk.type not in (pa.string(), pa.large_string()):
        chunk = chunk.cast(pa.large_string())
    offset_dtype = np.int32 if chunk.type == pa.string() else np.int64
    _, bounds, data = chunk.buffers()
    used = slice(chunk.offset, chunk.offset + len(chunk) + 1)
    raw = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return StringArray(raw, np.frombuffer(bounds, offset_dtype)[used].astype(np.int64))


def to_numpy(column: Any, dtype: Any = None) -> Array:
    """Return a column without nulls as an array; without `dtype` it keeps the type of the column."""
    options = {"zero_copy_only": False} if isinstance(column, import_pyarrow().Array) else {}
    return np.asarray(column.to_numpy(**options), dtype)


def dictionary_codes(column: Any) -> tuple[NDArray[np.int64], StringArray]:
    """Return the code of each value (-1 = null) and the distinct values as strings.  -> (N,), (C,)"""
    pa = import_pyarrow()
    if not import_pyarrow("pyarrow.types").is_dictionary(column.type):
        column = column.dictionary_encode()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.unify_dictionaries().chunks or [column.combine_chunks()])
    indices = to_numpy(column.indices.fill_null(-1)).astype(np.int64)
    values = column.dictionary
    if values.null_count:  # the dictionary itself may contain a null
        indices = np.where(to_numpy(values.is_null())[indices], -1, indices)
        values = values.fill_null("")
    return indices, to_strings(values.cast(pa.large_string()))


def flatten_lists(column: Any, column_name: str) -> tuple[NDArray[np.int64], Any]:
    """Return the length of each list and the values of all lists; nulls are an error.

    `column_name` names the column in messages: "train.parquet: tokens".
    """
    compute = import_pyarrow("pyarrow.compute")
    if not is_list(column.type):
        raise DataError(f"{column_name}: expected a list column, got {column.type}")
    if column.null_count:
        row = int(np.flatnonzero(to_numpy(compute.is_null(column), bool))[0])
        raise DataError(f"{column_name}: row {row} is null")
    lengths = to_numpy(compute.list_value_length(column), np.int64)
    values = compute.list_flatten(column)
    if values.null_count:
        index = int(np.flatnonzero(to_numpy(compute.is_null(values), bool))[0])
        raise DataError(f"{column_name}: row {locate(lengths_to_offsets(lengths), index)[0]} contains a null")
    return lengths, values


def to_matrix(values: Any, width: int, dtype: Any, column_name: str) -> Array:
    """Return a column of N lists of equal length as a matrix.  -> (N, width)"""
    lengths, flat = flatten_lists(values, column_name)
    if (lengths != width).any():
        wrong = lengths[lengths != width][0]
        raise DataError(f"{column_name}: expected {width} numbers each, got {wrong}")
    allowed_kinds = "iu" if np.dtype(dtype).kind == "i" else "iuf"
    numbers = to_numpy(flat) if len(flat) else np.zeros(0, dtype)
    if numbers.dtype.kind not in allowed_kinds:
        raise DataError(f"{column_name}: expected {np.dtype(dtype)}, got {flat.type}")
    if allowed_kinds == "iu" and len(numbers) and not 0 <= numbers.min() <= numbers.max() < 2**31:
        raise DataError(f"{column_name}: expected offsets, got {numbers.min()} to {numbers.max()}")
    return numbers.astype(dtype).reshape(-1, width)


def from_strings(packed: StringArray) -> Any:
    """Return an Arrow array over the same buffers, with 32-bit offsets where they suffice."""
    pa = import_pyarrow()
    compact = packed.compact()
    fits_int32 = len(compact.data) < 2**31
    bounds = compact.offsets.astype(np.int32) if fits_int32 else compact.offsets
    arrow_type = pa.string() if fits_int32 else pa.large_string()
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(compact.data)]
    return pa.Array.from_buffers(arrow_type, len(packed), buffers)


def list_array(lengths: NDArray[Any], values: Any, null_mask: NDArray[np.bool_] | None = None) -> Any:
    """Return an Arrow array of lists with these lengths; masked lists are null and must have length 0."""
    pa = import_pyarrow()
    fits_int32 = len(values) < 2**31
    offsets = pa.array(lengths_to_offsets(lengths).astype(np.int32 if fits_int32 else np.int64))
    array_type = pa.ListArray if fits_int32 else pa.LargeListArray
    return array_type.from_arrays(offsets, values, mask=None if null_mask is None else pa.array(null_mask))


def from_matrix(array: Array) -> Any:
    """Return each row of a matrix as a list.  (N, width) -> N lists"""
    pa = import_pyarrow()
    flat = pa.array(np.ascontiguousarray(array).reshape(-1))
    return list_array(np.full(len(array), array.shape[1]), flat)


class HFTable:
    """Checked access to the columns of a table with one row per sentence; `where` names the table in messages."""

    def __init__(self, table: Any, where: str, features: Mapping[str, Any] | None = None) -> None:
        self.names: list[str] = [VERSION_1_COLUMNS.get(name, name) for name in table.column_names]
        self.table, self.where = table.rename_columns(self.names), where
        self._features = features or _schema_features(table.schema)
        with wrap_errors(where, "Arrow table"):
            table.validate(full=True)
        self.lengths, flat_tokens = flatten_lists(self._column("tokens"), f"{where}: tokens")
        if len(flat_tokens) and not is_string(flat_tokens.type):
            raise DataError(f"{where}: tokens: expected lists of strings, got {flat_tokens.type}")
        self.tokens = to_strings(flat_tokens) if len(flat_tokens) else StringArray.from_list([])
        self.offsets = lengths_to_offsets(self.lengths)

    def to_dataset(self, tags: TagSet, votes: Mapping[str, NDArray[np.int16]], **fields: Any) -> Dataset:
        """Return a dataset with the tokens of the table, these votes by source, and further fields."""
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
        """Return a column that must exist exactly once."""
        if self.names.count(name) != 1:
            column_names = ", ".join(self.names) or "none"
            raise DataError(f"{self.where}: expected one column {name!r}, got {column_names}")
        return self.table.column(name)

    def row_location(self, token: int) -> str:
        """Return the table and the row of a token, for messages."""
        return f"{self.where}: row {locate(self.offsets, token)[0]}"

    def token_values(self, name: str) -> Any:
        """Return the values of a list column, one per token."""
        lengths, values = flatten_lists(self._column(name), f"{self.where}: {name}")
        mismatched = np.flatnonzero(lengths != self.lengths)
        if len(mismatched):
            row = int(mismatched[0])
            raise DataError(
                f"{self.where}: row {row}: expected {name} for {self.lengths[row]} tokens, got {lengths[row]}"
            )
        return values

    def label_ids(self, name: str) -> NDArray[np.int16]:
        """Return the label ids of a column.  -> (N,) The dataset checks their range."""
        values = self.token_values(name)
        if not len(values):
            return np.zeros(0, np.int16)
        ids = to_numpy(values)
        if ids.dtype.kind not in "iu" or not -1 <= ids.min() <= ids.max() < 2**15:
            raise DataError(f"{self.where}: {name}: expected label ids, got {values.type}")
        return ids.astype(np.int16)

    def strings(self, name: str) -> StringArray:
        """Return a column of strings or integers as strings."""
        column = self._column(name)
        types = import_pyarrow("pyarrow.types")
        if column.null_count or not (is_string(column.type) or types.is_integer(column.type)):
            raise DataError(f"{self.where}: {name}: expected strings without nulls")
        return to_strings(column)

    def text(self) -> Text:
        """Return the text of each row and the offsets of its tokens."""
        offset_pairs = self.token_values("token_offsets")
        token_offsets = np.zeros((0, 2), np.int32)
        if len(offset_pairs):
            token_offsets = to_matrix(offset_pairs, 2, np.int32, f"{self.where}: token_offsets")
        text = self.strings("text")
        doc_offsets = np.zeros(len(self.lengths), np.int64)
        if "doc_offset" in self.names:
            column = self._column("doc_offset")
            if column.null_count or not import_pyarrow("pyarrow.types").is_integer(column.type):
                raise DataError(f"{self.where}: doc_offset: expected whole numbers without nulls")
            doc_offsets = to_numpy(column).astype(np.int64)
        return Text(text, token_offsets, doc_offsets)

    def probabilities(self, num_labels: int) -> NDArray[np.float32]:
        """Return the label probabilities of each token.  -> (N, num_labels)"""
        values = self.token_values("soft_labels")
        if not len(values):
            return np.zeros((0, num_labels), np.float32)
        return to_matrix(values, num_labels, np.float32, f"{self.where}: soft_labels")

    def class_names(self, name: str) -> tuple[str, ...] | None:
        """Return the class names of a column of class labels; None for other columns."""
        return _class_names(self._features.get(name))

    def scores(self) -> NDArray[np.float32]:
        """Return the score of each span.  -> (S,)"""
        _, values = flatten_lists(self._column("scores"), f"{self.where}: scores")
        if not len(values):
            return np.zeros(0, np.float32)
        if not import_pyarrow("pyarrow.types").is_floating(values.type):
            raise DataError(f"{self.where}: scores: expected numbers, got {values.type}")
        return to_numpy(values).astype(np.float32)


def _schema_features(schema: Any) -> Mapping[str, Any]:
    """Return the features that `datasets` stores in a schema; empty if there are none."""
    try:
        values = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = values["info"]["features"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return features if isinstance(features, dict) else {}


def _class_names(feature: Any) -> tuple[str, ...] | None:
    """Return the class names of a feature, which may be nested in lists."""
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
