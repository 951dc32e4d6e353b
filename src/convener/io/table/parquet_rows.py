"""Long tables as Parquet: read and written as whole columns, the facts in the schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.io import arrow
from convener.io.facts import Facts
from convener.io.files import decoded
from convener.io.messages import readable
from convener.io.report import Report
from convener.io.table.rows import EMPTY, OPTIONAL, REQUIRED, Lists, Rows, Units, check_columns
from convener.packed import Strings, offsets_of

FACTS = b"convener"


def read_parquet(path: Path, report: Report) -> Rows:
    """The rows of a Parquet file."""
    where = str(path)
    pq = arrow.pyarrow("pyarrow.parquet")
    schema = arrow.parquet_schema(path)
    check_columns(schema.names, where, report)
    wanted = [name for name in schema.names if name in (*REQUIRED, *OPTIONAL)]
    texts = [
        name for name in ("doc_id", "source", "label") if arrow.is_string(schema.field(name).type)
    ]
    with readable(where, "Parquet file"), pq.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read(columns=wanted)
        table.validate(full=True)
    raw = (schema.metadata or {}).get(FACTS)
    facts = None if raw is None else Facts.parse(decoded(raw, where), where)
    with readable(where, "Parquet file"):
        return _Reader(table, where).rows(facts)


class _Reader:
    """Turns the columns of one table into arrays."""

    def __init__(self, table: Any, path: str) -> None:
        self.table, self.path = table, path
        self.names = table.column_names

    def rows(self, facts: Facts | None) -> Rows:
        """All rows."""
        documents, document_names = self._codes("doc_id", numbers=True)
        if (documents < 0).any():
            row = int(np.flatnonzero(documents < 0)[0])
            raise DataError(f"{self.path}: row {row}: expected a doc_id, got null")
        kept, sentence_names = np.zeros(len(documents), np.int64), None
        if "sentence" in self.names:
            kept, sentence_names = self._codes("sentence", numbers=True)
        unit, first = _first_seen(documents, kept)
        source, sources = self._named("source")
        label, types = self._named("label")
        inner = None
        if sentence_names is not None:
            padded = Strings.concat([sentence_names, Strings.of([""])])  # the last is for null
            inner = padded.take(kept[first] % len(padded))
        stated = np.zeros(len(first), bool)
        stated[unit[source < 0]] = True
        self.unit, self.count = unit, len(first)
        path = self.path
        return Rows(
            path=self.path,
            facts=facts,
            units=Units(
                documents=document_names.take(documents[first]),
                sentences=inner,
                stated=stated,
                **self._texts(),
            ),
            unit=unit,
            source=source,
            sources=sources,
            start=self._offsets("start"),
            end=self._offsets("end"),
            label=label,
            types=types,
            score=self._scores(),
            place=lambda row: f"{path}: row {row}",  # keeps the path, not the table
        )

    def _wrong(self, name: str, expected: str, hint: str = "") -> DataError:
        kind = self.table.schema.field(name).type
        return DataError(f"{self.path}: column {name}: expected {expected}, got {kind}{hint}")

    def _codes(self, name: str, *, numbers: bool) -> tuple[NDArray[np.int64], Strings]:
        """Numbers of the distinct values, -1 for null, and the values as strings."""
        pa, types = arrow.pyarrow(), arrow.pyarrow("pyarrow.types")
        column = self.table.column(name)
        if types.is_null(column.type):
            column = column.cast(pa.string())
        if not arrow.is_string(column.type) and not (numbers and types.is_integer(column.type)):
            raise self._wrong(name, "strings or whole numbers" if numbers else "strings")
        return arrow.codes(column)

    def _named(self, name: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Numbers of the distinct names by first appearance, -1 for an empty cell."""
        codes, values = self._codes(name, numbers=False)
        names = values.to_list()
        codes[np.isin(codes, [k for k, text in enumerate(names) if not text])] = -1
        filled = codes >= 0
        ranks, first = _first_seen(codes[filled], np.zeros(int(filled.sum()), np.int64))
        numbered = np.full(len(codes), -1, np.int64)
        numbered[filled] = ranks
        return numbered, tuple(names[code] for code in codes[filled][first].tolist())

    def _offsets(self, name: str) -> NDArray[np.int64]:
        column = self._whole_numbers(name)
        return arrow.numbers(column.fill_null(EMPTY), np.int64)

    def _whole_numbers(self, name: str) -> Any:
        pa, types = arrow.pyarrow(), arrow.pyarrow("pyarrow.types")
        column = self.table.column(name)
        if types.is_floating(column.type):  # as pandas writes whole numbers with gaps
            values = column.to_numpy()
            whole = np.isnan(values) | (np.trunc(values) == values)
            if not whole.all():
                raise self._wrong(name, "whole numbers", f"; row {np.flatnonzero(~whole)[0]}")
            return pa.array(values, from_pandas=True).cast(pa.int64())
        if not types.is_integer(column.type) and not types.is_null(column.type):
            raise self._wrong(name, "whole numbers")
        return column.cast(pa.int64())

    def _scores(self) -> NDArray[np.float32] | None:
        if "score" not in self.names:
            return None
        pa, types = arrow.pyarrow(), arrow.pyarrow("pyarrow.types")
        column = self.table.column("score")
        kind = column.type
        if not (types.is_floating(kind) or types.is_integer(kind) or types.is_null(kind)):
            raise self._wrong("score", "numbers")
        column = column.cast(pa.float32())
        scores = arrow.numbers(column.fill_null(0), np.float32).copy()
        if not np.isfinite(scores).all():
            row = int(np.flatnonzero(~np.isfinite(scores))[0])
            raise DataError(f"{self.path}: row {row}: score: expected a number, got {scores[row]}")
        scores[arrow.numbers(column.is_null(), bool)] = np.nan
        return scores

    def _texts(self) -> dict[str, Any]:
        """What the table says of its units."""
        found: dict[str, Any] = {}
        text, has = self._said("text")
        if text is not None:
            if not arrow.is_string(text.type):
                raise self._wrong("text", "strings")
            packed = arrow.strings(text)
            lengths = np.zeros(self.count, np.int64)
            lengths[has] = packed.lengths
            found |= {"text": Strings(packed.data, offsets_of(lengths)), "has_text": has}
        starts, has = self._said("char_start")
        if starts is not None:
            self._whole_numbers("char_start")
            found["starts"] = np.zeros(self.count, np.int64)
            found["starts"][has] = arrow.numbers(starts, np.int64)
        for name in ("tokens", "chars", "probabilities"):
            column, has = self._said(name)
            if column is not None:
                sizes, values = arrow.opened(column, f"{self.path}: {name}")
                lengths = np.full(self.count, -1, np.int64)
                lengths[has] = sizes
                found[name] = Lists(self._listed(name, values), lengths)
        return found

    def _listed(self, name: str, values: Any) -> Any:
        """The values of a column of lists: strings, or rows of numbers."""
        if name == "tokens":
            if len(values) and not arrow.is_string(values.type):
                raise self._wrong("tokens", "lists of strings")
            return arrow.strings(values) if len(values) else Strings.of([])
        width, dtype = (2, np.int32) if name == "chars" else (0, np.float32)
        if not len(values):
            return np.zeros((0, width), dtype)
        if not arrow.is_list(values.type):
            raise self._wrong(name, "lists of lists of numbers")
        what = f"{self.path}: {name}"
        array = arrow.matrix(values, width or len(values[0]), dtype, what)
        if not np.isfinite(array).all():
            raise DataError(f"{what}: expected numbers, got {array[~np.isfinite(array)][0]}")
        return array

    def _said(self, name: str) -> tuple[Any, NDArray[np.bool_]]:
        """The one value of each unit that has any, in the order of the units, and which have.

        Several rows of a unit may repeat the value; another value is refused.
        """
        has = np.zeros(self.count, bool)
        if name not in self.names or self.table.column(name).null_count == self.table.num_rows:
            return None, has
        column = self.table.column(name)
        given = np.flatnonzero(arrow.numbers(column.is_valid(), bool))
        units, first, back = np.unique(self.unit[given], return_index=True, return_inverse=True)
        has[units] = True
        if len(given) > len(units):
            others = np.setdiff1d(np.arange(len(given)), first)
            same = column.take(given[first[back[others]]])
            if not _equal(column.take(given[others]), same):
                self._conflict(name, given[others], given[first[back[others]]])
        if len(given) == self.table.num_rows and np.array_equal(
            given[first], np.arange(len(given))
        ):
            return column, has
        return column.take(given[first]), has

    def _conflict(self, name: str, rows: NDArray[np.int64], before: NDArray[np.int64]) -> None:
        column = self.table.column(name)
        for row, other in zip(rows.tolist(), before.tolist(), strict=True):
            if column[row] != column[other]:
                document = self.table.column("doc_id")[row].as_py()
                raise DataError(
                    f"{self.path}: row {row}: another {name} of document {document!r} than before"
                )


