"""Long tables as Parquet, converted column by column; the metadata is in the schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.issues import Issues, wrap_errors
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.errors import DataError
from convener.io import arrow
from convener.io.metadata import VERSION_1_COLUMNS, Metadata
from convener.io.table.rows import (
    EMPTY_CELL,
    LIST_COLUMNS,
    OPTIONAL,
    REQUIRED,
    ListColumn,
    SpanRows,
    TextUnits,
    check_columns,
)
from convener.storage import decode_utf8

METADATA_KEY = b"convener"
"""Key of the metadata in the schema."""


def read_parquet(path: Path, issues: Issues) -> SpanRows:
    """Read the rows of a Parquet file."""
    where = str(path)
    pq = arrow.import_pyarrow("pyarrow.parquet")
    schema = arrow.read_parquet_schema(path)
    names = {name: VERSION_1_COLUMNS.get(name, name) for name in schema.names}
    check_columns([names[name] for name in schema.names], where, issues)
    columns = [name for name in schema.names if names[name] in (*REQUIRED, *OPTIONAL)]
    string_columns = [name for name in ("doc_id", "source", "label") if arrow.is_string(schema.field(name).type)]
    with (
        wrap_errors(where, "Parquet file"),
        pq.ParquetFile(path, read_dictionary=string_columns) as file,
    ):
        table = file.read(columns=columns).rename_columns([names[name] for name in columns])
        table.validate(full=True)
    raw = (schema.metadata or {}).get(METADATA_KEY)
    metadata = None if raw is None else Metadata.from_json(decode_utf8(raw, where), where)
    with wrap_errors(where, "Parquet file"):
        return _Reader(table, where).build(metadata)


def read_arrow(table: Any, where: str, issues: Issues) -> SpanRows:
    """Read the rows of an Arrow table in memory; `where` is its name in messages."""
    names = [VERSION_1_COLUMNS.get(name, name) for name in table.column_names]
    check_columns(names, where, issues)
    known = [index for index, name in enumerate(names) if name in (*REQUIRED, *OPTIONAL)]
    with wrap_errors(where, "table"):
        return _Reader(table.select(known).rename_columns([names[index] for index in known]), where).build(None)


class _Reader:
    """Converts the columns of one Arrow table to arrays."""

    def __init__(self, table: Any, path: str) -> None:
        self.table, self.path = table, path
        self.names = table.column_names

    def build(self, metadata: Metadata | None) -> SpanRows:
        """Return all rows."""
        doc_codes, distinct_doc_ids = self._dictionary_codes("doc_id", allow_integers=True)
        if (doc_codes < 0).any():
            row = int(np.flatnonzero(doc_codes < 0)[0])
            raise DataError(f"{self.path}: row {row}: expected a doc_id, got null")
        sentence_codes, distinct_sentence_ids = np.zeros(len(doc_codes), np.int64), None
        if "sentence" in self.names:
            sentence_codes, distinct_sentence_ids = self._dictionary_codes("sentence", allow_integers=True)
        unit, first_rows = _factorize_pairs(doc_codes, sentence_codes)
        source, sources = self._factorize_names("source")
        label, types = self._factorize_names("label")
        sentence_ids = None
        if distinct_sentence_ids is not None:
            padded = StringArray.concat(
                [distinct_sentence_ids, StringArray.from_list([""])]
            )  # -1 (null) selects the last
            sentence_ids = padded.take(sentence_codes[first_rows] % len(padded))
        has_text_row = np.zeros(len(first_rows), bool)
        has_text_row[unit[source < 0]] = True
        self.unit, self.num_units = unit, len(first_rows)
        path = self.path
        return SpanRows(
            path=self.path,
            metadata=metadata,
            units=TextUnits(
                doc_ids=distinct_doc_ids.take(doc_codes[first_rows]),
                sentence_ids=sentence_ids,
                has_text_row=has_text_row,
                **self._unit_columns(),
            ),
            unit=unit,
            source=source,
            sources=sources,
            start=self._offsets("start"),
            end=self._offsets("end"),
            label=label,
            types=types,
            score=self._scores(),
            location=lambda row: f"{path}: row {row}",  # captures the path, not the table
        )

    def _type_error(self, name: str, expected: str, hint: str = "") -> DataError:
        arrow_type = self.table.schema.field(name).type
        return DataError(f"{self.path}: column {name}: expected {expected}, got {arrow_type}{hint}")

    def _dictionary_codes(self, name: str, *, allow_integers: bool) -> tuple[NDArray[np.int64], StringArray]:
        """Return the code of each value (-1 = null) and the distinct values as strings.  -> (R,), (C,)"""
        pa, types = arrow.import_pyarrow(), arrow.import_pyarrow("pyarrow.types")
        column = self.table.column(name)
        if types.is_null(column.type):
            column = column.cast(pa.string())
        if not arrow.is_string(column.type) and not (allow_integers and types.is_integer(column.type)):
            raise self._type_error(name, "strings or whole numbers" if allow_integers else "strings")
        return arrow.dictionary_codes(column)

    def _factorize_names(self, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return the index of each name (-1 = empty cell) and the names by first appearance.  -> (R,), names"""
        codes, values = self._dictionary_codes(name, allow_integers=False)
        names = values.to_list()
        codes[np.isin(codes, [k for k, text in enumerate(names) if not text])] = -1
        filled = codes >= 0
        ranks, first_rows = _factorize_pairs(codes[filled], np.zeros(int(filled.sum()), np.int64))
        name_ids = np.full(len(codes), -1, np.int64)
        name_ids[filled] = ranks
        return name_ids, tuple(names[code] for code in codes[filled][first_rows].tolist())

    def _offsets(self, name: str) -> NDArray[np.int64]:
        column = self._integers(name)
        return arrow.to_numpy(column.fill_null(EMPTY_CELL), np.int64)

    def _integers(self, name: str) -> Any:
        pa, types = arrow.import_pyarrow(), arrow.import_pyarrow("pyarrow.types")
        column = self.table.column(name)
        if types.is_floating(column.type):  # pandas writes integer columns with missing values as floats
            values = column.to_numpy()
            is_integer = np.isnan(values) | (np.trunc(values) == values)
            if not is_integer.all():
                raise self._type_error(name, "whole numbers", f"; row {np.flatnonzero(~is_integer)[0]}")
            return pa.array(values, from_pandas=True).cast(pa.int64())
        if not types.is_integer(column.type) and not types.is_null(column.type):
            raise self._type_error(name, "whole numbers")
        return column.cast(pa.int64())

    def _scores(self) -> NDArray[np.float32] | None:
        if "score" not in self.names:
            return None
        pa, types = arrow.import_pyarrow(), arrow.import_pyarrow("pyarrow.types")
        column = self.table.column("score")
        arrow_type = column.type
        if not (types.is_floating(arrow_type) or types.is_integer(arrow_type) or types.is_null(arrow_type)):
            raise self._type_error("score", "numbers")
        column = column.cast(pa.float32())
        scores = arrow.to_numpy(column.fill_null(0), np.float32).copy()
        if not np.isfinite(scores).all():
            row = int(np.flatnonzero(~np.isfinite(scores))[0])
            raise DataError(f"{self.path}: row {row}: score: expected a number, got {scores[row]}")
        scores[arrow.to_numpy(column.is_null(), bool)] = np.nan
        return scores

    def _unit_columns(self) -> dict[str, Any]:
        """Return the fields of `TextUnits` that the table fills."""
        columns: dict[str, Any] = {}
        text, has_value = self._value_per_unit("text")
        if text is not None:
            if not arrow.is_string(text.type):
                raise self._type_error("text", "strings")
            packed = arrow.to_strings(text)
            lengths = np.zeros(self.num_units, np.int64)
            lengths[has_value] = packed.lengths
            columns |= {
                "text": StringArray(packed.data, lengths_to_offsets(lengths)),
                "has_text": has_value,
            }
        doc_offsets, has_value = self._value_per_unit("doc_offset")
        if doc_offsets is not None:
            self._integers("doc_offset")
            columns["doc_offsets"] = np.zeros(self.num_units, np.int64)
            columns["doc_offsets"][has_value] = arrow.to_numpy(doc_offsets, np.int64)
        for name in LIST_COLUMNS:
            column, has_value = self._value_per_unit(name)
            if column is not None:
                list_lengths, values = arrow.flatten_lists(column, f"{self.path}: {name}")
                lengths = np.full(self.num_units, -1, np.int64)
                lengths[has_value] = list_lengths
                columns[name] = ListColumn(self._list_values(name, values), lengths)
        return columns

    def _list_values(self, name: str, values: Any) -> Any:
        """Return the values of a list column: strings, or a matrix with one row per token."""
        if name == "tokens":
            if len(values) and not arrow.is_string(values.type):
                raise self._type_error("tokens", "lists of strings")
            return arrow.to_strings(values) if len(values) else StringArray.from_list([])
        width, dtype = (2, np.int32) if name == "token_offsets" else (0, np.float32)
        if not len(values):
            return np.zeros((0, width), dtype)
        if not arrow.is_list(values.type):
            raise self._type_error(name, "lists of lists of numbers")
        column_name = f"{self.path}: {name}"
        array = arrow.to_matrix(values, width or len(values[0]), dtype, column_name)
        if not np.isfinite(array).all():
            raise DataError(f"{column_name}: expected numbers, got {array[~np.isfinite(array)][0]}")
        return array

    def _value_per_unit(self, name: str) -> tuple[Any, NDArray[np.bool_]]:
        """Return the values of the units that have one, in the order of units, and whether each unit has one.

        Several rows of a unit may repeat the value; different values are an error.
        """
        has_value = np.zeros(self.num_units, bool)
        if name not in self.names or self.table.column(name).null_count == self.table.num_rows:
            return None, has_value
        column = self.table.column(name)
        valid_rows = np.flatnonzero(arrow.to_numpy(column.is_valid(), bool))
        units, first, inverse = np.unique(self.unit[valid_rows], return_index=True, return_inverse=True)
        has_value[units] = True
        if len(valid_rows) > len(units):
            repeated = np.setdiff1d(np.arange(len(valid_rows)), first)
            expected = column.take(valid_rows[first[inverse[repeated]]])
            if not _equal(column.take(valid_rows[repeated]), expected):
                self._raise_conflict(name, valid_rows[repeated], valid_rows[first[inverse[repeated]]])
        if len(valid_rows) == self.table.num_rows and np.array_equal(valid_rows[first], np.arange(len(valid_rows))):
            return column, has_value
        return column.take(valid_rows[first]), has_value

    def _raise_conflict(self, name: str, rows: NDArray[np.int64], first_rows: NDArray[np.int64]) -> None:
        column = self.table.column(name)
        for row, other in zip(rows.tolist(), first_rows.tolist(), strict=True):
            if column[row] != column[other]:
                document = self.table.column("doc_id")[row].as_py()
                raise DataError(f"{self.path}: row {row}: conflicting {name!r} for document {document!r}")


