"""Sources that remember: what each says together with what it said one token before.

A pair (h, j) of a source's last and present label is one symbol, h L + j; (O, O) is 0, what most
sources say almost everywhere, so that pairs are as sparse as votes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.kernels.evidence import SparseVotes, expected_emissions, log_evidence

MOST_LABELS = 181
"""A symbol must fit into int16."""
# Votes of a row that nobody has ever been seen in, and of a label nobody ever says.
_USUAL, _TINY = 1.0, 1e-2
Floats = NDArray[np.float64]


def pair_votes(
    votes: NDArray[np.int16], offsets: NDArray[np.int64], labels: int
) -> NDArray[np.int16]:
    """Symbols of votes (N, K) in sentences (M+1,); -1 where a source abstains.  -> (N, K)

    Before a sentence, and where it abstained a token before, a source counts as having said O.
    """
    last = np.zeros_like(votes)
    last[1:] = np.maximum(votes[:-1], 0)
    last[offsets[:-1][np.diff(offsets) > 0]] = 0
    return np.where(votes < 0, np.int16(-1), last * np.int16(labels) + votes)


def pair_evidence(pairs: SparseVotes, log_votes: Floats, *, threads: int = 1) -> Floats:
    """Sum of log-probabilities over the sources that did not abstain.  -> (N, L)

    log_votes (K, L, L, L) [source, true, last, said].
    """
    sources, labels = log_votes.shape[:2]
    flat = log_votes.reshape(sources, labels, -1)
    found: Floats = log_evidence(pairs, flat, dtype=np.float64, threads=threads)
    return found


def pair_counts(pairs: SparseVotes, marginals: Floats, *, threads: int = 1) -> Floats:
    """How often each source is expected to say j after h where i is true.  -> (K, L, L, L)

    marginals (N, L); [source, true, last, said].
    """
    labels = marginals.shape[1]
    counts = expected_emissions(pairs, marginals, symbols=labels * labels, threads=threads)
    return counts.reshape(-1, labels, labels, labels)


def presumed_counts(
    counts: Floats,
    weights: Floats,
    *,
    false_votes: Floats,
    pooled: float,
    diagonal: float,
) -> Floats:
    """Counts beforehand, from those by the labels of a simple vote.  (K, L, L, L) -> the same

    Every row (source, true, last) gets `pooled` votes as all sources speak there, `diagonal` votes
    for the truth, and one as the source speaks after such a label whatever is true: going on with
    a span, right or wrong, is no news. Where the truth is O, `false_votes` (K,) spans are invented,
    of the types the source marks. Sources with `weights` (K,) keep so many times their own counts,
    and are presumed to end their spans where these end, as often as they mark any: no simple vote
    knows of a span that is too long.
    """
    labels = counts.shape[1]
    together = counts.sum(axis=0)
    after = _rows(together.sum(axis=0) + _TINY)
    habit = _rows(counts.sum(axis=1) + after)
    prior: Floats = _USUAL * habit[:, None] + pooled * _rows(together + after)
    prior += diagonal * np.eye(labels)[:, None]
    begun = counts[:, :, 0, 1:].sum(axis=1) + _TINY / labels
    prior[:, 0, 0, 1:] += false_votes[:, None] * _rows(begun)
    prior[:, 0, 1:, 0] += weights[:, None] * counts[:, :, 1:].sum(axis=(1, 3))
    return prior + weights[:, None, None, None] * counts


def _rows(counts: Floats) -> Floats:
    shares: Floats = counts / counts.sum(axis=-1, keepdims=True)
    return shares
