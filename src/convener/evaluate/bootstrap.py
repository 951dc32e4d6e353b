"""Bootstrap intervals of precision, recall and F1, and of the difference of two predictions.

Whole sentences (or documents) are drawn again with replacement, and each figure's percentiles
over the draws are its interval. All that matters of a sentence are its counts of correct, predicted
and gold spans, and few different triples occur; so a draw is one multinomial sample over the
different triples, which is the same as drawing the sentences one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import ConfigError, MismatchError

_CELLS = 4_000_000  # of one block of draws
_FIGURES = ("precision", "recall", "f1")


class Interval(NamedTuple):
    """A figure, and the interval around it."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Intervals:
    """Intervals of the three figures; `level` of the draws fall inside.

    `units` says what was drawn: "sentences" or "documents".
    """

    precision: Interval
    recall: Interval
    f1: Interval
    level: float
    samples: int
    units: str

    def to_json(self) -> dict[str, Any]:
        """Low and high ends by figure, and how they were found."""
        ends = {name: [getattr(self, name).low, getattr(self, name).high] for name in _FIGURES}
        return {**ends, "level": self.level, "samples": self.samples, "units": self.units}


def intervals(
    counts: NDArray[np.int64],
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    units: str = "sentences",
) -> Intervals:
    """Percentile intervals of counts (U, 3): correct, predicted and gold spans of each unit.

    >>> counts = np.array([[1, 1, 1], [0, 1, 1], [1, 2, 1]] * 50)
    >>> found = intervals(counts, samples=200, seed=1)
    >>> found.f1.low < found.f1.value < found.f1.high
    True
    """
    values = _figures(counts.sum(axis=0, keepdims=True))[0]
    draws = _figures(_draws(counts, samples, seed))
    return _summary(values, draws, level, units)


def paired_difference(
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    units: str = "sentences",
) -> Intervals:
    """Intervals of first minus second, both judged on the same draws; counts (U, 3) each.

    An interval that does not hold 0 is the usual sign of a difference.
    """
    if first.shape != second.shape:
        raise MismatchError(f"{len(first)} units on one side, {len(second)} on the other")
    both = np.concatenate([first, second], axis=1)
    total = both.sum(axis=0, keepdims=True)
    draws = _draws(both, samples, seed)
    return _summary(
        (_figures(total[:, :3]) - _figures(total[:, 3:]))[0],
        _figures(draws[:, :3]) - _figures(draws[:, 3:]),
        level,
        units,
    )


def units_of(data: Dataset) -> tuple[str, NDArray[np.int64]]:
    """What to draw, and the unit of each sentence: documents where there are at least two."""
    if data.documents is not None:
        names, numbers = np.unique(np.array(data.documents.to_list(), object), return_inverse=True)
        if len(names) > 1:
            return "documents", numbers.reshape(-1).astype(np.int64)
    return "sentences", np.arange(len(data))


def summed(counts: NDArray[np.int64], unit: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts of sentences (M, 3) added up by unit (M,).  -> (U, 3)"""
    total = np.zeros((int(unit.max(initial=-1)) + 1, counts.shape[1]), np.int64)
    np.add.at(total, unit, counts)
    return total


def _draws(counts: NDArray[np.int64], samples: int, seed: int) -> NDArray[np.int64]:
    """Sums of the counts over each draw.  (U, C) -> (samples, C)"""
    if samples < 1:
        raise ConfigError(f"samples must be at least 1, got {samples}")
    if not len(counts):
        return np.zeros((samples, counts.shape[1]), np.int64)
    rows, times = np.unique(counts, axis=0, return_counts=True)
    rng = np.random.default_rng(seed)
    block = max(1, _CELLS // len(rows))
    parts = [
        rng.multinomial(len(counts), times / len(counts), size=min(block, samples - done)) @ rows
        for done in range(0, samples, block)
    ]
    return np.concatenate(parts)


def _figures(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Precision, recall and F1 of counts (S, 3), 0.0 where undefined.  -> (S, 3)"""
    correct, predicted, gold = counts.T.astype(np.float64)
    whole = np.stack([predicted, gold, predicted + gold], axis=1)
    part = np.stack([correct, correct, 2 * correct], axis=1)
    figures = np.zeros_like(part)
    np.divide(part, whole, out=figures, where=whole > 0)
    return figures


def _summary(
    values: NDArray[np.float64], draws: NDArray[np.float64], level: float, units: str
) -> Intervals:
    if not 0 < level < 1:
        raise ConfigError(f"level must be in (0, 1), got {level}")
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    precision, recall, f1 = (
        Interval(*triple)
        for triple in zip(values.tolist(), low.tolist(), high.tolist(), strict=True)
    )
    return Intervals(precision, recall, f1, level, len(draws), units)
