"""The rows of a long table, the documents or sentences they annotate, and their tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.alignment import misordered_tokens
from convener.data.dataset import Text
from convener.data.issues import Issues, error_location
from convener.data.ragged import StringArray, lengths_to_offsets, locate
from convener.data.tokenize import find_token_offsets, word_spans
from convener.errors import DataError
from convener.io.metadata import Metadata

REQUIRED = ("doc_id", "source", "start", "end", "label")
OPTIONAL = ("sentence", "text", "tokens", "token_offsets", "doc_offset", "probabilities", "score")
SPREADSHEET_COLUMNS = {"doc", "start", "end", "text", "label", "score"}
EMPTY_CELL = np.iinfo(np.int64).min
"""Value of an empty cell among the offsets."""
GOLD, PREDICTIONS, VERSION_1_PREDICTIONS = "gold", "predictions", "labels"
"""Sources that contain gold labels and predictions, and predictions in files of version 1."""
LIST_COLUMNS = ("tokens", "token_offsets", "probabilities")
"""Columns of lists; fields of `TextUnits` with the same names."""


def check_columns(names: list[str], where: str, issues: Issues) -> None:
    """Raise DataError for missing or duplicate columns; unknown columns are added to the issues."""
    if set(names) >= SPREADSHEET_COLUMNS and "doc_id" not in names:
        raise DataError(
            f"{where}: this is a spreadsheet of spans, which does not contain the texts; read predictions from JSON "
            "Lines, or from CSV written with metadata=True (--metadata)"
        )
    if missing := [name for name in REQUIRED if name not in names]:
        raise DataError(
            f"{where}: expected columns {', '.join(REQUIRED)}; missing {', '.join(missing)}, "
            f"got {', '.join(names) or 'none'}"
        )
    if repeated := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise DataError(f"{where}: duplicate column {repeated[0]!r}")
    if ignored := [name for name in names if name not in (*REQUIRED, *OPTIONAL)]:
        issues.add("ignored", where, "columns", ", ".join(ignored))


class ListColumn(NamedTuple):
    """One list per unit: the values of all lists, and their lengths (M,), -1 where a unit has none."""

    values: Any
    lengths: NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class TextUnits:
    """The M documents or sentences of a table, by first appearance.

    has_text_row   (M,) whether a row without a source describes the unit
    text           (M,) "" where unknown
    has_text       (M,) whether the text is known
    tokens         lists of strings
    token_offsets  lists of [start, end], one per token
    doc_offsets    (M,) offset of the text in its document, 0 where unknown
    probabilities  lists of rows, one per token
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
        """Return a unit as messages name it."""
        description = f"document {self.doc_ids[int(unit)]!r}"
        if self.sentence_ids is None:
            return description
        return f"sentence {self.sentence_ids[int(unit)]!r} of {description}"

    def raise_if_any(self, wrong: NDArray[np.bool_], problem: str) -> None:
        """Raise DataError for the first unit of the mask, if any."""
        if wrong.any():
            raise DataError(f"{self.describe(int(np.flatnonzero(wrong)[0]))} {problem}")


