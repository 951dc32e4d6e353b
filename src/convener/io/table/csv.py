"""Long tables as CSV: separated by comma, semicolon or tab; lists are JSON in a cell."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from convener.data.issues import Issues
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.encodings import open_text
from convener.errors import DataError
from convener.io.metadata import VERSION_1_COLUMNS, Metadata
from convener.io.table.rows import EMPTY_CELL, LIST_COLUMNS, REQUIRED, ListColumn, SpanRows, TextUnits, check_columns
from convener.storage import decode_utf8

METADATA_DOC_ID = "#convener"
"""Document id of the row that contains the metadata."""
INTEGER_PATTERN = re.compile(r"[+-]?[0-9]{1,15}(?:\.0*)?", re.ASCII)


def read_csv(path: Path, issues: Issues, encoding: str | None = None) -> SpanRows:
    """Read the rows of a CSV file."""
    where = str(path)
    with open_text(path, encoding) as file:
        text = decode_utf8(file.read(), where)
    header = text.split("\n", 1)[0].strip()
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(header), strict=True)
    with _unlimited_cell_size():
        collector = _RowCollector(where)
        try:
            names = [VERSION_1_COLUMNS.get(name.strip(), name.strip()) for name in next(reader, [])]
            check_columns(names, f"{where}:1", issues)
            for cells in reader:
                if not cells:
                    continue
                location = f"{where}:{reader.line_num}"
                if len(cells) != len(names):
                    raise DataError(f"{location}: expected {len(names)} cells, got {len(cells)}")
                collector.add(dict(zip(names, cells, strict=True)), reader.line_num)
        except csv.Error as error:
            raise DataError(f"{where}:{reader.line_num}: not valid CSV: {error}") from None
    return collector.build(has_scores="score" in names)


def _delimiter(header: str) -> str:
    """Return the delimiter that separates the column `doc_id` from others."""
    for delimiter in ",;\t":
        if "doc_id" in (cell.strip(' "') for cell in header.split(delimiter)):
            return delimiter
    return ","


@contextmanager
def _unlimited_cell_size() -> Iterator[None]:
    """Lift the 128 KiB limit of the csv module: a cell may contain a whole document."""
    old_limit = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(old_limit)


class _RowCollector:
    """Collects the rows of a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.metadata: Metadata | None = None
        self.line_numbers, self.unit, self.source = array("q"), array("q"), array("q")
        self.start, self.end, self.label = array("q"), array("q"), array("q")
        self.score = array("f")
        self.units: dict[tuple[str, str], int] = {}
        self.sources: dict[str, int] = {}
        self.types: dict[str, int] = {}
        self.units_with_text_row: set[int] = set()
        self.raw_cells: dict[str, dict[int, str]] = {name: {} for name in _CELL_PARSERS}
        self.parsed_cells: dict[str, dict[int, Any]] = {name: {} for name in _CELL_PARSERS}
        self.has_sentences = False

    def add(self, row: dict[str, str], line: int) -> None:
        """Add one row."""
        location = f"{self.path}:{line}"
        if not any(row.values()):  # spreadsheets may end with empty rows
            return
        if not self.line_numbers and self.metadata is None and row["doc_id"] == METADATA_DOC_ID:
            self.metadata = Metadata.from_json(row.get("text", ""), location)
            return
        if not row["doc_id"] and self.metadata is None:
            raise DataError(f"{location}: expected a doc_id, got an empty cell")
        self.has_sentences = "sentence" in row
        key = (row["doc_id"], row.get("sentence", ""))
        unit = self.units.setdefault(key, len(self.units))
        source = row["source"]
        if not source:
            self.units_with_text_row.add(unit)
        self.line_numbers.append(line)
        self.unit.append(unit)
        self.source.append(self.sources.setdefault(source, len(self.sources)) if source else -1)
        self.start.append(_parse_integer(row["start"], "start", location))
        self.end.append(_parse_integer(row["end"], "end", location))
        label = row["label"]
        self.label.append(self.types.setdefault(label, len(self.types)) if label else -1)
        self.score.append(_parse_score(row.get("score", ""), location))
        for name, parse in _CELL_PARSERS.items():
            if cell := row.get(name, ""):
                self._set_unit_value(name, parse, unit, cell, location)

    def _set_unit_value(self, name: str, parse: Callable[[str, str], Any], unit: int, cell: str, location: str) -> None:
        """Record a cell that describes the unit; other rows of the unit may repeat the value, but not change it."""
        if unit not in self.raw_cells[name]:
            self.raw_cells[name][unit] = cell
            self.parsed_cells[name][unit] = parse(cell, location)
        elif self.raw_cells[name][unit] != cell:
            document = next(key[0] for key, number in self.units.items() if number == unit)
            raise DataError(f"{location}: conflicting {name!r} for document {document!r}")

    def build(self, *, has_scores: bool) -> SpanRows:
        """Return all rows as arrays."""
        keys = list(self.units)
        line_numbers = self.line_numbers
        return SpanRows(
            path=self.path,
            metadata=self.metadata,
            units=TextUnits(
                doc_ids=StringArray.from_list(key[0] for key in keys),
                sentence_ids=StringArray.from_list(key[1] for key in keys) if self.has_sentences else None,
                has_text_row=np.array([unit in self.units_with_text_row for unit in range(len(keys))], bool),
                **self._unit_columns(len(keys)),
            ),
            unit=np.array(self.unit, np.int64),
            source=np.array(self.source, np.int64),
            sources=tuple(self.sources),
            start=np.array(self.start, np.int64),
            end=np.array(self.end, np.int64),
            label=np.array(self.label, np.int64),
            types=tuple(self.types),
            score=np.array(self.score, np.float32) if has_scores else None,
            location=lambda row: f"{self.path}:{line_numbers[row]}",
        )

    def _unit_columns(self, num_units: int) -> dict[str, Any]:
        """Return the fields of `TextUnits` that the cells fill."""
        columns: dict[str, Any] = {}
        if texts := self.parsed_cells["text"]:
            columns["text"] = StringArray.from_list(texts.get(unit, "") for unit in range(num_units))
            columns["has_text"] = np.array([unit in texts for unit in range(num_units)], bool)
        if doc_offsets := self.parsed_cells["doc_offset"]:
            columns["doc_offsets"] = np.array([doc_offsets.get(unit, 0) for unit in range(num_units)], np.int64)
        for name in LIST_COLUMNS:
            if values := self.parsed_cells[name]:
                lengths = [len(values[unit]) if unit in values else -1 for unit in range(num_units)]
                unit_values = [values[unit] for unit in range(num_units) if unit in values]
                columns[name] = ListColumn(self._concatenate(name, unit_values), np.array(lengths, np.int64))
        return columns

    def _concatenate(self, name: str, arrays: list[Any]) -> Any:
        if name == "tokens":
            return StringArray.from_list(token for array in arrays for token in array)
        non_empty = [array for array in arrays if len(array)]
        if len({array.shape[1] for array in non_empty}) > 1:
            raise DataError(f"{self.path}: {name}: rows have different lengths")
        return np.concatenate(non_empty) if non_empty else arrays[0]


