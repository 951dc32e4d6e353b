"""Log evidence of sparse votes, expected emission counts, and posteriors of tokens without context.

Here the emissions are the same for all sentences: models without a network (`hmm`, `linked_hmm`, `dawid_skene`, ...)
use this module. Sparse-CHMM, whose emissions differ between sentences, uses `vote_cells`. Both compute Eq. (10) of the
Sparse-CHMM paper.

A class is O or an entity type in the IO scheme (C = 1+E), or a label in the BIO scheme (C = L).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.inference._numba import REASSOCIATE, Array, jit, map_blocks
from convener.inference.voting import weighted_counts

# Tokens per chunk; blocks of work consist of complete chunks.
_CHUNK_TOKENS = 1024
# Probabilities closer than this are a tie, so that the order of summation does not decide.
_TIE_TOLERANCE = 1e-6


class SparseVotes(NamedTuple):
    """Votes (N, K) as one default vote per source, -1 (abstain) or 0 (O), and the n exceptions from it.

    This saves space only: what an unmarked token means is in the emissions, not here.
    """

    default_vote: NDArray[np.int16]
    """(K,)"""
    offsets: NDArray[np.int64]
    """(N+1,) token n has the entries offsets[n] to offsets[n + 1]."""
    source: NDArray[np.int32]
    """(n,)"""
    vote: NDArray[np.int16]
    """(n,)"""


def sparsify_votes(votes: NDArray[np.int16]) -> SparseVotes:
    """Find the default vote of each source and all votes that differ from it.  votes (N, K), -1 = abstain"""
    votes = np.ascontiguousarray(votes, np.int16)
    num_abstain, num_o = _count_defaults(votes)
    default_vote = np.where(num_abstain > num_o, -1, 0).astype(np.int16)
    offsets = _exception_offsets(votes, default_vote)
    source = np.empty(offsets[-1], np.int32)
    vote = np.empty(offsets[-1], np.int16)
    _gather_exceptions(votes, default_vote, offsets, source, vote)
    return SparseVotes(default_vote, offsets, source, vote)


def log_evidence(votes: SparseVotes, log_emission: Array, *, dtype: type = np.float32, num_threads: int = 1) -> Array:
    """Log evidence: sum of log emissions over the sources that did not abstain.  -> (N, L)

    Eq. (10) of the Sparse-CHMM paper.

    log_emission (K, L, S) [source, latent label, vote]; votes are S symbols, usually the labels.  Sums are
    computed in float64; a single -inf (an impossible vote) makes the sum -inf.
    """
    num_sources, num_labels, num_symbols = log_emission.shape
    # [source, vote, latent label] with abstain first: latent labels are contiguous.
    by_vote = np.zeros((num_sources, num_symbols + 1, num_labels))
    by_vote[:, 1:] = np.swapaxes(log_emission, 1, 2)
    impossible = np.isneginf(by_vote)
    finite = np.where(impossible, 0.0, by_vote)
    default_vote = votes.default_vote.astype(np.int64) + 1
    source_index = np.arange(num_sources)
    delta = finite - finite[source_index, default_vote][:, None]
    impossible_delta = impossible.astype(np.int32) - impossible[source_index, default_vote][:, None]
    default_sum = finite[source_index, default_vote].sum(0)
    default_impossible = impossible[source_index, default_vote].sum(0, dtype=np.int32)
    num_tokens = len(votes.offsets) - 1
    out = np.empty((num_tokens, num_labels), dtype)
    chunk_offsets = _chunk_offsets(num_tokens)
    any_impossible = bool(impossible.any())

    def run_block(start: int, end: int) -> None:
        first, last = int(chunk_offsets[start]), int(chunk_offsets[end])
        _sum_evidence(votes.offsets, votes.source, votes.vote, first, last, delta, default_sum, out)
        if any_impossible:
            exceptions = (votes.offsets, votes.source, votes.vote)
            _mark_impossible(*exceptions, first, last, impossible_delta, default_impossible, out)

    for _ in map_blocks(run_block, chunk_offsets, num_labels, num_threads):
        pass
    return out


def expected_emission_counts(
    votes: SparseVotes, marginals: Array, *, num_symbols: int | None = None, num_threads: int = 1
) -> NDArray[np.float64]:
    """Expected counts of votes [source, latent label, vote].  -> (K, L, S)

    marginals (N, L); S symbols, by default the labels.  Abstentions are not counted.
    """
    num_tokens, num_labels = marginals.shape
    num_symbols = num_labels if num_symbols is None else num_symbols
    num_sources, chunk_offsets = len(votes.default_vote), _chunk_offsets(num_tokens)
    marginals = np.ascontiguousarray(marginals)

    def run_block(start: int, end: int) -> tuple[Array, Array]:
        part, total = np.zeros((num_sources, num_symbols + 1, num_labels)), np.zeros(num_labels)
        bounds = int(chunk_offsets[start]), int(chunk_offsets[end])
        _scatter_counts(votes.offsets, votes.source, votes.vote, *bounds, marginals, part, total)
        return part, total

    counts, totals = np.zeros((num_sources, num_symbols + 1, num_labels)), np.zeros(num_labels)
    for part, total in map_blocks(run_block, chunk_offsets, num_labels, num_threads):
        counts += part
        totals += total
    for k in np.flatnonzero(votes.default_vote >= 0):
        counts[k, votes.default_vote[k] + 1] = np.maximum(totals - counts[k].sum(0), 0)
    return np.ascontiguousarray(np.swapaxes(counts[:, 1:], 1, 2))


def to_type_votes(votes: NDArray[np.int16]) -> NDArray[np.int16]:
    """Votes for types: 0 is O, then the types in order; -1 stays.  votes (N, K) BIO labels -> (N, K)"""
    return np.where(votes < 0, -1, (votes + 1) // 2).astype(np.int16)


def vote_shares(votes: NDArray[np.int16], num_classes: int, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted shares of the votes at each token; 1 for O at tokens without votes.

    votes (N, K), weights (K,) by source -> (N, C)
    """
    counts = weighted_counts(votes, votes >= 0, weights, num_classes)
    counts[~counts.any(axis=1), 0] = 1
    shares: NDArray[np.float64] = counts / counts.sum(axis=1, keepdims=True)
    return shares


