"""Which of several overlapping spans stay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.int16]


def longest_first(start: Ints, end: Ints, then: Ints) -> NDArray[np.int64]:
    """Order of preference: longest, then leftmost, then by `then`.  -> (S,)"""
    return np.lexsort((then, start, start.astype(np.int64) - end))


def rivals(sentence: Ints, start: Ints, end: Ints, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each span the earlier span it gives way to, or -1 if it stays.

    Spans are taken in the given order; one that overlaps a span taken before it in the same
    sentence gives way.  sentence, start, end, order (S,) -> (S,)
    """
    result = np.full(len(order), -1, np.int64)
    by_place = np.lexsort((start, sentence))
    sentences, starts, ends = sentence[by_place], start[by_place], end[by_place]
    # In the order of their starts, overlapping spans make some neighbours overlap.
    crossed = (sentences[1:] == sentences[:-1]) & (starts[1:] < ends[:-1])
    if not crossed.any():
        return result
    contested = np.isin(sentence, sentences[1:][crossed])
    # In the order of preference, so that a span's position is its rank.
    chosen = order[contested[order]]
    _, place = np.unique(sentence[chosen], return_inverse=True)
    first, last = start[chosen].astype(np.int64), end[chosen].astype(np.int64)
    widest = np.zeros(int(place.max()) + 1, np.int64)
    np.maximum.at(widest, place, last)
    base = (np.cumsum(widest) - widest)[place]
    found = _greedy(base + first, last - first, int(widest.sum()))
    result[chosen] = np.where(found >= 0, chosen[found], -1)
    return result


def _greedy(start: NDArray[np.int64], length: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Rivals of spans on one line of `size` cells, given in the order of preference.

    In each round every span that no better one overlaps is taken, and those it overlaps go:
    the same choice as one by one, in a few passes.
    """
    nobody = len(start)
    owner = np.full(size, nobody, np.int64)
    left = np.arange(nobody)
    while len(left):
        cells, bounds = _cells(start[left], length[left])
        best = np.full(size, nobody, np.int64)
        np.minimum.at(best, cells, np.repeat(left, length[left]))
        taken = np.minimum.reduceat(best[cells], bounds) == left
        owner[cells[np.repeat(taken, length[left])]] = np.repeat(left[taken], length[left][taken])
        free = np.minimum.reduceat(owner[cells], bounds) == nobody
        left = left[free]
    cells, bounds = _cells(start, length)
    own = np.repeat(np.arange(nobody), length)
    better = np.flatnonzero(owner[cells] < own)
    result = np.full(nobody, -1, np.int64)
    # Written backwards, so that the first such cell of a span has the last word.
    result[own[better[::-1]]] = owner[cells[better[::-1]]]
    return result


def _cells(
    start: NDArray[np.int64], length: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cells of all spans, one after the other, and where each span's begin."""
    bounds = np.cumsum(length) - length
    steps = np.arange(int(length.sum()), dtype=np.int64)
    return steps + np.repeat(start - bounds, length), bounds
