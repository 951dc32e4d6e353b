"""Windows over sentences that are longer than a model reads, stitched at word boundaries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.packed import offsets_of

Ints = NDArray[np.int64]


class Windows(NamedTuple):
    """Stretches of words that a model reads at once; (W,) each.

    A window reads the words `start` to `end`, and gives the vectors of the words `first` to
    `last`: every word's vector comes from one window. Of sentences that are not empty.
    """

    start: Ints
    end: Ints
    first: Ints
    last: Ints


def windows_of(pieces: Ints, offsets: Ints, *, capacity: int, overlap: float) -> Windows:
    """Windows of at most `capacity` pieces; a sentence that fits is one window.

    pieces (N,) how many pieces each word has, none more than a quarter of `capacity`; offsets
    (M+1,) of sentences in words; overlap: the share of a window that the next one reads again.
    Where two overlap, the earlier gives the first half, the later the second.

    >>> windows = windows_of(np.ones(10, int), np.array([0, 10]), capacity=4, overlap=0.5)
    >>> [(int(a), int(b)) for a, b in zip(windows.start, windows.end)]
    [(0, 4), (2, 6), (4, 8), (6, 10)]
    >>> [(int(a), int(b)) for a, b in zip(windows.first, windows.last)]
    [(0, 3), (3, 5), (5, 7), (7, 10)]
    """
    before = offsets_of(pieces)
    start, end = offsets[:-1], offsets[1:]
    fits = before[end] - before[start] <= capacity
    whole = (start[fits & (start < end)], end[fits & (start < end)])
    parts = [np.stack([*whole, *whole])]
    for number in np.flatnonzero(~fits):
        parts.append(_slid(before, int(start[number]), int(end[number]), capacity, overlap))
    table = np.concatenate(parts, axis=1)
    return Windows(*table[:, np.argsort(table[0], kind="stable")])


def _slid(before: Ints, start: int, end: int, capacity: int, overlap: float) -> Ints:
    """Windows over one long sentence.  -> (4, W)"""
    starts, ends = [start], [_reach(before, start, capacity)]
    while ends[-1] < end:
        again = before[ends[-1]] - int(overlap * capacity)
        follow = max(int(np.searchsorted(before, again)), starts[-1] + 1)
        if before[end] - before[follow] <= capacity:
            # The last window is as full as it can be: its words have more before them.
            follow = max(starts[-1] + 1, int(np.searchsorted(before, before[end] - capacity)))
        starts.append(follow)
        ends.append(min(end, _reach(before, follow, capacity)))
    middle = [
        int(np.searchsorted(before, (before[follow] + before[until]) // 2))
        for follow, until in zip(starts[1:], ends[:-1], strict=True)
    ]
    table = np.array([starts, ends, [start, *middle], [*middle, end]])
    # Where overlap is large and words are long, a window may be left with no word to give.
    return table[:, table[2] < table[3]]


def _reach(before: Ints, start: int, capacity: int) -> int:
    """The word that no longer fits into a window from `start` on."""
    return int(np.searchsorted(before, before[start] + capacity, side="right")) - 1


def batches(lengths: Ints, budget: int) -> list[Ints]:
    """Numbers of windows that are read together, padded to at most `budget` pieces.

    Sorted by length, so that little is padded; a window longer than the budget is alone.

    >>> [batch.tolist() for batch in batches(np.array([3, 9, 2, 3]), 9)]
    [[1], [0, 3, 2]]
    """
    order = np.argsort(-lengths, kind="stable")
    found, at = [], 0
    while at < len(order):
        size = max(1, budget // max(1, int(lengths[order[at]])))
        found.append(order[at : at + size])
        at += size
    return found