def class_posterior(
    votes: SparseVotes, log_confusion: NDArray[np.float64], log_prior: NDArray[np.float64], *, num_threads: int = 1
) -> tuple[NDArray[np.float64], float]:
    """Posterior of each class at each token, and the log-likelihood of all votes.

    log_confusion (K, C, C) [source, true class, vote], log_prior (C,) -> (N, C), log p(votes)
    """
    evidence: NDArray[np.float64] = log_evidence(votes, log_confusion, dtype=np.float64, num_threads=num_threads)
    joint = evidence + log_prior
    top = joint.max(axis=1, keepdims=True)
    joint = np.exp(joint - top)
    total = joint.sum(axis=1, keepdims=True)
    return joint / total, float(top.sum() + np.log(total).sum())


def most_probable_class(posterior: NDArray[np.float64]) -> NDArray[np.int64]:
    """The most probable class of each token, the last one of a tie.  (N, C) -> (N,)"""
    best = posterior >= posterior.max(axis=1, keepdims=True) - _TIE_TOLERANCE
    classes: NDArray[np.int64] = posterior.shape[1] - 1 - np.argmax(best[:, ::-1], axis=1)
    return classes


def _chunk_offsets(num_tokens: int) -> NDArray[np.int64]:
    """Bounds of chunks of `_CHUNK_TOKENS` tokens."""
    return np.append(np.arange(0, num_tokens, _CHUNK_TOKENS), num_tokens).astype(np.int64)


@jit()
def _count_defaults(votes):  # type: ignore[no-untyped-def]
    """Number of abstentions and of votes for O, by source.  -> (K,), (K,)"""
    K = votes.shape[1]
    abstained, outside = np.zeros(K, np.int64), np.zeros(K, np.int64)
    for n in range(votes.shape[0]):
        for k in range(K):
            abstained[k] += votes[n, k] == -1
            outside[k] += votes[n, k] == 0
    return abstained, outside


@jit()
def _exception_offsets(votes, usual):  # type: ignore[no-untyped-def]
    bounds = np.zeros(votes.shape[0] + 1, np.int64)
    for n in range(votes.shape[0]):
        count = 0
        for k in range(votes.shape[1]):
            count += votes[n, k] != usual[k]
        bounds[n + 1] = bounds[n] + count
    return bounds


@jit()
def _gather_exceptions(votes, usual, bounds, source, exception):  # type: ignore[no-untyped-def]
    for n in range(votes.shape[0]):
        s = bounds[n]
        if s == bounds[n + 1]:
            continue
        for k in range(votes.shape[1]):
            if votes[n, k] != usual[k]:
                source[s] = k
                exception[s] = votes[n, k]
                s += 1


@jit(REASSOCIATE)
def _sum_evidence(bounds, source, exception, first, last, change, base, out):  # type: ignore[no-untyped-def]
    L = base.shape[0]
    row = np.empty(L)
    for n in range(first, last):
        for j in range(L):
            row[j] = base[j]
        for s in range(bounds[n], bounds[n + 1]):
            for j in range(L):
                row[j] += change[source[s], exception[s] + 1, j]
        for j in range(L):
            out[n, j] = row[j]


@jit()
def _mark_impossible(bounds, source, exception, first, last, barred, bars, out):  # type: ignore[no-untyped-def]
    """Write -inf where any vote is impossible; counts are needed because -inf cannot be subtracted."""
    L = bars.shape[0]
    row = np.empty(L, np.int32)
    for n in range(first, last):
        row[:] = bars
        for s in range(bounds[n], bounds[n + 1]):
            for j in range(L):
                row[j] += barred[source[s], exception[s] + 1, j]
        for j in range(L):
            if row[j] > 0:
                out[n, j] = -np.inf


@jit(REASSOCIATE)
def _scatter_counts(bounds, source, exception, first, last, marginals, counts, total):  # type: ignore[no-untyped-def]
    L = marginals.shape[1]
    for n in range(first, last):
        for j in range(L):
            total[j] += marginals[n, j]
        for s in range(bounds[n], bounds[n + 1]):
            for j in range(L):
                counts[source[s], exception[s] + 1, j] += marginals[n, j]
