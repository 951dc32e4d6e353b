"""Weighted XOR: how often a source says a label where others, who are trusted more, say another.

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
    """Sums of weighted XOR over some sentences; the values of several parts add up."""

    sums: NDArray[np.float64]
    """(K, L, L) [source, query, target]"""
    counts: NDArray[np.int64]
    """(K, L) how often each source says each label, O left out."""
    published: bool = False
    """Whether as in the authors' code: see `disagreement`."""

    def __add__(self, other: WXORSums) -> WXORSums:
        if self.published != other.published:
            raise ValueError("expected sums of one form, got one as published and one as printed")
        return WXORSums(self.sums + other.sums, self.counts + other.counts, self.published)

    def scores(self) -> NDArray[np.float64]:
        """The table W~.  -> (K, L, L) [source, query, target]

        W over how often k says q, then a softmax over the queries q of each (k, l).  O, the
        diagonal and labels that k never says are left out of it and are 0; so is all of an empty
        column.  As published: each (k, q) is normalised over the targets l, and then pairs that
        differ in both type and prefix count half.
        """
        counts = self.counts[:, :, None]
        means = _safe_divide(self.sums, counts)
        if self.published:
            shares = _safe_divide(means, means.sum(axis=2, keepdims=True))
            shares[:, _unlike(means.shape[1])] *= 0.5
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
    """Sums of weighted XOR over these sentences, to be added to others and made a table.

    votes (N, K), -1 = abstain; offsets (M+1,); scores A~ (M, K, L), by label.  As published, the
    scores of the sources that say the target are averaged, not summed.

    >>> votes, offsets = np.array([[1, 3], [1, 0]], np.int16), np.array([0, 2])
    >>> found = wxor_sums(votes, offsets, np.full((1, 2, 5), 0.8))
    >>> float(found.sums[0, 1, 3].round(6)), found.counts[0].tolist()
    (0.16, [0, 2, 0, 0, 0])
    >>> (found + found).scores()[0, :, 3].tolist()
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


def _safe_divide(part: NDArray[np.float64], whole: Array) -> NDArray[np.float64]:
    """Part by whole, 0 where the whole is."""
    ratio: NDArray[np.float64] = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
    return ratio


def _unlike(labels: int) -> Array:
    """Which labels differ in both type and prefix; O, which has neither, is not asked.  (L, L)"""
    label = np.arange(labels)
    kind, prefix = (label + 1) // 2, label % 2
    unlike: Array = (kind[:, None] != kind) & (prefix[:, None] != prefix)
    return unlike


@jit()
def _accumulate(votes, offsets, scores, averaged, sums, counts):  # type: ignore[no-untyped-def]
    """Tokens where fewer than two sources mark anything, nearly all, cost only a look."""
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
