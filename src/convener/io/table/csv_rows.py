"""Long tables as CSV: any of , ; and tab, quoted as usual, lists as JSON in a cell."""

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

from convener.errors import DataError
from convener.io.facts import Facts
from convener.io.files import decoded
from convener.io.report import Report
from convener.io.table.rows import EMPTY, REQUIRED, Lists, Rows, Units, check_columns
from convener.packed import Strings, offsets_of

FACTS = "#convener"
"""What stands for a document id in the row that holds the facts."""
LISTS = ("tokens", "chars", "probabilities")
WHOLE = re.compile(r"[+-]?[0-9]{1,15}(?:\.0*)?", re.ASCII)


def read_csv(path: Path, report: Report) -> Rows:
    """The rows of a CSV file."""
    where = str(path)
    text = decoded(path.read_bytes(), where)
    header = text.split("\n", 1)[0].strip()
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(header), strict=True)
    with _long_cells():
        table = _Table(where)
        try:
            names = [name.strip() for name in next(reader, [])]
            check_columns(names, f"{where}:1", report)
            for cells in reader:
                if not cells:
                    continue
                place = f"{where}:{reader.line_num}"
                if len(cells) != len(names):
                    raise DataError(f"{place}: expected {len(names)} cells, got {len(cells)}")
                table.add(dict(zip(names, cells, strict=True)), reader.line_num)
        except csv.Error as error:
            raise DataError(f"{where}:{reader.line_num}: not CSV: {error}") from None
    return table.rows(score="score" in names)


def _delimiter(header: str) -> str:
    for mark in ",;\t":
        if "doc_id" in (cell.strip(' "') for cell in header.split(mark)):
            return mark
    return ","


@contextmanager
def _long_cells() -> Iterator[None]:
    """Lets cells be longer than the csv module's 128 KiB: a document is one cell."""
    before = csv.field_size_limit(2**31 - 1)
    try:
        yield
    finally:
        csv.field_size_limit(before)


