"""Evidence from votes and emissions, and expected emissions from marginals; sparse both ways.

Most sources say the same thing almost everywhere, O or nothing.  That usual vote is counted once
for all tokens, and only the votes that differ from it are touched again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.kernels.blocks import over_blocks
from convener.kernels.compiled import REGROUP, Array, compiled

# Tokens that stay together in a block.
_UNIT = 1024


class SparseVotes(NamedTuple):
    """Votes (N, K) as each source's usual vote, -1 (abstain) or 0 (O), and all that differ."""

    usual: NDArray[np.int16]
    """(K,)"""
    bounds: NDArray[np.int64]
    """(N+1,) token n has the entries bounds[n] to bounds[n + 1]."""
    source: NDArray[np.int32]
    """(S,)"""
    said: NDArray[np.int16]
    """(S,)"""


def sparse_votes(votes: NDArray[np.int16]) -> SparseVotes:
    """Find what differs from each source's usual vote.  votes (N, K), -1 = abstain"""
    votes = np.ascontiguousarray(votes, np.int16)
    silent, outside = _tally(votes)
    usual = np.where(silent > outside, -1, 0).astype(np.int16)
    bounds = _differences(votes, usual)
    source = np.empty(bounds[-1], np.int32)
    said = np.empty(bounds[-1], np.int16)
    _gather(votes, usual, bounds, source, said)
    return SparseVotes(usual, bounds, source, said)


def log_evidence(
    votes: SparseVotes, log_emissions: Array, *, dtype: type = np.float32, threads: int = 1
) -> Array:
    """Sum of log emissions over the sources that did not abstain.  -> (N, L)

    log_emissions (K, L, S) [source, latent, said], where what is said is one of S symbols: most
    often one of the labels.  Sums are float64 inside; -inf, a label that a
    source never says there, makes the whole -inf.
    """
    sources, labels, symbols = log_emissions.shape
    # By what was said, abstain first: the latent labels are then contiguous.
    said = np.zeros((sources, symbols + 1, labels))
    said[:, 1:] = np.swapaxes(log_emissions, 1, 2)
    never = np.isneginf(said)
    finite = np.where(never, 0.0, said)
    usual = votes.usual.astype(np.int64) + 1
    each = np.arange(sources)
    change = finite - finite[each, usual][:, None]
    barred = never.astype(np.int32) - never[each, usual][:, None]
    base = finite[each, usual].sum(0)
    bars = never[each, usual].sum(0, dtype=np.int32)
    tokens = len(votes.bounds) - 1
    out = np.empty((tokens, labels), dtype)
    units = _units(tokens)
    strict = bool(never.any())

    def work(begin: int, end: int) -> None:
        first, last = int(units[begin]), int(units[end])
        _add(votes.bounds, votes.source, votes.said, first, last, change, base, out)
        if strict:
            _bar(votes.bounds, votes.source, votes.said, first, last, barred, bars, out)

    for _ in over_blocks(work, units, labels, threads):
        pass
    return out


def expected_emissions(
    votes: SparseVotes, marginals: Array, *, symbols: int | None = None, threads: int = 1
) -> NDArray[np.float64]:
    """How often each source is expected to have said j where the truth is i.  -> (K, L, S)

    marginals (N, L); [source, latent, said]; S symbols, by default the labels.  Abstaining is not
    counted.
    """
    tokens, labels = marginals.shape
    symbols = labels if symbols is None else symbols
    sources, units = len(votes.usual), _units(tokens)
    marginals = np.ascontiguousarray(marginals)

    def work(begin: int, end: int) -> tuple[Array, Array]:
        part, total = np.zeros((sources, symbols + 1, labels)), np.zeros(labels)
        span = int(units[begin]), int(units[end])
        _scatter(votes.bounds, votes.source, votes.said, *span, marginals, part, total)
        return part, total

    counts, totals = np.zeros((sources, symbols + 1, labels)), np.zeros(labels)
    for part, total in over_blocks(work, units, labels, threads):
        counts += part
        totals += total
    for k in np.flatnonzero(votes.usual >= 0):
        counts[k, votes.usual[k] + 1] = np.maximum(totals - counts[k].sum(0), 0)
    return np.ascontiguousarray(np.swapaxes(counts[:, 1:], 1, 2))


def _units(tokens: int) -> NDArray[np.int64]:
    """Bounds of pieces of `_UNIT` tokens."""
    return np.append(np.arange(0, tokens, _UNIT), tokens).astype(np.int64)


@compiled()
def _tally(votes):  # type: ignore[no-untyped-def]
    """How often each source abstains and says O.  -> (K,), (K,)"""
    K = votes.shape[1]
    silent, outside = np.zeros(K, np.int64), np.zeros(K, np.int64)
    for n in range(votes.shape[0]):
        for k in range(K):
            silent[k] += votes[n, k] == -1
            outside[k] += votes[n, k] == 0
    return silent, outside


@compiled()
def _differences(votes, usual):  # type: ignore[no-untyped-def]
    bounds = np.zeros(votes.shape[0] + 1, np.int64)
    for n in range(votes.shape[0]):
        count = 0
        for k in range(votes.shape[1]):
            count += votes[n, k] != usual[k]
        bounds[n + 1] = bounds[n] + count
    return bounds


@compiled()
def _gather(votes, usual, bounds, source, said):  # type: ignore[no-untyped-def]
    for n in range(votes.shape[0]):
        s = bounds[n]
        if s == bounds[n + 1]:
            continue
        for k in range(votes.shape[1]):
            if votes[n, k] != usual[k]:
                source[s] = k
                said[s] = votes[n, k]
                s += 1


@compiled(REGROUP)
def _add(bounds, source, said, first, last, change, base, out):  # type: ignore[no-untyped-def]
    L = base.shape[0]
    row = np.empty(L)
    for n in range(first, last):
        for j in range(L):
            row[j] = base[j]
        for s in range(bounds[n], bounds[n + 1]):
            for j in range(L):
                row[j] += change[source[s], said[s] + 1, j]
        for j in range(L):
            out[n, j] = row[j]


@compiled()
def _bar(bounds, source, said, first, last, barred, bars, out):  # type: ignore[no-untyped-def]
    """-inf where any vote is impossible; counted, because -inf cannot be taken back."""
    L = bars.shape[0]
    row = np.empty(L, np.int32)
    for n in range(first, last):
        row[:] = bars
        for s in range(bounds[n], bounds[n + 1]):
            for j in range(L):
                row[j] += barred[source[s], said[s] + 1, j]
        for j in range(L):
            if row[j] > 0:
                out[n, j] = -np.inf


@compiled(REGROUP)
def _scatter(bounds, source, said, first, last, marginals, counts, total):  # type: ignore[no-untyped-def]
    L = marginals.shape[1]
    for n in range(first, last):
        for j in range(L):
            total[j] += marginals[n, j]
        for s in range(bounds[n], bounds[n + 1]):
            for j in range(L):
                counts[source[s], said[s] + 1, j] += marginals[n, j]
