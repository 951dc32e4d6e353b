"""Calibration of token probabilities and span scores.

A model is calibrated if of all labels with confidence c the share c is correct. Confidences are grouped into bins
of equal width over [0, 1]; a bin covers (lower, upper], the first one includes 0. The expected calibration error
(ECE) is the mean of |accuracy - mean confidence| over the bins, weighted by bin size.
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
from convener.evaluation.metrics import is_correct

Scope = Literal["all", "entities"]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Reliability diagram and expected calibration error over B bins.

    edges       (B+1,) bounds of the bins
    count       (B,) labels or spans per bin
    confidence  (B,) mean confidence, NaN for an empty bin
    accuracy    (B,) share that is correct, NaN for an empty bin
    """

    edges: NDArray[np.float64]
    count: NDArray[np.int64]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    @property
    def ece(self) -> float | None:
        """Expected calibration error; None if all bins are empty."""
        nonempty = self.count > 0
        if not nonempty.any():
            return None
        gap = np.abs(self.accuracy[nonempty] - self.confidence[nonempty])
        return float(np.average(gap, weights=self.count[nonempty]))

    def table(self) -> Table:
        """One row per non-empty bin."""
        columns = (self.edges[:-1], self.edges[1:], self.count, self.confidence, self.accuracy)
        rows = zip(*(column[self.count > 0].tolist() for column in columns), strict=True)
        ece = "-" if self.ece is None else f"{self.ece:.4f}"
        return Table(
            title=f"Calibration: expected calibration error {ece}, {int(self.count.sum()):,} predictions",
            columns=("above", "up to", "count", "confidence", "accuracy"),
            rows=list(rows),
            formats={"confidence": PERCENT, "accuracy": PERCENT, "above": ".4f", "up to": ".4f"},
        )

    def to_json(self) -> dict[str, Any]:
        """ECE, total count and all bins; empty bins have null confidence and accuracy."""
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
                "confidence": confidence if count else None,
                "accuracy": accuracy if count else None,
            }
            for lower, upper, count, confidence, accuracy in records
        ]
        return {"ece": self.ece, "count": int(self.count.sum()), "bins": bins}

    def __str__(self) -> str:
        return str(self.table())


def calibration(
    confidence: NDArray[np.floating[Any]],
    correct: NDArray[np.bool_],
    *,
    bins: int = 15,
) -> Calibration:
    """Calibration of confidences (N,) in [0, 1] given which of the labels are correct (N,).

    >>> result = calibration(np.array([0.9, 0.9, 0.5]), np.array([True, False, True]), bins=2)
    >>> result.count.tolist(), round(result.ece, 4)
    ([1, 2], 0.4333)
    """
    confidences = np.asarray(confidence, np.float64)
    if confidences.shape != np.shape(correct):
        raise MismatchError(f"expected as many labels as confidences, found {len(correct)} and {len(confidences)}")
    if not (np.isfinite(confidences).all() and ((confidences >= 0) & (confidences <= 1 + 1e-6)).all()):
        raise DataError("confidences must be in [0, 1]")
    if bins < 1:
        raise ConfigError(f"bins must be at least 1, got {bins}")
    edges = np.linspace(0.0, 1.0, bins + 1)
    bin_index = np.searchsorted(edges[1:-1], confidences, side="left")
    count = np.bincount(bin_index, minlength=bins)
    nonempty_count = np.where(count > 0, count, np.nan)
    return Calibration(
        edges,
        count.astype(np.int64),
        np.bincount(bin_index, weights=confidences, minlength=bins) / nonempty_count,
        np.bincount(bin_index, weights=np.asarray(correct, np.float64), minlength=bins) / nonempty_count,
    )


def token_calibration(
    predictions: Predictions,
    correct: NDArray[np.bool_],
    gold_entity: NDArray[np.bool_],
    *,
    scope: Scope = "all",
    bins: int = 15,
) -> Calibration:
    """Calibration of the probability of each token's predicted label.

    correct (N,): whether that label equals gold; gold_entity (N,): whether gold is not O. Scope "entities" restricts
    the tokens to those where prediction or gold is not O: otherwise the many easy O tokens dominate the result.
    """
    if scope not in get_args(Scope):
        raise ConfigError(unknown_name_message("scope", str(scope), get_args(Scope)))
    if predictions.probabilities is None:
        raise DataError("calibration needs probabilities; these predictions have none")
    confidence = predictions.probabilities[np.arange(len(predictions.labels)), predictions.labels]
    if scope == "entities":
        kept = (predictions.labels > 0) | gold_entity
        confidence, correct = confidence[kept], correct[kept]
    return calibration(confidence, correct, bins=bins)


def span_calibration(predicted: Spans, gold: Spans, *, bins: int = 15) -> Calibration:
    """Calibration of span scores; a span is correct if gold has one with equal bounds and type."""
    if predicted.score is None:
        raise DataError("calibration needs span scores; these spans have none")
    return calibration(predicted.score, is_correct(predicted, gold), bins=bins)
