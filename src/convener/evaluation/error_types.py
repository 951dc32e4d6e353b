"""Error types: every predicted and every gold span gets exactly one.

Predicted and gold spans are matched one to one in four rounds; a matched span takes no part in later rounds:

1. same bounds, same type                 correct
2. same bounds, different type            type
3. overlapping bounds, same type          boundary
4. overlapping bounds, different type     boundary and type

In rounds 3 and 4 pairs with more common tokens are matched first, ties by the position of the predicted and then of
the gold span. Unmatched spans are missed (gold) or spurious (predicted). Therefore correct + type + boundary +
boundary and type + missed is the number of gold spans; with spurious instead of missed it is the number of
predicted spans.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.ragged import concat_ranges
from convener.data.spans import Spans
from convener.data.tables import Table
from convener.errors import DataError
from convener.evaluation.metrics import span_keys


class ErrorType(IntEnum):
    """Result of matching a span: correct, or one of five kinds of error."""

    CORRECT = 0
    TYPE = 1
    BOUNDARY = 2
    BOUNDARY_AND_TYPE = 3
    MISSED = 4
    SPURIOUS = 5


_DESCRIPTIONS = {
    ErrorType.CORRECT: "same bounds, same type",
    ErrorType.TYPE: "same bounds, different type",
    ErrorType.BOUNDARY: "overlapping bounds, same type",
    ErrorType.BOUNDARY_AND_TYPE: "overlapping bounds, different type",
    ErrorType.MISSED: "unmatched gold span",
    ErrorType.SPURIOUS: "unmatched predicted span",
}


@dataclass(frozen=True, eq=False)
class SpanMatching:
    """Matching of P predicted with G gold spans.

    predicted_error  (P,) ErrorType of each predicted span
    gold_error       (G,) ErrorType of each gold span
    matched_gold     (P,) index of the gold span matched with each predicted span, -1 if spurious
    """

    predicted_error: NDArray[np.int8]
    gold_error: NDArray[np.int8]
    matched_gold: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ErrorTypeCounts:
    """Numbers of spans per error type, and the confusion matrix of entity types.

    confusion (E+1, E+1): matched spans by gold type (row) and predicted type (column). The last row holds spurious,
    the last column missed spans: rows sum to the gold spans, columns to the predicted spans of a type.
    """

    counts: dict[ErrorType, int]
    types: tuple[str, ...]
    confusion: NDArray[np.int64]

    def table(self) -> Table:
        """One row per error type."""
        rows = [(_display_name(error), count, _DESCRIPTIONS[error]) for error, count in self.counts.items()]
        return Table(title="Spans by error type", columns=("error type", "spans", "meaning"), rows=rows)

    def confusion_table(self) -> Table:
        """Confusion matrix: gold types in rows, predicted types in columns."""
        rows = zip([*self.types, "(spurious)"], self.confusion.tolist(), strict=True)
        return Table(
            title="Confusion of entity types",
            columns=("gold \\ predicted", *self.types, "(missed)"),
            rows=[(name, *counts) for name, counts in rows],
        )

    def to_json(self) -> dict[str, Any]:
        """Counts by error type, and the confusion matrix."""
        return {
            **{error.name.lower(): count for error, count in self.counts.items()},
            "confusion": {"types": list(self.types), "counts": self.confusion.tolist()},
        }

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self.confusion_table()}"


def count_error_types(predicted: Spans, gold: Spans, types: tuple[str, ...]) -> ErrorTypeCounts:
    """Count the error types of predicted and gold spans; each set is sorted and free of overlaps.

    >>> gold = Spans.from_rows([(0, 0, 2, 0), (0, 4, 5, 1)])
    >>> predicted = Spans.from_rows([(0, 0, 3, 0), (0, 4, 5, 0), (1, 0, 1, 1)])
    >>> result = count_error_types(predicted, gold, ("PER", "LOC"))
    >>> {error.name: count for error, count in result.counts.items() if count}
    {'TYPE': 1, 'BOUNDARY': 1, 'SPURIOUS': 1}
    >>> result.confusion.tolist()
    [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    """
    matching = match_spans(predicted, gold)
    counts = np.bincount(matching.predicted_error, minlength=len(ErrorType))
    counts[ErrorType.MISSED] = np.count_nonzero(matching.gold_error == ErrorType.MISSED)
    size = len(types) + 1
    matched = matching.matched_gold >= 0
    missed = matching.gold_error == ErrorType.MISSED
    gold_type = np.full(len(predicted), size - 1, np.int64)
    gold_type[matched] = gold.type[matching.matched_gold[matched]]
    confusion = np.bincount(gold_type * size + predicted.type, minlength=size * size)
    confusion += np.bincount(gold.type[missed].astype(np.int64) * size + size - 1, minlength=size * size)
    error_counts = dict(zip(ErrorType, counts.tolist(), strict=True))
    return ErrorTypeCounts(error_counts, tuple(types), confusion.reshape(size, size).astype(np.int64))


def match_spans(predicted: Spans, gold: Spans) -> SpanMatching:
    """Match predicted with gold spans by the rounds in the module docstring."""
    predicted_keys, gold_keys = span_keys(predicted, gold, typed=False)
    for side, spans in (("predicted", predicted), ("gold", gold)):
        _check_sorted_disjoint(side, spans)
    matched_gold = np.full(len(predicted), -1, np.int64)
    gold_is_matched = np.zeros(len(gold), bool)
    predicted_error = np.full(len(predicted), ErrorType.SPURIOUS, np.int8)
    gold_error = np.full(len(gold), ErrorType.MISSED, np.int8)

    def match(
        left: NDArray[np.int64],
        right: NDArray[np.int64],
        if_same_type: ErrorType,
        if_different_type: ErrorType,
    ) -> None:
        same_type = predicted.type[left] == gold.type[right]
        matched_gold[left], gold_is_matched[right] = right, True
        predicted_error[left] = gold_error[right] = np.where(same_type, if_same_type, if_different_type)

    _, left, right = np.intersect1d(predicted_keys, gold_keys, assume_unique=True, return_indices=True)
    match(left, right, ErrorType.CORRECT, ErrorType.TYPE)
    left, right, shared = _overlapping_pairs(predicted, gold)
    same_type = predicted.type[left] == gold.type[right]
    for candidates in (same_type, ~same_type):
        available = candidates & (matched_gold[left] < 0) & ~gold_is_matched[right]
        selected = _greedy_matching(left[available], right[available], shared[available])
        match(
            left[available][selected],
            right[available][selected],
            ErrorType.BOUNDARY,
            ErrorType.BOUNDARY_AND_TYPE,
        )
    return SpanMatching(predicted_error, gold_error, matched_gold)


def _overlapping_pairs(predicted: Spans, gold: Spans) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of spans with common tokens, sorted by predicted and then gold span.

    -> indices of predicted spans (Q,), indices of gold spans (Q,), numbers of common tokens (Q,)
    """
    stride = int(max(predicted.end.max(initial=0), gold.end.max(initial=0))) + 1
    predicted_start, predicted_end = (
        predicted.sentence * stride + predicted.start,
        predicted.sentence * stride + predicted.end,
    )
    gold_start, gold_end = gold.sentence * stride + gold.start, gold.sentence * stride + gold.end
    first = np.searchsorted(gold_end, predicted_start, side="right")
    num_overlaps = np.maximum(np.searchsorted(gold_start, predicted_end, side="left") - first, 0)
    left = np.repeat(np.arange(len(predicted)), num_overlaps)
    right = concat_ranges(first, num_overlaps)
    return (
        left,
        right,
        np.minimum(predicted_end[left], gold_end[right]) - np.maximum(predicted_start[left], gold_start[right]),
    )


def _greedy_matching(left: NDArray[np.int64], right: NDArray[np.int64], shared: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of the pairs that greedy matching selects, most common tokens first.

    A pair that is the best one for both of its spans is selected whatever happens elsewhere, so each iteration
    selects all such pairs at once. The input pairs are in text order, which breaks ties.
    """
    rank = np.empty(len(left), np.int64)
    rank[np.argsort(-shared, kind="stable")] = np.arange(len(left))
    remaining = np.ones(len(left), bool)
    selected: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    while remaining.any():
        best_left = np.full(int(left.max()) + 1, len(left))
        best_right = np.full(int(right.max()) + 1, len(left))
        np.minimum.at(best_left, left[remaining], rank[remaining])
        np.minimum.at(best_right, right[remaining], rank[remaining])
        mutual_best = remaining & (rank == best_left[left]) & (rank == best_right[right])
        selected.append(np.flatnonzero(mutual_best))
        remaining &= ~np.isin(left, left[mutual_best]) & ~np.isin(right, right[mutual_best])
    return np.concatenate(selected)


def _check_sorted_disjoint(side: str, spans: Spans) -> None:
    same_sentence = spans.sentence[1:] == spans.sentence[:-1]
    if (same_sentence & (spans.start[1:] < spans.end[:-1])).any() or (np.diff(spans.sentence) < 0).any():
        raise DataError(f"{side} spans must be in text order and must not overlap")


def _display_name(error: ErrorType) -> str:
    return error.name.lower().replace("_", " ")
