"""A long table as columns of arrays: its rows, and the documents or sentences they speak of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.io.facts import Facts
from convener.io.report import Report
from convener.packed import Strings

REQUIRED = ("doc_id", "source", "start", "end", "label")
OPTIONAL = ("sentence", "text", "tokens", "chars", "char_start", "probabilities", "score")
EMPTY = np.iinfo(np.int64).min
"""Stands for an empty cell among the offsets."""
GOLD, LABELS = "gold", "labels"


def check_columns(names: list[str], where: str, report: Report) -> None:
    """Refuse a table without the columns it needs; note those it does not."""
    if missing := [name for name in REQUIRED if name not in names]:
        raise DataError(
            f"{where}: expected columns {', '.join(REQUIRED)}; missing {', '.join(missing)}, "
            f"got {', '.join(names) or 'none'}"
        )
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise DataError(f"{where}: column {repeated[0]} stands twice")
    if ignored := [name for name in names if name not in (*REQUIRED, *OPTIONAL)]:
        report.add("ignored", where, "columns", ", ".join(ignored))


class Lists(NamedTuple):
    """A list for each unit: values of all units, lengths (M,), -1 where a unit has none."""

    values: Any
    lengths: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Units:
    """The documents or sentences of a table (M of them), by first appearance.

    stated         (M,) whether a row without a source speaks of the unit
    text           (M,) "" where none is known; has_text (M,) says where it is
    tokens         lists of strings; chars: start and end of each token; probabilities: its row
    starts         (M,) where the text begins in its document, 0 where nothing is said
    """

    documents: Strings
    sentences: Strings | None
    stated: NDArray[np.bool_]
    text: Strings | None = None
    has_text: NDArray[np.bool_] | None = None
    tokens: Lists | None = None
    chars: Lists | None = None
    starts: NDArray[np.int64] | None = None
    probabilities: Lists | None = None

    def __len__(self) -> int:
        return len(self.documents)

    def name(self, unit: int) -> str:
        """What messages call a unit."""
        document = f"document {self.documents[int(unit)]!r}"
        if self.sentences is None:
            return document
        return f"sentence {self.sentences[int(unit)]!r} of {document}"

    def refuse(self, wrong: NDArray[np.bool_], problem: str) -> None:
        """Say what is wrong with the first such unit, if there is one."""
        if wrong.any():
            raise DataError(f"{self.name(int(np.flatnonzero(wrong)[0]))} {problem}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Rows:
    """All rows of a table.

    unit      (R,) the number of each row's document or sentence
    source    (R,) the number of its source in `sources`; -1 in rows of documents
    start     (R,) as given, EMPTY where the cell is empty; end too
    label     (R,) the number of its type in `types`; -1 where empty
    score     (R,) NaN where empty, or None
    place     names a row, for messages: "crowd.csv:12"
    """

    path: str
    facts: Facts | None
    units: Units
    unit: NDArray[np.int64]
    source: NDArray[np.int64]
    sources: tuple[str, ...]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    label: NDArray[np.int64]
    types: tuple[str, ...]
    score: NDArray[np.float32] | None
    place: Callable[[int], str]

    def check(self) -> None:
        """Refuse rows that are neither a document, a span, nor "saw it, marked nothing"."""
        empty = (self.start == EMPTY).astype(np.int8) + (self.end == EMPTY) + (self.label < 0)
        self._refuse(
            (empty == 1) | (empty == 2),
            lambda row: "expected start, end and label, or none of the three",
        )
        stands = self.source < 0
        self._refuse(stands & (empty < 3), lambda row: "a span needs a source, got none")
        self._refuse(
            self.marked & ((self.start < 0) | (self.end <= self.start) | (self.end >= 2**31)),
            lambda row: f"expected 0 <= start < end, got {self.start[row]} and {self.end[row]}",
        )
        documents = np.flatnonzero(stands)
        repeats = np.zeros(len(self.unit), bool)
        repeats[documents] = True
        repeats[documents[np.unique(self.unit[documents], return_index=True)[1]]] = False
        self._refuse(
            repeats,
            lambda row: f"a second row without a source of {self.units.name(self.unit[row])}",
        )

    def _refuse(self, wrong: NDArray[np.bool_], problem: Callable[[int], str]) -> None:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(f"{self.place(row)}: {problem(row)}")

    @property
    def marked(self) -> NDArray[np.bool_]:
        """Rows that hold a span.  -> (R,)"""
        return self.label >= 0

    def by_source(self) -> dict[str, NDArray[np.int64]]:
        """The rows of each source, in the order of the file."""
        order = np.argsort(self.source, kind="stable")
        bounds = np.searchsorted(self.source[order], np.arange(len(self.sources) + 1))
        return {name: order[bounds[k] : bounds[k + 1]] for k, name in enumerate(self.sources)}
