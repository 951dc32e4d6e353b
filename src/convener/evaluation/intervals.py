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

from convener.data.dataset import Dataset
from convener.errors import ConfigError, MismatchError

_MAX_BLOCK_CELLS = 4_000_000  # of one block of draws
_METRICS = ("precision", "recall", "f1")


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
        ends = {name: [getattr(self, name).low, getattr(self, name).high] for name in _METRICS}
        return {**ends, "level": self.level, "samples": self.samples, "units": self.units}


def bootstrap_intervals(
    counts: NDArray[np.int64],
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    units: str = "sentences",
) -> Intervals:
    """Percentile intervals of counts (U, 3): correct, predicted and gold spans of each unit.

    >>> counts = np.array([[1, 1, 1], [0, 1, 1], [1, 2, 1]] * 50)
    >>> found = bootstrap_intervals(counts, samples=200, seed=1)
    >>> found.f1.low < found.f1.value < found.f1.high
    True
    """
    values = _precision_recall_f1(counts.sum(axis=0, keepdims=True))[0]
    draws = _precision_recall_f1(_bootstrap_sums(counts, samples, seed))
    return _percentile_intervals(values, draws, level, units)


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
    draws = _bootstrap_sums(both, samples, seed)
    return _percentile_intervals(
        (_precision_recall_f1(total[:, :3]) - _precision_recall_f1(total[:, 3:]))[0],
        _precision_recall_f1(draws[:, :3]) - _precision_recall_f1(draws[:, 3:]),
        level,
        units,
    )


def resampling_units(data: Dataset) -> tuple[str, NDArray[np.int64]]:
    """What to draw, and the unit of each sentence: documents where there are at least two."""
    if data.doc_ids is not None:
        names, document_index = np.unique(np.array(data.doc_ids.to_list(), object), return_inverse=True)
        if len(names) > 1:
            return "documents", document_index.reshape(-1).astype(np.int64)
    return "sentences", np.arange(len(data))


def sum_by_unit(counts: NDArray[np.int64], unit_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts of sentences (M, 3) added up by unit (M,).  -> (U, 3)"""
    total = np.zeros((int(unit_ids.max(initial=-1)) + 1, counts.shape[1]), np.int64)
    np.add.at(total, unit_ids, counts)
    return total


def _bootstrap_sums(counts: NDArray[np.int64], samples: int, seed: int) -> NDArray[np.int64]:
    """Sums of the counts over each draw.  (U, C) -> (samples, C)"""
    if samples < 1:
        raise ConfigError(f"samples must be at least 1, got {samples}")
    if not len(counts):
        return np.zeros((samples, counts.shape[1]), np.int64)
    rows, multiplicity = np.unique(counts, axis=0, return_counts=True)
    rng = np.random.default_rng(seed)
    block_size = max(1, _MAX_BLOCK_CELLS // len(rows))
    blocks = [
        rng.multinomial(len(counts), multiplicity / len(counts), size=min(block_size, samples - done)) @ rows
        for done in range(0, samples, block_size)
    ]
    return np.concatenate(blocks)


def _precision_recall_f1(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Precision, recall and F1 of counts (S, 3), 0.0 where undefined.  -> (S, 3)"""
    correct, predicted, gold = counts.T.astype(np.float64)
    denominator = np.stack([predicted, gold, predicted + gold], axis=1)
    numerator = np.stack([correct, correct, 2 * correct], axis=1)
    metrics = np.zeros_like(numerator)
    np.divide(numerator, denominator, out=metrics, where=denominator > 0)
    return metrics


def _percentile_intervals(
    values: NDArray[np.float64], draws: NDArray[np.float64], level: float, units: str
) -> Intervals:
    if not 0 < level < 1:
        raise ConfigError(f"level must be in (0, 1), got {level}")
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    precision, recall, f1 = (
        Interval(*triple) for triple in zip(values.tolist(), low.tolist(), high.tolist(), strict=True)
    )
    return Intervals(precision, recall, f1, level, len(draws), units)
