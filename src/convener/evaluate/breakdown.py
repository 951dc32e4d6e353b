"""What kind of errors: every predicted and every gold span falls into exactly one kind.

Predicted and gold spans are paired one to one, in four rounds; who is paired is out of the next:

1. same bounds, same type                 correct
2. same bounds, another type              type
3. overlapping bounds, same type          boundary
4. overlapping bounds, another type       boundary and type

In rounds 3 and 4 the pair that shares more tokens goes first, then the one whose predicted span
is further left, then the one whose gold span is. What is left is missed (gold) or spurious
(predicted). So correct + type + boundary + boundary and type + missed is the number of gold spans,
and with spurious in the place of missed that of predicted spans.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.evaluate.metrics import span_keys
from convener.packed import ranges
from convener.spans import Spans
from convener.tables import Table


class Kind(IntEnum):
    """What became of a span."""

    CORRECT = 0
    TYPE = 1
    BOUNDARY = 2
    BOUNDARY_AND_TYPE = 3
    MISSED = 4
    SPURIOUS = 5


_MEANING = {
    Kind.CORRECT: "same bounds, same type",
    Kind.TYPE: "same bounds, another type",
    Kind.BOUNDARY: "overlapping bounds, same type",
    Kind.BOUNDARY_AND_TYPE: "overlapping bounds, another type",
    Kind.MISSED: "gold span without a partner",
    Kind.SPURIOUS: "predicted span without a partner",
}


@dataclass(frozen=True, eq=False)
class Matching:
    """Who was paired with whom.

    predicted_kind (P,), gold_kind (G,): a Kind each; partner (P,): the gold span each predicted
    span is paired with, -1 if spurious.
    """

    predicted_kind: NDArray[np.int8]
    gold_kind: NDArray[np.int8]
    partner: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Breakdown:
    """Number of spans of each kind, and which types are taken for which.

    confusion (E+1, E+1): gold type x predicted type over the pairs of any kind; the last row holds
    spurious, the last column missed spans. Rows sum to the gold, columns to the predicted spans.
    """

    counts: dict[Kind, int]
    types: tuple[str, ...]
    confusion: NDArray[np.int64]

    def table(self) -> Table:
        """Kinds and counts."""
        rows = [(_name(kind), count, _MEANING[kind]) for kind, count in self.counts.items()]
        return Table(title="Spans by kind", columns=("kind", "spans", "meaning"), rows=rows)

    def confusion_table(self) -> Table:
        """Gold types in rows, predicted types in columns."""
        rows = zip([*self.types, "(spurious)"], self.confusion.tolist(), strict=True)
        return Table(
            title="Types confused",
            columns=("gold \\ predicted", *self.types, "(missed)"),
            rows=[(name, *counts) for name, counts in rows],
        )

    def to_json(self) -> dict[str, Any]:
        """Counts by kind, and the confusion between types."""
        return {
            **{kind.name.lower(): count for kind, count in self.counts.items()},
            "confusion": {"types": list(self.types), "counts": self.confusion.tolist()},
        }

    def __str__(self) -> str:
        return f"{self.table()}\n\n{self.confusion_table()}"


def breakdown(predicted: Spans, gold: Spans, types: tuple[str, ...]) -> Breakdown:
    """Every span's kind, counted; the spans of each side do not overlap one another.

    >>> gold = Spans.of([(0, 0, 2, 0), (0, 4, 5, 1)])
    >>> predicted = Spans.of([(0, 0, 3, 0), (0, 4, 5, 0), (1, 0, 1, 1)])
    >>> result = breakdown(predicted, gold, ("PER", "LOC"))
    >>> {kind.name: count for kind, count in result.counts.items() if count}
    {'TYPE': 1, 'BOUNDARY': 1, 'SPURIOUS': 1}
    >>> result.confusion.tolist()
    [[1, 0, 0], [1, 0, 0], [0, 1, 0]]
    """
    matching = match(predicted, gold)
    counts = np.bincount(matching.predicted_kind, minlength=len(Kind))
    counts[Kind.MISSED] = np.count_nonzero(matching.gold_kind == Kind.MISSED)
    size = len(types) + 1
    paired = matching.partner >= 0
    missed = matching.gold_kind == Kind.MISSED
    gold_type = np.full(len(predicted), size - 1, np.int64)
    gold_type[paired] = gold.type[matching.partner[paired]]
    cells = np.bincount(gold_type * size + predicted.type, minlength=size * size)
    cells += np.bincount(
        gold.type[missed].astype(np.int64) * size + size - 1, minlength=size * size
    )
    numbers = dict(zip(Kind, counts.tolist(), strict=True))
    return Breakdown(numbers, tuple(types), cells.reshape(size, size).astype(np.int64))


def match(predicted: Spans, gold: Spans) -> Matching:
    """Pair predicted with gold spans by the rule of this module."""
    ours, theirs = span_keys(predicted, gold, typed=False)
    for side, spans in (("predicted", predicted), ("gold", gold)):
        _expect_apart(side, spans)
    partner = np.full(len(predicted), -1, np.int64)
    taken = np.zeros(len(gold), bool)
    kinds = np.full(len(predicted), Kind.SPURIOUS, np.int8)
    fates = np.full(len(gold), Kind.MISSED, np.int8)

    def pair(left: NDArray[np.int64], right: NDArray[np.int64], same: Kind, other: Kind) -> None:
        alike = predicted.type[left] == gold.type[right]
        partner[left], taken[right] = right, True
        kinds[left] = fates[right] = np.where(alike, same, other)

    _, left, right = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    pair(left, right, Kind.CORRECT, Kind.TYPE)
    left, right, shared = _overlaps(predicted, gold)
    alike = predicted.type[left] == gold.type[right]
    for wanted in (alike, ~alike):
        free = wanted & (partner[left] < 0) & ~taken[right]
        chosen = _best_first(left[free], right[free], shared[free])
        pair(left[free][chosen], right[free][chosen], Kind.BOUNDARY, Kind.BOUNDARY_AND_TYPE)
    return Matching(kinds, fates, partner)


def _overlaps(
    predicted: Spans, gold: Spans
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """All pairs that share tokens, by predicted and then gold span, and how many they share."""
    width = int(max(predicted.end.max(initial=0), gold.end.max(initial=0))) + 1
    a, b = predicted.sentence * width + predicted.start, predicted.sentence * width + predicted.end
    c, d = gold.sentence * width + gold.start, gold.sentence * width + gold.end
    first = np.searchsorted(d, a, side="right")
    number = np.maximum(np.searchsorted(c, b, side="left") - first, 0)
    left = np.repeat(np.arange(len(predicted)), number)
    right = ranges(first, number)
    return left, right, np.minimum(b[left], d[right]) - np.maximum(a[left], c[right])


def _best_first(
    left: NDArray[np.int64], right: NDArray[np.int64], shared: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The pairs chosen when the best goes first and takes its two spans out of the game.

    A pair that is the best of both its spans is chosen whatever happens elsewhere, so each round
    takes all of these at once. Pairs come in the order of the text.  -> positions
    """
    rank = np.empty(len(left), np.int64)
    rank[np.argsort(-shared, kind="stable")] = np.arange(len(left))
    alive = np.ones(len(left), bool)
    chosen: list[NDArray[np.int64]] = [np.zeros(0, np.int64)]
    while alive.any():
        best_left = np.full(int(left.max()) + 1, len(left))
        best_right = np.full(int(right.max()) + 1, len(left))
        np.minimum.at(best_left, left[alive], rank[alive])
        np.minimum.at(best_right, right[alive], rank[alive])
        winner = alive & (rank == best_left[left]) & (rank == best_right[right])
        chosen.append(np.flatnonzero(winner))
        alive &= ~np.isin(left, left[winner]) & ~np.isin(right, right[winner])
    return np.concatenate(chosen)


def _expect_apart(side: str, spans: Spans) -> None:
    together = spans.sentence[1:] == spans.sentence[:-1]
    if (together & (spans.start[1:] < spans.end[:-1])).any() or (np.diff(spans.sentence) < 0).any():
        raise DataError(f"{side} spans must be in the order of the text and must not overlap")


def _name(kind: Kind) -> str:
    return kind.name.lower().replace("_", " ")
