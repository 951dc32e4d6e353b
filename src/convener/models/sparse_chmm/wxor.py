"""Weighted XOR scores, Eq. (5): how often a source votes one label where more reliable sources vote another.

For query q and target l, both not O and different, with the scores A~ of the token's sentence,
    W[k,q,l] = sum over tokens of (1 - A~[k,q]) x[k,q] * sum over k' of A~[k',l] x[k',l].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.inference._numba import Array, jit


@dataclass(frozen=True, eq=False)
class WXORSums:
    """Sums of the weighted XOR, Eq. (5), over some sentences; sums of several datasets can be added."""

    sums: NDArray[np.float64]
    """(K, L, L) [source, query, target]"""
    counts: NDArray[np.int64]
    """(K, L) votes of each source for each label; 0 for O."""

    def __add__(self, other: WXORSums) -> WXORSums:
        return WXORSums(self.sums + other.sums, self.counts + other.counts)

    def scores(self) -> NDArray[np.float64]:
        """WXOR scores W~.  -> (K, L, L) [source, query, target]

        W divided by the number of votes of k for q, then a softmax over the queries q of each (k, l).  O, the diagonal
        and labels that k never votes are excluded from the softmax and have score 0; columns without queries are 0.
        """
        counts = self.counts[:, :, None]
        means = _safe_divide(self.sums, counts)
        weights = np.exp(means - means.max(axis=1, keepdims=True, initial=0.0))
        weights *= (counts > 0) & ~np.eye(means.shape[1], dtype=bool)
        weights[:, 0, :] = weights[:, :, 0] = 0
        return _safe_divide(weights, weights.sum(axis=1, keepdims=True))


def wxor_sums(
    votes: NDArray[np.int16],
    offsets: NDArray[np.int64],
    scores: NDArray[np.float32] | NDArray[np.float64],
) -> WXORSums:
    """Sums of the weighted XOR, Eq. (5), over these sentences.

    votes (N, K), -1 = abstain; offsets (M+1,); scores A~ (M, K, L), by label.

    >>> votes, offsets = np.array([[1, 3], [1, 0]], np.int16), np.array([0, 2])
    >>> wxor = wxor_sums(votes, offsets, np.full((1, 2, 5), 0.8))
    >>> float(wxor.sums[0, 1, 3].round(6)), wxor.counts[0].tolist()
    (0.16, [0, 2, 0, 0, 0])
    >>> (wxor + wxor).scores()[0, :, 3].tolist()
    [0.0, 1.0, 0.0, 0.0, 0.0]
    """
    num_sources, num_labels = scores.shape[1:]
    sums, counts = (
        np.zeros((num_sources, num_labels, num_labels)),
        np.zeros((num_sources, num_labels), np.int64),
    )
    votes = np.ascontiguousarray(votes, np.int16)
    _accumulate(votes, np.asarray(offsets), np.ascontiguousarray(scores), sums, counts)
    return WXORSums(sums, counts)


def _safe_divide(numerator: NDArray[np.float64], denominator: Array) -> NDArray[np.float64]:
    """The ratio, 0 where the denominator is 0."""
    ratio: NDArray[np.float64] = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
    return ratio


@jit()
def _accumulate(votes, offsets, scores, sums, counts):  # type: ignore[no-untyped-def]
    """Sums of Eq. (5). Tokens marked by fewer than two sources, which are nearly all, are skipped."""
    K = counts.shape[0]
    vote, source = np.empty(K, np.int64), np.empty(K, np.int64)
    for m in range(len(offsets) - 1):
        for t in range(offsets[m], offsets[m + 1]):
            n = 0
            for k in range(K):
                if votes[t, k] > 0:
                    vote[n], source[n] = votes[t, k], k
                    counts[k, votes[t, k]] += 1
                    n += 1
            if n < 2:
                continue
            for a in range(n):
                error = 1.0 - scores[m, source[a], vote[a]]
                for b in range(n):
                    if vote[b] != vote[a]:
                        sums[source[a], vote[a], vote[b]] += error * scores[m, source[b], vote[b]]
