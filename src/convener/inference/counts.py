"""Transition counts, and division that allows zeros.

This module needs NumPy only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.schemes import is_sentence_start


def safe_divide(numerator: NDArray[np.float64], denominator: NDArray[Any]) -> NDArray[np.float64]:
    """Element-wise quotient; NaN where the denominator is 0."""
    result = np.full(np.shape(numerator), np.nan)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    return result


def transition_counts(labels: NDArray[np.int16], offsets: NDArray[np.int64], num_labels: int) -> NDArray[np.float64]:
    """Counts of transitions [previous label, label]; the label before a sentence is O.  -> (L, L)

    labels (N,), or votes (N, K); pairs with an abstention are not counted.
    """
    previous = np.empty_like(labels)
    previous[1:] = labels[:-1]
    previous[is_sentence_start(len(labels), offsets)] = 0
    both_vote = (previous >= 0) & (labels >= 0)
    pairs = previous[both_vote].astype(np.int64) * num_labels + labels[both_vote]
    return np.bincount(pairs, minlength=num_labels * num_labels).reshape(num_labels, num_labels).astype(np.float64)