class _Table:
    """Collects the rows of a file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.facts: Facts | None = None
        self.lines, self.unit, self.source = array("q"), array("q"), array("q")
        self.start, self.end, self.label = array("q"), array("q"), array("q")
        self.score = array("f")
        self.units: dict[tuple[str, str], int] = {}
        self.sources: dict[str, int] = {}
        self.types: dict[str, int] = {}
        self.stated: set[int] = set()
        self.raw: dict[str, dict[int, str]] = {name: {} for name in _PARSED}
        self.parsed: dict[str, dict[int, Any]] = {name: {} for name in _PARSED}
        self.with_sentences = False

    def add(self, row: dict[str, str], line: int) -> None:
        """One row."""
        place = f"{self.path}:{line}"
        if not any(row.values()):  # as spreadsheets leave them at the end
            return
        if not self.lines and self.facts is None and row["doc_id"] == FACTS:
            self.facts = Facts.parse(row.get("text", ""), place)
            return
        if not row["doc_id"] and self.facts is None:
            raise DataError(f"{place}: expected a doc_id, got an empty cell")
        self.with_sentences = "sentence" in row
        key = (row["doc_id"], row.get("sentence", ""))
        unit = self.units.setdefault(key, len(self.units))
        source = row["source"]
        if not source:
            self.stated.add(unit)
        self.lines.append(line)
        self.unit.append(unit)
        self.source.append(self.sources.setdefault(source, len(self.sources)) if source else -1)
        self.start.append(_whole(row["start"], "start", place))
        self.end.append(_whole(row["end"], "end", place))
        label = row["label"]
        self.label.append(self.types.setdefault(label, len(self.types)) if label else -1)
        self.score.append(_number(row.get("score", ""), place))
        for name, parse in _PARSED.items():
            if cell := row.get(name, ""):
                self._say(name, parse, unit, cell, place)

    def _say(
        self, name: str, parse: Callable[[str, str], Any], unit: int, cell: str, place: str
    ) -> None:
        """Keep what a row says of its unit; another row may repeat it, not change it."""
        if unit not in self.raw[name]:
            self.raw[name][unit] = cell
            self.parsed[name][unit] = parse(cell, place)
        elif self.raw[name][unit] != cell:
            document = next(key[0] for key, number in self.units.items() if number == unit)
            raise DataError(f"{place}: another {name} of document {document!r} than before")

    def rows(self, *, score: bool) -> Rows:
        """All rows, as arrays."""
        keys = list(self.units)
        lines = self.lines
        return Rows(
            path=self.path,
            facts=self.facts,
            units=Units(
                documents=Strings.of(key[0] for key in keys),
                sentences=Strings.of(key[1] for key in keys) if self.with_sentences else None,
                stated=np.array([unit in self.stated for unit in range(len(keys))], bool),
                **self._texts(len(keys)),
            ),
            unit=np.array(self.unit, np.int64),
            source=np.array(self.source, np.int64),
            sources=tuple(self.sources),
            start=np.array(self.start, np.int64),
            end=np.array(self.end, np.int64),
            label=np.array(self.label, np.int64),
            types=tuple(self.types),
            score=np.array(self.score, np.float32) if score else None,
            place=lambda row: f"{self.path}:{lines[row]}",
        )

    def _texts(self, count: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if texts := self.parsed["text"]:
            found["text"] = Strings.of(texts.get(unit, "") for unit in range(count))
            found["has_text"] = np.array([unit in texts for unit in range(count)], bool)
        if starts := self.parsed["char_start"]:
            found["starts"] = np.array([starts.get(unit, 0) for unit in range(count)], np.int64)
        for name in LISTS:
            if values := self.parsed[name]:
                sizes = [len(values[unit]) if unit in values else -1 for unit in range(count)]
                parts = [values[unit] for unit in range(count) if unit in values]
                found[name] = Lists(self._joined(name, parts), np.array(sizes, np.int64))
        return found

    def _joined(self, name: str, parts: list[Any]) -> Any:
        if name == "tokens":
            return Strings.of(token for part in parts for token in part)
        full = [part for part in parts if len(part)]
        if len({part.shape[1] for part in full}) > 1:
            raise DataError(f"{self.path}: {name} have rows of different lengths")
        return np.concatenate(full) if full else parts[0]


def _whole(cell: str, name: str, place: str) -> int:
    if not cell:
        return EMPTY
    if not WHOLE.fullmatch(cell.strip()):
        raise DataError(f"{place}: {name}: expected a whole number, got {cell!r}")
    return int(float(cell))


def _number(cell: str, place: str) -> float:
    if not cell:
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{place}: score: expected a number, got {cell!r}")
    return value


def _list(cell: str, name: str, place: str) -> list[Any]:
    try:
        values = json.loads(cell)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, list):
        raise DataError(f"{place}: {name}: expected a list as JSON, got {cell!r:.60}")
    return values


def _tokens(cell: str, place: str) -> list[str]:
    values = _list(cell, "tokens", place)
    for value in values:
        if not isinstance(value, str):
            raise DataError(f"{place}: tokens: expected strings, got {value!r:.40}")
    return values


def _chars(cell: str, place: str) -> Any:
    values = _list(cell, "chars", place)
    for pair in values:
        whole = isinstance(pair, list) and [type(value) for value in pair] == [int, int]
        if not whole or not all(0 <= value < 2**31 for value in pair):
            raise DataError(f"{place}: chars: expected [start, end], got {pair!r:.40}")
    return np.array(values, np.int32).reshape(-1, 2)


def _probabilities(cell: str, place: str) -> Any:
    values = _list(cell, "probabilities", place)
    try:
        rows = np.array(values, np.float32)
    except (ValueError, TypeError, OverflowError):
        rows = np.full(1, np.nan, np.float32)
    if not values:
        return np.zeros((0, 0), np.float32)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise DataError(f"{place}: probabilities: expected a list of numbers for each token")
    return rows


_PARSED: dict[str, Callable[[str, str], Any]] = {
    "text": lambda cell, place: cell,
    "tokens": _tokens,
    "chars": _chars,
    "char_start": lambda cell, place: _whole(cell, "char_start", place),
    "probabilities": _probabilities,
}


def write_csv(rows: Rows, path: Path) -> None:
    """Rows as a CSV file; the first row after the header holds the facts."""
    units, facts = rows.units, rows.facts
    names = [*REQUIRED, "text"]
    cells: dict[str, list[str]] = {}
    if units.sentences is not None:
        names.insert(1, "sentence")
    if units.text is not None:
        cells["text"] = units.text.to_list()
    if units.starts is not None:
        cells["char_start"] = [str(start) for start in units.starts.tolist()]
    for name in LISTS:
        if (lists := getattr(units, name)) is not None:
            cells[name] = _json_cells(lists)
    names += [name for name in cells if name != "text"]
    names += ["score"] if rows.score is not None else []
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        if facts is not None:
            first = {"doc_id": FACTS, "text": facts.to_json()}
            writer.writerow([first.get(name, "") for name in names])
        writer.writerows(_lines(rows, cells, names))


def _json_cells(lists: Lists) -> list[str]:
    """The list of each unit as JSON."""
    values = lists.values.to_list() if isinstance(lists.values, Strings) else lists.values.tolist()
    bounds = offsets_of(lists.lengths).tolist()
    return [json.dumps(values[a:b], ensure_ascii=False) for a, b in pairwise(bounds)]


def _lines(rows: Rows, cells: dict[str, list[str]], names: list[str]) -> Iterator[list[str]]:
    documents = rows.units.documents.to_list()
    sentences = None if rows.units.sentences is None else rows.units.sentences.to_list()
    score = rows.score if rows.score is not None else np.full(len(rows.unit), np.nan, np.float32)
    columns = (rows.unit, rows.source, rows.start, rows.end, rows.label, score)
    for unit, source, start, end, label, sure in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        row = {"doc_id": documents[unit]}
        if sentences is not None:
            row["sentence"] = sentences[unit]
        if source < 0:
            row |= {name: values[unit] for name, values in cells.items()}
        else:
            row["source"] = rows.sources[source]
        if label >= 0:
            row |= {"start": str(start), "end": str(end), "label": rows.types[label]}
        if not math.isnan(sure):
            row["score"] = repr(sure)
        yield [row.get(name, "") for name in names]
