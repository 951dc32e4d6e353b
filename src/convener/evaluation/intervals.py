"""Bootstrap confidence intervals of precision, recall and F1, and of their difference between two predictions.

Sentences (or documents) are resampled with replacement; an interval is bounded by percentiles over the samples. A
metric depends only on the numbers of correct, predicted and gold spans per unit, and few distinct triples occur.
Therefore a bootstrap sample is drawn as one multinomial sample over the distinct triples, which has the same
distribution as drawing the units one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.errors import ConfigError, MismatchError

_MAX_BLOCK_CELLS = 4_000_000
"""Size of the array of counts that is drawn at once."""
_METRICS = ("precision", "recall", "f1")


class Interval(NamedTuple):
    """A metric and its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """In percent.

        >>> str(Interval(0.5, 0.42, 0.61))
        '50 [42, 61]'
        """
        value, low, high = (100 * bound for bound in self)
        return f"{value:.0f} [{low:.0f}, {high:.0f}]"


@dataclass(frozen=True)
class Intervals:
    """Confidence intervals of precision, recall and F1.

    level    confidence level, in (0, 1)
    samples  number of bootstrap samples
    units    what was resampled: "sentences" or "documents"
    """

    precision: Interval
    recall: Interval
    f1: Interval
    level: float
    samples: int
    units: str

    def to_json(self) -> dict[str, Any]:
        """Bounds [low, high] by metric, then level, samples and units."""
        bounds = {name: [getattr(self, name).low, getattr(self, name).high] for name in _METRICS}
        return {**bounds, "level": self.level, "samples": self.samples, "units": self.units}


def bootstrap_intervals(
    counts: NDArray[np.int64],
    *,
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    units: str = "sentences",
) -> Intervals:
    """Percentile intervals from counts (U, 3): correct, predicted and gold spans per unit.

    >>> counts = np.array([[1, 1, 1], [0, 1, 1], [1, 2, 1]] * 50)
    >>> f1 = bootstrap_intervals(counts, samples=200, seed=1).f1
    >>> f1.low < f1.value < f1.high
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
    """Intervals of first minus second, computed on the same bootstrap samples; counts (U, 3) each.

    A difference is significant at `level` if its interval does not contain 0.
    """
    if first.shape != second.shape:
        raise MismatchError(f"expected counts of the same units, found {len(first)} and {len(second)} units")
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
    """Name of the units to resample, and the unit of each sentence (M,): documents if there are several."""
    if data.doc_ids is not None:
        names, document_index = np.unique(np.array(data.doc_ids.to_list(), object), return_inverse=True)
        if len(names) > 1:
            return "documents", document_index.reshape(-1).astype(np.int64)
    return "sentences", np.arange(len(data))


def sum_by_unit(counts: NDArray[np.int64], unit_ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sum counts per sentence (M, 3) over units (M,).  -> (U, 3)"""
    total = np.zeros((int(unit_ids.max(initial=-1)) + 1, counts.shape[1]), np.int64)
    np.add.at(total, unit_ids, counts)
    return total


def _bootstrap_sums(counts: NDArray[np.int64], samples: int, seed: int) -> NDArray[np.int64]:
    """Sum the counts over each bootstrap sample.  (U, C) -> (samples, C)"""
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
    """Precision, recall and F1 from counts (S, 3), 0.0 where undefined.  -> (S, 3)"""
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