def _parse_integer(cell: str, name: str, location: str) -> int:
    """Return the integer in a cell, EMPTY_CELL for an empty one; "3.0" is accepted, as pandas writes it."""
    if not cell:
        return EMPTY_CELL
    if not INTEGER_PATTERN.fullmatch(cell.strip()):
        raise DataError(f"{location}: {name}: expected a whole number, got {cell!r}")
    return int(float(cell))


def _parse_score(cell: str, location: str) -> float:
    if not cell:
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{location}: score: expected a number, got {cell!r}")
    return value


def _parse_list(cell: str, name: str, location: str) -> list[Any]:
    try:
        values = json.loads(cell)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list):
        raise DataError(f"{location}: {name}: expected a JSON list, got {cell!r:.60}")
    return values


def _parse_tokens(cell: str, location: str) -> list[str]:
    values = _parse_list(cell, "tokens", location)
    for value in values:
        if not isinstance(value, str):
            raise DataError(f"{location}: tokens: expected strings, got {value!r:.40}")
    return values


def _parse_token_offsets(cell: str, location: str) -> Any:
    values = _parse_list(cell, "token_offsets", location)
    for pair in values:
        is_integer_pair = isinstance(pair, list) and [type(value) for value in pair] == [int, int]
        if not is_integer_pair or not all(0 <= value < 2**31 for value in pair):
            raise DataError(f"{location}: token_offsets: expected [start, end], got {pair!r:.40}")
    return np.array(values, np.int32).reshape(-1, 2)


