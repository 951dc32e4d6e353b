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
    published: bool = False
    """Whether the sums are those of the authors' code: see `wxor_sums`."""

    def __add__(self, other: WXORSums) -> WXORSums:
        if self.published != other.published:
            raise ValueError(f"expected sums of the same form, got published={self.published} and {other.published}")
        return WXORSums(self.sums + other.sums, self.counts + other.counts, self.published)

    def scores(self) -> NDArray[np.float64]:
        """WXOR scores W~.  -> (K, L, L) [source, query, target]

        W divided by the number of votes of k for q, then a softmax over the queries q of each (k, l).  O, the diagonal
        and labels that k never votes are excluded from the softmax and have score 0; columns without queries are 0.
        As in the authors' code (`published`): W is normalized over the targets l of each (k, q), and pairs that differ
        in both type and prefix are halved.
        """
        counts = self.counts[:, :, None]
        means = _safe_divide(self.sums, counts)
        if self.published:
            shares = _safe_divide(means, means.sum(axis=2, keepdims=True))
            shares[:, _differ_in_both(means.shape[1])] *= 0.5
            return shares
        weights = np.exp(means - means.max(axis=1, keepdims=True, initial=0.0))
        weights *= (counts > 0) & ~np.eye(means.shape[1], dtype=bool)
        weights[:, 0, :] = weights[:, :, 0] = 0
        return _safe_divide(weights, weights.sum(axis=1, keepdims=True))


def wxor_sums(
    votes: NDArray[np.int16],
    offsets: NDArray[np.int64],
    scores: NDArray[np.float32] | NDArray[np.float64],
    *,
    published: bool = False,
) -> WXORSums:
    """Sums of the weighted XOR, Eq. (5), over these sentences.

    votes (N, K), -1 = abstain; offsets (M+1,); scores A~ (M, K, L), by label.  With `published`, the scores of the
    sources that vote for the target are averaged instead of summed, as in the authors' code.

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
    _accumulate(votes, np.asarray(offsets), np.ascontiguousarray(scores), published, sums, counts)
    return WXORSums(sums, counts, published)


def _safe_divide(numerator: NDArray[np.float64], denominator: Array) -> NDArray[np.float64]:
    """The ratio, 0 where the denominator is 0."""
    ratio: NDArray[np.float64] = np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
    return ratio


def _differ_in_both(num_labels: int) -> Array:
    """Pairs of labels that differ in both type and prefix; entries of O are not used.  -> (L, L)"""
    label = np.arange(num_labels)
    entity_type, prefix = (label + 1) // 2, label % 2
    differ: Array = (entity_type[:, None] != entity_type) & (prefix[:, None] != prefix)
    return differ


@jit()
def _accumulate(votes, offsets, scores, averaged, sums, counts):  # type: ignore[no-untyped-def]
    """Sums of Eq. (5). Tokens marked by fewer than two sources, which are nearly all, are skipped."""
    K, L = counts.shape
    said, speaker = np.empty(K, np.int64), np.empty(K, np.int64)
    voices = np.zeros(L, np.int64)
    for m in range(len(offsets) - 1):
        for t in range(offsets[m], offsets[m + 1]):
            n = 0
            for k in range(K):
                if votes[t, k] > 0:
                    said[n], speaker[n] = votes[t, k], k
                    counts[k, votes[t, k]] += 1
                    n += 1
            if n < 2:
                continue
            for b in range(n):
                voices[said[b]] += 1
            for a in range(n):
                doubt = 1.0 - scores[m, speaker[a], said[a]]
                for b in range(n):
                    if said[b] != said[a]:
                        trust = scores[m, speaker[b], said[b]] / (voices[said[b]] if averaged else 1)
                        sums[speaker[a], said[a], said[b]] += doubt * trust
            for b in range(n):
                voices[said[b]] = 0
