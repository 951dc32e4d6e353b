"""Which of several overlapping spans stay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.int16]


def longest_first(start: Ints, end: Ints, tie_break: Ints) -> NDArray[np.int64]:
    """Order of preference: longest, then leftmost, then by `then`.  -> (S,)"""
    return np.lexsort((tie_break, start, start.astype(np.int64) - end))


def resolve_overlaps(sentence: Ints, start: Ints, end: Ints, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each span the earlier span it gives way to, or -1 if it stays.

    Spans are taken in the given order; one that overlaps a span taken before it in the same
    sentence gives way.  sentence, start, end, order (S,) -> (S,)
    """
    result = np.full(len(order), -1, np.int64)
    by_position = np.lexsort((start, sentence))
    sentences, starts, ends = sentence[by_position], start[by_position], end[by_position]
    # In the order of their starts, overlapping spans make some neighbours overlap.
    overlaps = (sentences[1:] == sentences[:-1]) & (starts[1:] < ends[:-1])
    if not overlaps.any():
        return result
    contested = np.isin(sentence, sentences[1:][overlaps])
    # In the order of preference, so that a span's position is its rank.
    candidates = order[contested[order]]
    _, group = np.unique(sentence[candidates], return_inverse=True)
    first, last = start[candidates].astype(np.int64), end[candidates].astype(np.int64)
    group_length = np.zeros(int(group.max()) + 1, np.int64)
    np.maximum.at(group_length, group, last)
    base = (np.cumsum(group_length) - group_length)[group]
    winner = _resolve_greedily(base + first, last - first, int(group_length.sum()))
    result[candidates] = np.where(winner >= 0, candidates[winner], -1)
    return result


def _resolve_greedily(start: NDArray[np.int64], length: NDArray[np.int64], num_cells: int) -> NDArray[np.int64]:
    """Rivals of spans on one line of `size` cells, given in the order of preference.

    In each round every span that no better one overlaps is taken, and those it overlaps go:
    the same choice as one by one, in a few passes.
    """
    no_owner = len(start)
    owner = np.full(num_cells, no_owner, np.int64)
    remaining = np.arange(no_owner)
    while len(remaining):
        cells, bounds = _span_cells(start[remaining], length[remaining])
        best = np.full(num_cells, no_owner, np.int64)
        np.minimum.at(best, cells, np.repeat(remaining, length[remaining]))
        taken = np.minimum.reduceat(best[cells], bounds) == remaining
        owner[cells[np.repeat(taken, length[remaining])]] = np.repeat(remaining[taken], length[remaining][taken])
        free = np.minimum.reduceat(owner[cells], bounds) == no_owner
        remaining = remaining[free]
    cells, bounds = _span_cells(start, length)
    span_of_cell = np.repeat(np.arange(no_owner), length)
    better = np.flatnonzero(owner[cells] < span_of_cell)
    result = np.full(no_owner, -1, np.int64)
    # Written backwards, so that the first such cell of a span has the last word.
    result[span_of_cell[better[::-1]]] = owner[cells[better[::-1]]]
    return result


def _span_cells(start: NDArray[np.int64], length: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cells of all spans, one after the other, and where each span's begin."""
    bounds = np.cumsum(length) - length
    steps = np.arange(int(length.sum()), dtype=np.int64)
    return steps + np.repeat(start - bounds, length), bounds
