"""Calibration: does a confidence of 0.8 mean right four times out of five?

Confidences are sorted into bins; the expected calibration error is the mean distance between the
share of right answers and the mean confidence of a bin, weighted by the bin's size. A bin holds
confidences in (lower, upper], the first one 0 too. Bins of equal width cover 0 to 1; bins of equal
mass hold about the same number each, and equal confidences always share a bin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from convener.data.predictions import Predictions
from convener.data.spans import Spans
from convener.data.tables import PERCENT, Table
from convener.errors import ConfigError, DataError, MismatchError, unknown_name_message
from convener.evaluation.metrics import is_correct as in_gold

Binning = Literal["width", "mass"]
Scope = Literal["all", "entities"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """A reliability diagram, bin by bin, and the expected calibration error.

    edges (bins+1,); count, confidence and accuracy (bins,), the last two NaN where a bin is empty.
    `ece` is None where there was nothing to measure.
    """

    edges: NDArray[np.float64]
    count: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    @property
    def ece(self) -> float | None:
        """Expected calibration error."""
        nonempty = self.count > 0
        if not nonempty.any():
            return None
        gap = np.abs(self.accuracy[nonempty] - self.confidence[nonempty])
        return float(np.average(gap, weights=self.count[nonempty]))

    def table(self) -> Table:
        """The bins that hold anything."""
        columns = (self.edges[:-1], self.edges[1:], self.count, self.confidence, self.accuracy)
        rows = zip(*(column[self.count > 0].tolist() for column in columns), strict=True)
        ece = "-" if self.ece is None else f"{self.ece:.4f}"
        return Table(
            title=f"Calibration: expected error {ece} over {int(self.count.sum()):,}",
            columns=("above", "up to", "number", "confidence", "right"),
            rows=list(rows),
            formats={"confidence": PERCENT, "right": PERCENT, "above": ".4f", "up to": ".4f"},
        )

    def to_json(self) -> dict[str, Any]:
        """The error and the bins, empty ones with nulls."""
        records = zip(
            self.edges[:-1].tolist(),
            self.edges[1:].tolist(),
            self.count.tolist(),
            self.confidence.tolist(),
            self.accuracy.tolist(),
            strict=True,
        )
        bins = [
            {
                "lower": lower,
                "upper": upper,
                "count": count,
                "confidence": sure if count else None,
                "accuracy": right if count else None,
            }
            for lower, upper, count, sure, right in records
        ]
        return {"ece": self.ece, "count": int(self.count.sum()), "bins": bins}

    def __str__(self) -> str:
        return str(self.table())


def calibration(
    confidence: NDArray[np.floating[Any]],
    correct: NDArray[np.bool_],
    *,
    bins: int = 15,
    binning: Binning = "width",
) -> Calibration:
    """Calibration of confidences in [0, 1] and whether each was right; both (N,).

    >>> result = calibration(np.array([0.9, 0.9, 0.5]), np.array([True, False, True]), bins=2)
    >>> result.count.tolist(), round(result.ece, 4)
    ([1, 2], 0.4333)
    """
    confidences = np.asarray(confidence, np.float64)
    if confidences.shape != np.shape(correct):
        raise MismatchError(f"{len(confidences)} confidences, but {len(correct)} answers")
    if not (np.isfinite(confidences).all() and ((confidences >= 0) & (confidences <= 1 + 1e-6)).all()):
        raise DataError("confidences must be in [0, 1]")
    edges = _bin_edges(np.minimum(confidences, 1.0), bins, binning)
    bin_index = np.searchsorted(edges[1:-1], confidences, side="left")
    num_bins = len(edges) - 1
    count = np.bincount(bin_index, minlength=num_bins)
    nonempty_count = np.where(count > 0, count, np.nan)
    return Calibration(
        edges,
        count.astype(np.int64),
        np.bincount(bin_index, weights=confidences, minlength=num_bins) / nonempty_count,
        np.bincount(bin_index, weights=np.asarray(correct, np.float64), minlength=num_bins) / nonempty_count,
    )


def token_calibration(
    predictions: Predictions,
    correct: NDArray[np.bool_],
    gold_entity: NDArray[np.bool_],
    *,
    scope: Scope = "all",
    bins: int = 15,
    binning: Binning = "width",
) -> Calibration:
    """Calibration of the probability given to each token's predicted label.

    right (N,): where that label is gold's; gold_entity (N,): where gold is not O. With scope
    "entities" only tokens count where prediction or gold is an entity: most tokens are easy O's
    that hide everything else.
    """
    if scope not in get_args(Scope):
        raise ConfigError(unknown_name_message("scope", str(scope), get_args(Scope)))
    if predictions.probabilities is None:
        raise DataError("calibration needs probabilities, and these predictions have none")
    confidence = predictions.probabilities[np.arange(len(predictions.labels)), predictions.labels]
    if scope == "entities":
        kept = (predictions.labels > 0) | gold_entity
        confidence, correct = confidence[kept], correct[kept]
    return calibration(confidence, correct, bins=bins, binning=binning)


def span_calibration(predicted: Spans, gold: Spans, *, bins: int = 15, binning: Binning = "width") -> Calibration:
    """Calibration of span scores; a span is right when bounds and type are gold's."""
    if predicted.score is None:
        raise DataError("calibration needs span scores, and these spans have none")
    return calibration(predicted.score, in_gold(predicted, gold), bins=bins, binning=binning)


def _bin_edges(confidences: NDArray[np.float64], bins: int, binning: Binning) -> NDArray[np.float64]:
    if bins < 1:
        raise ConfigError(f"bins must be at least 1, got {bins}")
    if binning not in get_args(Binning):
        raise ConfigError(unknown_name_message("binning", str(binning), get_args(Binning)))
    if binning == "width" or not len(confidences):
        return np.linspace(0.0, 1.0, bins + 1)
    quantiles = np.arange(1, bins) / bins
    inner = np.unique(np.quantile(confidences, quantiles, method="inverted_cdf"))
    inner = inner[inner < confidences.max()]  # an edge at the greatest value would leave an empty bin
    return np.concatenate([[0.0], inner, [1.0]])