@dataclass(frozen=True, eq=False, kw_only=True)
class SpanRows:
    """The R rows of a table.

    unit        (R,) index of the document or sentence
    source      (R,) index into `sources`; -1 in text rows, which have no source
    start, end  (R,) offsets, EMPTY_CELL where the cell is empty
    label       (R,) index into `types`; -1 where empty
    score       (R,) NaN where empty; None without a column `score`
    location    names a row in messages: "crowd.csv:12"
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
        """Raise DataError for a row that is neither a text row, nor a span, nor a source without a span."""
        num_empty = (self.start == EMPTY_CELL).astype(np.int8) + (self.end == EMPTY_CELL) + (self.label < 0)
        self._raise_if_any(
            (num_empty == 1) | (num_empty == 2),
            lambda row: "expected start, end and label, or none of the three",
        )
        is_text_row = self.source < 0
        self._raise_if_any(is_text_row & (num_empty < 3), lambda row: "a span needs a source, got an empty cell")
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
            lambda row: f"second row without a source for {self.units.describe(self.unit[row])}",
        )

    def _raise_if_any(self, wrong: NDArray[np.bool_], problem: Callable[[int], str]) -> None:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise DataError(f"{self.location(row)}: {problem(row)}")

    @property
    def has_span(self) -> NDArray[np.bool_]:
        """Whether each row contains a span.  -> (R,)"""
        return self.label >= 0

    def by_source(self) -> dict[str, NDArray[np.int64]]:
        """Return the row indices of each source, in the order of the file."""
        order = np.argsort(self.source, kind="stable")
        bounds = np.searchsorted(self.source[order], np.arange(len(self.sources) + 1))
        return {name: order[bounds[k] : bounds[k + 1]] for k, name in enumerate(self.sources)}


def tokenize_units(units: TextUnits, metadata: Metadata | None) -> tuple[StringArray, NDArray[np.int64], Text | None]:
    """Return tokens, sentence offsets and, where known, the text of all units."""
    if metadata is None:
        has_text = units.text is not None
        if not len(units):
            raise DataError("the table has no rows")
        if not has_text and units.tokens is None:
            raise DataError(
                "expected a column 'text' (the text of each document, in one of its rows) "
                "or 'tokens' (its tokens, as a list), got neither"
            )
    else:
        has_text = "text" in metadata.contents
    if not has_text:
        return *_tokens_from_table(units, np.zeros(len(units), bool)), None
    text = _texts(units, is_native=metadata is not None)
    doc_offsets = np.zeros(len(units), np.int64) if units.doc_offsets is None else units.doc_offsets
    if units.tokens is None:
        tokens, offsets, token_offsets = _tokenize_texts(text)
        return tokens, offsets, Text(text, token_offsets, doc_offsets)
    tokens, offsets = _tokens_from_table(units, text.lengths == 0)
    aligned_text = Text(text, _token_offsets(units, tokens, offsets, text), doc_offsets)
    if metadata is None or metadata.extra.get("span_unit") != "token":
        _check_order(units, aligned_text, offsets)
    return tokens, offsets, aligned_text


def _texts(units: TextUnits, *, is_native: bool) -> StringArray:
    """Return the text of each unit; DataError if one is missing."""
    count = len(units)
    has_text = np.zeros(count, bool) if units.has_text is None else units.has_text
    lengths = np.zeros(count, np.int64) if units.tokens is None else units.tokens.lengths
    # An empty text cell in a text row means that the text is empty.
    units.raise_if_any(~has_text & ~(units.has_text_row & ((lengths <= 0) | is_native)), "has no text")
    return StringArray.from_list([""] * count) if units.text is None else units.text


def _tokens_from_table(units: TextUnits, tokens_optional: NDArray[np.bool_]) -> tuple[StringArray, NDArray[np.int64]]:
    """Return tokens and sentence offsets as given in the table."""
    if units.tokens is None:
        units.raise_if_any(~tokens_optional, "has no tokens")
        return StringArray.from_list([]), np.zeros(len(units) + 1, np.int64)
    units.raise_if_any((units.tokens.lengths < 0) & ~tokens_optional, "has no tokens")
    return units.tokens.values, lengths_to_offsets(np.maximum(units.tokens.lengths, 0))


def _tokenize_texts(text: StringArray) -> tuple[StringArray, NDArray[np.int64], NDArray[np.int32]]:
    """Tokenize texts; returns tokens, sentence offsets and token offsets."""
    texts = text.to_list()
    spans = [word_spans(document) for document in texts]
    words = [
        document[a:b] for document, word_offsets in zip(texts, spans, strict=True) for a, b in word_offsets.tolist()
    ]
    token_offsets = np.concatenate([np.zeros((0, 2), np.int32), *spans])
    return (
        StringArray.from_list(words),
        lengths_to_offsets(len(word_offsets) for word_offsets in spans),
        token_offsets,
    )


def _token_offsets(
    units: TextUnits, tokens: StringArray, offsets: NDArray[np.int64], text: StringArray
) -> NDArray[np.int32]:
    """Return start and end of each token: as given, else by searching the tokens in the text.  -> (N, 2)"""
    if units.token_offsets is not None:
        mismatched = np.maximum(units.token_offsets.lengths, 0) != np.diff(offsets)
        units.raise_if_any(mismatched, "needs [start, end] in 'token_offsets' for each of its tokens")
        table_offsets: NDArray[np.int32] = units.token_offsets.values
        return table_offsets
    words, located = tokens.to_list(), [np.zeros((0, 2), np.int32)]
    for unit, (first, last) in enumerate(pairwise(offsets.tolist())):
        with error_location(units.describe(unit)):
            located.append(find_token_offsets(words[first:last], text[unit]))
    return np.concatenate(located)


def _check_order(units: TextUnits, text: Text, offsets: NDArray[np.int64]) -> None:
    """Raise DataError for a token that is empty, overlaps the previous one, or is outside the text."""
    misordered = misordered_tokens(text, offsets)
    if misordered.any():
        index = int(np.flatnonzero(misordered)[0])
        unit, token = locate(offsets, index)
        start, end = text.token_offsets[index].tolist()
        problem = "is empty, outside the text, or overlaps the previous token"
        raise DataError(f"{units.describe(unit)}: token {token} at {start}-{end} {problem}")