def _equal(left: Any, right: Any) -> bool:
    """Whether two columns have equal values, compared without Python objects."""
    return bool(left.combine_chunks().equals(right.combine_chunks()))


def _factorize_pairs(
    first_codes: NDArray[np.int64], second_codes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct pairs by first appearance; returns the number of each row and the first row of each pair.

    Rows of a unit are mostly consecutive, so only the first row of each run is sorted.
    """
    if not len(first_codes):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    breaks = (np.diff(first_codes) != 0) | (np.diff(second_codes) != 0)
    run_starts = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    keys = first_codes[run_starts] * (int(second_codes.max()) + 2) + second_codes[run_starts] + 1
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    run_lengths = np.diff(np.append(run_starts, len(first_codes)))
    return np.repeat(rank[inverse], run_lengths), run_starts[first[order]]


def write_parquet(rows: SpanRows, path: Path) -> None:
    """Write rows as Parquet; only text rows contain text and tokens."""
    pa, pq = arrow.import_pyarrow(), arrow.import_pyarrow("pyarrow.parquet")
    units = rows.units
    is_text_row = rows.source < 0
    unit_indices = pa.array(rows.unit)
    columns = {"doc_id": arrow.from_strings(units.doc_ids).take(unit_indices)}
    if units.sentence_ids is not None:
        columns["sentence"] = pa.array(rows.unit)
    source_indices = pa.array(rows.source, mask=is_text_row)
    columns["source"] = pa.array(rows.sources, pa.string()).take(source_indices)
    no_span = ~rows.has_span
    for name in ("start", "end"):
        columns[name] = pa.array(getattr(rows, name).astype(np.int32), mask=no_span)
    columns["label"] = pa.array(rows.types, pa.string()).take(pa.array(rows.label, mask=no_span))
    if rows.score is not None:
        columns["score"] = pa.array(rows.score, mask=np.isnan(rows.score))
    if units.text is not None:
        text_unit_indices = pa.array(rows.unit, mask=~is_text_row)
        columns["text"] = arrow.from_strings(units.text).take(text_unit_indices)
        columns["doc_offset"] = pa.array(units.doc_offsets).take(text_unit_indices)
    for name in LIST_COLUMNS:
        list_column: ListColumn | None = getattr(units, name)
        if list_column is None:
            continue
        if name == "tokens":
            values = arrow.from_strings(list_column.values)
        elif name == "token_offsets":
            flat = pa.array(np.ascontiguousarray(list_column.values).reshape(-1))
            values = pa.FixedSizeListArray.from_arrays(flat, 2)
        else:
            values = arrow.from_matrix(list_column.values)
        lengths = np.zeros(len(is_text_row), np.int64)
        lengths[is_text_row] = list_column.lengths
        columns[name] = arrow.list_array(lengths, values, ~is_text_row)
    table = pa.table(columns)
    if rows.metadata is not None:
        table = table.replace_schema_metadata({METADATA_KEY: rows.metadata.to_json().encode()})
    pq.write_table(table, path)
