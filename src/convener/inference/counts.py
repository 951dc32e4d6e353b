"""Reliability of sources and transition counts, from votes and posteriors.

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


def type_probabilities(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Probability of each entity type: B- plus I-.  (N, L) -> (N, E)"""
    summed: NDArray[np.float32] = probabilities[:, 1::2] + probabilities[:, 2::2]
    return summed


def type_reliability(
    votes: NDArray[np.int16], type_probs: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Expected token-level recall and precision of each source for each type.

    votes (N, K), type_probs (N, E) probability of each entity type.
    recall[k, e] = P(vote of type e | true type e) over the tokens where the source does not abstain;
    precision[k, e] = P(true type e | vote of type e).  NaN where there is nothing to count.
    -> (K, E), (K, E)
    """
    num_sources, num_types = votes.shape[1], type_probs.shape[1]
    hits, voted, true = np.zeros((3, num_sources, num_types))
    for source in range(num_sources):
        column = votes[:, source]
        marked = np.flatnonzero(column > 0)
        type_index = (column[marked].astype(np.int64) - 1) // 2
        voted[source] = np.bincount(type_index, minlength=num_types)
        hits[source] = np.bincount(type_index, weights=type_probs[marked, type_index], minlength=num_types)
        true[source] = type_probs[column >= 0].sum(axis=0, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (
            np.where(true > 0, np.minimum(hits / true, 1), np.nan),
            np.where(voted > 0, np.minimum(hits / voted, 1), np.nan),
        )


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