def _parse_probabilities(cell: str, location: str) -> Any:
    values = _parse_list(cell, "probabilities", location)
    try:
        rows = np.array(values, np.float32)
    except (ValueError, TypeError, OverflowError):
        rows = np.full(1, np.nan, np.float32)
    if not values:
        return np.zeros((0, 0), np.float32)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise DataError(f"{location}: probabilities: expected one list of numbers per token")
    return rows


_CELL_PARSERS: dict[str, Callable[[str, str], Any]] = {
    "text": lambda cell, location: cell,
    "tokens": _parse_tokens,
    "token_offsets": _parse_token_offsets,
    "doc_offset": lambda cell, location: _parse_integer(cell, "doc_offset", location),
    "probabilities": _parse_probabilities,
}
"""Parsers of the columns that describe a unit."""


def write_csv(rows: SpanRows, path: Path) -> None:
    """Write rows as CSV; the first row after the header contains the metadata."""
    units, metadata = rows.units, rows.metadata
    names = [*REQUIRED, "text"]
    cells: dict[str, list[str]] = {}
    if units.sentence_ids is not None:
        names.insert(1, "sentence")
    if units.text is not None:
        cells["text"] = units.text.to_list()
    if units.doc_offsets is not None:
        cells["doc_offset"] = [str(start) for start in units.doc_offsets.tolist()]
    for name in LIST_COLUMNS:
        if (lists := getattr(units, name)) is not None:
            cells[name] = _json_cells(lists)
    names += [name for name in cells if name != "text"]
    names += ["score"] if rows.score is not None else []
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        if metadata is not None:
            metadata_row = {"doc_id": METADATA_DOC_ID, "text": metadata.to_json()}
            writer.writerow([metadata_row.get(name, "") for name in names])
        writer.writerows(_csv_rows(rows, cells, names))


def _json_cells(lists: ListColumn) -> list[str]:
    """Return the list of each unit as JSON."""
    values = lists.values.to_list() if isinstance(lists.values, StringArray) else lists.values.tolist()
    bounds = lengths_to_offsets(lists.lengths).tolist()
    return [json.dumps(values[a:b], ensure_ascii=False) for a, b in pairwise(bounds)]


def _csv_rows(rows: SpanRows, cells: dict[str, list[str]], names: list[str]) -> Iterator[list[str]]:
    documents = rows.units.doc_ids.to_list()
    sentences = None if rows.units.sentence_ids is None else rows.units.sentence_ids.to_list()
    scores = rows.score if rows.score is not None else np.full(len(rows.unit), np.nan, np.float32)
    columns = (rows.unit, rows.source, rows.start, rows.end, rows.label, scores)
    for unit, source, start, end, label, span_score in zip(*(column.tolist() for column in columns), strict=True):
        row = {"doc_id": documents[unit]}
        if sentences is not None:
            row["sentence"] = sentences[unit]
        if source < 0:
            row |= {name: values[unit] for name, values in cells.items()}
        else:
            row["source"] = rows.sources[source]
        if label >= 0:
            row |= {"start": str(start), "end": str(end), "label": rows.types[label]}
        if not math.isnan(span_score):
            row["score"] = repr(span_score)
        yield [row.get(name, "") for name in names]
