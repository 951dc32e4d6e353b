"""Sources that remember: what each says together with what it said one token before.

A pair (h, j) of a source's last and present label is one symbol, h L + j; (O, O) is 0, what most
sources say almost everywhere, so that pairs are as sparse as votes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.kernels.evidence import SparseVotes, expected_emission_counts, log_evidence

MAX_LABELS = 181
"""A symbol must fit into int16."""
# Votes of a row that nobody has ever been seen in, and of a label nobody ever says.
_HABIT_VOTES, _TINY = 1.0, 1e-2
Floats = NDArray[np.float64]


def with_previous_vote(votes: NDArray[np.int16], offsets: NDArray[np.int64], num_labels: int) -> NDArray[np.int16]:
    """Symbols of votes (N, K) in sentences (M+1,); -1 where a source abstains.  -> (N, K)

    Before a sentence, and where it abstained a token before, a source counts as having said O.
    """
    previous = np.zeros_like(votes)
    previous[1:] = np.maximum(votes[:-1], 0)
    previous[offsets[:-1][np.diff(offsets) > 0]] = 0
    return np.where(votes < 0, np.int16(-1), previous * np.int16(num_labels) + votes)


def history_evidence(votes: SparseVotes, log_emission: Floats, *, num_threads: int = 1) -> Floats:
    """Sum of log-probabilities over the sources that did not abstain.  -> (N, L)

    log_votes (K, L, L, L) [source, true, last, said].
    """
    num_sources, num_labels = log_emission.shape[:2]
    flat = log_emission.reshape(num_sources, num_labels, -1)
    evidence: Floats = log_evidence(votes, flat, dtype=np.float64, num_threads=num_threads)
    return evidence


def history_counts(votes: SparseVotes, marginals: Floats, *, num_threads: int = 1) -> Floats:
    """How often each source is expected to say j after h where i is true.  -> (K, L, L, L)

    marginals (N, L); [source, true, last, said].
    """
    num_labels = marginals.shape[1]
    counts = expected_emission_counts(votes, marginals, num_symbols=num_labels * num_labels, num_threads=num_threads)
    return counts.reshape(-1, num_labels, num_labels, num_labels)


def prior_counts(
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
    num_labels = counts.shape[1]
    pooled_counts = counts.sum(axis=0)
    pooled_transition = _normalize_rows(pooled_counts.sum(axis=0) + _TINY)
    source_transition = _normalize_rows(counts.sum(axis=1) + pooled_transition)
    prior: Floats = _HABIT_VOTES * source_transition[:, None] + pooled * _normalize_rows(
        pooled_counts + pooled_transition
    )
    prior += diagonal * np.eye(num_labels)[:, None]
    begin_counts = counts[:, :, 0, 1:].sum(axis=1) + _TINY / num_labels
    prior[:, 0, 0, 1:] += false_votes[:, None] * _normalize_rows(begin_counts)
    prior[:, 0, 1:, 0] += weights[:, None] * counts[:, :, 1:].sum(axis=(1, 3))
    return prior + weights[:, None, None, None] * counts


def _normalize_rows(counts: Floats) -> Floats:
    probs: Floats = counts / counts.sum(axis=-1, keepdims=True)
    return probs