def _equal(left: Any, right: Any) -> bool:
    """Whether two columns hold the same values, compared without Python objects."""
    return bool(left.combine_chunks().equals(right.combine_chunks()))


def _first_seen(
    outer: NDArray[np.int64], inner: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers the distinct pairs by first appearance; and where each appears first.

    Rows of one unit mostly stand together, so only the first row of each run is sorted.
    """
    if not len(outer):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    breaks = (np.diff(outer) != 0) | (np.diff(inner) != 0)
    heads = np.concatenate([[0], np.flatnonzero(breaks) + 1])
    keys = outer[heads] * (int(inner.max()) + 2) + inner[heads] + 1
    _, first, back = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    runs = np.diff(np.append(heads, len(outer)))
    return np.repeat(rank[back], runs), heads[first[order]]


def write_parquet(rows: Rows, path: Path) -> None:
    """Rows as a Parquet file; only rows of documents hold text and tokens."""
    pa, pq = arrow.pyarrow(), arrow.pyarrow("pyarrow.parquet")
    units = rows.units
    stands = rows.source < 0
    take = pa.array(rows.unit)
    columns = {"doc_id": arrow.string_array(units.documents).take(take)}
    if units.sentences is not None:
        columns["sentence"] = pa.array(rows.unit)
    named = pa.array(rows.source, mask=stands)
    columns["source"] = pa.array(rows.sources, pa.string()).take(named)
    empty = ~rows.marked
    for name in ("start", "end"):
        columns[name] = pa.array(getattr(rows, name).astype(np.int32), mask=empty)
    columns["label"] = pa.array(rows.types, pa.string()).take(pa.array(rows.label, mask=empty))
    if rows.score is not None:
        columns["score"] = pa.array(rows.score, mask=np.isnan(rows.score))
    if units.text is not None:
        of_unit = pa.array(rows.unit, mask=~stands)
        columns["text"] = arrow.string_array(units.text).take(of_unit)
        columns["char_start"] = pa.array(units.starts).take(of_unit)
    lists = {"tokens": units.tokens, "chars": units.chars, "probabilities": units.probabilities}
    for name, found in lists.items():
        if found is None:
            continue
        if name == "tokens":
            values = arrow.string_array(found.values)
        elif name == "chars":
            flat = pa.array(np.ascontiguousarray(found.values).reshape(-1))
            values = pa.FixedSizeListArray.from_arrays(flat, 2)
        else:
            values = arrow.rows(found.values)
        lengths = np.zeros(len(stands), np.int64)
        lengths[stands] = found.lengths
        columns[name] = arrow.list_array(lengths, values, ~stands)
    table = pa.table(columns)
    if rows.facts is not None:
        table = table.replace_schema_metadata({FACTS: rows.facts.to_json().encode()})
    pq.write_table(table, path)
