"""How often a source says what is true: counted against a posterior."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def type_probabilities(probabilities: NDArray[np.float32]) -> NDArray[np.float32]:
    """Probability of each entity type, whether it begins or goes on.  (N, L) -> (N, E)"""
    both: NDArray[np.float32] = probabilities[:, 1::2] + probabilities[:, 2::2]
    return both


def type_reliability(
    votes: NDArray[np.int16], types: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Recall and precision of each source for each type, in expectation, token by token.

    votes (N, K), types (N, E) probability of each entity type.
    recall[k, e] = P(source says e | truth is e) over the tokens where it does not abstain;
    precision[k, e] = P(truth is e | source says e).  NaN where nothing was to be counted.
    -> (K, E), (K, E)
    """
    count, size = votes.shape[1], types.shape[1]
    hits, said, true = np.zeros((3, count, size))
    for source in range(count):
        column = votes[:, source]
        spoken = np.flatnonzero(column > 0)
        kind = (column[spoken].astype(np.int64) - 1) // 2
        said[source] = np.bincount(kind, minlength=size)
        hits[source] = np.bincount(kind, weights=types[spoken, kind], minlength=size)
        true[source] = types[column >= 0].sum(axis=0, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return (
            np.where(true > 0, np.minimum(hits / true, 1), np.nan),
            np.where(said > 0, np.minimum(hits / said, 1), np.nan),
        )


def emission_reliability(
    emissions: NDArray[np.float64], mass: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Recall and precision of each source for each type that an emission model implies.

    emissions (K, L, L) P(source says j | truth is i), mass (L,) how often each label is true.
    -> (K, E), (K, E); NaN where a source never says the type.
    """
    joint = mass[:, None] * emissions
    types = joint.shape[1] // 2
    pairs = joint[:, 1:, 1:].reshape(-1, types, 2, types, 2).sum(axis=(2, 4))
    hits = np.einsum("kee->ke", pairs)
    true = joint[:, 1:].sum(axis=2).reshape(-1, types, 2).sum(axis=2)
    said = joint[:, :, 1:].sum(axis=1).reshape(-1, types, 2).sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(true > 0, hits / true, np.nan), np.where(said > 0, hits / said, np.nan)
