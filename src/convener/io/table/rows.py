"""A long table as columns of arrays: its rows, and the documents or sentences they speak of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.io.facts import Metadata
from convener.io.report import Issues
from convener.packed import StringArray

REQUIRED = ("doc_id", "source", "start", "end", "label")
OPTIONAL = ("sentence", "text", "tokens", "chars", "char_start", "probabilities", "score")
EMPTY_CELL = np.iinfo(np.int64).min
"""Stands for an empty cell among the offsets."""
GOLD, PREDICTIONS = "gold", "labels"


def check_columns(names: list[str], where: str, issues: Issues) -> None:
    """Refuse a table without the columns it needs; note those it does not."""
    if missing := [name for name in REQUIRED if name not in names]:
        raise DataError(
            f"{where}: expected columns {', '.join(REQUIRED)}; missing {', '.join(missing)}, "
            f"got {', '.join(names) or 'none'}"
        )
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise DataError(f"{where}: column {repeated[0]} stands twice")
    if ignored := [name for name in names if name not in (*REQUIRED, *OPTIONAL)]:
        issues.add("ignored", where, "columns", ", ".join(ignored))


class ListColumn(NamedTuple):
    """A list for each unit: values of all units, lengths (M,), -1 where a unit has none."""

    values: Any
    lengths: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class TextUnits:
    """The documents or sentences of a table (M of them), by first appearance.

    stated         (M,) whether a row without a source speaks of the unit
    text           (M,) "" where none is known; has_text (M,) says where it is
    tokens         lists of strings; chars: start and end of each token; probabilities: its row
    starts         (M,) where the text begins in its document, 0 where nothing is said
    """

    doc_ids: StringArray
    sentence_ids: StringArray | None
    has_text_row: NDArray[np.bool_]
    text: StringArray | None = None
    has_text: NDArray[np.bool_] | None = None
    tokens: ListColumn | None = None
    token_offsets: ListColumn | None = None
    doc_offsets: NDArray[np.int64] | None = None
    probabilities: ListColumn | None = None

    def __len__(self) -> int:
        return len(self.doc_ids)

    def describe(self, unit: int) -> str:
        """What messages call a unit."""
        description = f"document {self.doc_ids[int(unit)]!r}"
        if self.sentence_ids is None:
            return description
        return f"sentence {self.sentence_ids[int(unit)]!r} of {description}"

    def raise_if_any(self, wrong: NDArray[np.bool_], problem: str) -> None:
        """Say what is wrong with the first such unit, if there is one."""
        if wrong.any():
            raise DataError(f"{self.describe(int(np.flatnonzero(wrong)[0]))} {problem}")


@dataclass(frozen=True, eq=False, kw_only=True)
class SpanRows:
    """All rows of a table.

    unit      (R,) the number of each row's document or sentence
    source    (R,) the number of its source in `sources`; -1 in rows of documents
    start     (R,) as given, EMPTY where the cell is empty; end too
    label     (R,) the number of its type in `types`; -1 where empty
    score     (R,) NaN where empty, or None
    place     names a row, for messages: "crowd.csv:12"
    """

    path: str
    metadata: Metadata | None
    units: TextUnits
    unit: NDArray[np.int64]
    source: NDArray[np.int64]
    sources: tuple[str, ...]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    label: NDArray[np.int64]
    types: tuple[str, ...]
    score: NDArray[np.float32] | None
    location: Callable[[int], str]

    def check(self) -> None:
        """Refuse rows that are neither a document, a span, nor "saw it, marked nothing"."""
        num_empty = (self.start == EMPTY_CELL).astype(np.int8) + (self.end == EMPTY_CELL) + (self.label < 0)
        self._raise_if_any(
            (num_empty == 1) | (num_empty == 2),
            lambda row: "expected start, end and label, or none of the three",
        )
        is_text_row = self.source < 0
        self._raise_if_any(is_text_row & (num_empty < 3), lambda row: "a span needs a source, got none")
        self._raise_if_any(
            self.has_span & ((self.start < 0) | (self.end <= self.start) | (self.end >= 2**31)),
            lambda row: f"expected 0 <= start < end, got {self.start[row]} and {self.end[row]}",
        )
        text_rows = np.flatnonzero(is_text_row)
        is_repeated = np.zeros(len(self.unit), bool)
        is_repeated[text_rows] = True
        is_repeated[text_rows[np.unique(self.unit[text_rows], return_index=True)[1]]] = False
        self._raise_if_any(
            is_repeated,
            lambda row: f"a second row without a source of {self.units.describe(self.unit[row])}",
        )

    def _raise_if_any(self, wrong: NDArray[np.bool_], problem: Callable[[int], str]) -> None:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(f"{self.location(row)}: {problem(row)}")

    @property
    def has_span(self) -> NDArray[np.bool_]:
        """Rows that hold a span.  -> (R,)"""
        return self.label >= 0

    def by_source(self) -> dict[str, NDArray[np.int64]]:
        """The rows of each source, in the order of the file."""
        order = np.argsort(self.source, kind="stable")
        bounds = np.searchsorted(self.source[order], np.arange(len(self.sources) + 1))
        return {name: order[bounds[k] : bounds[k + 1]] for k, name in enumerate(self.sources)}
