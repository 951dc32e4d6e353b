"""Tokens judged one at a time, without context: classes, their posterior, and labels from it.

A class is O or an entity type in the IO scheme (C = 1+E), a label in the BIO scheme (C = L).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.kernels.evidence import SparseVotes, log_evidence
from convener.kernels.vote import weighted_counts

# Probabilities closer than this are a tie: the order of a sum must not decide.
_TIE_TOLERANCE = 1e-6


def to_type_votes(votes: NDArray[np.int16]) -> NDArray[np.int16]:
    """Votes by type: 0 is O, then the types in order; -1 stays.  votes (N, K) BIO -> (N, K)"""
    return np.where(votes < 0, -1, (votes + 1) // 2).astype(np.int16)


def vote_shares(votes: NDArray[np.int16], num_classes: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of the votes at each token; all on O where nobody voted.

    said (N, K), weights (K,) of each source's votes -> (N, C)
    """
    counts = weighted_counts(votes, votes >= 0, weights, num_classes)
    counts[~counts.any(axis=1), 0] = 1
    shares: NDArray[np.float64] = counts / counts.sum(axis=1, keepdims=True)
    return shares


def class_posterior(
    votes: SparseVotes, log_confusion: NDArray[np.float64], log_prior: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Probability of each class at each token, and the log-likelihood of all votes.

    log_confusion (K, C, C) [source, true, said], log_prior (C,) -> (N, C), log p(votes)
    """
    joint: NDArray[np.float64] = log_evidence(votes, log_confusion, dtype=np.float64) + log_prior
    top = joint.max(axis=1, keepdims=True)
    joint = np.exp(joint - top)
    total = joint.sum(axis=1, keepdims=True)
    return joint / total, float(top.sum() + np.log(total).sum())


def most_probable_class(posterior: NDArray[np.float64]) -> NDArray[np.int64]:
    """The most probable class of each token, the last one of a tie.  (N, C) -> (N,)"""
    best = posterior >= posterior.max(axis=1, keepdims=True) - _TIE_TOLERANCE
    classes: NDArray[np.int64] = posterior.shape[1] - 1 - np.argmax(best[:, ::-1], axis=1)
    return classes
