"""Which of several overlapping spans stay."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.int16]


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
    owner: dict[tuple[int, int], int] = {}
    for number in order[contested[order]].tolist():
        place = int(sentence[number])
        cells = [(place, token) for token in range(int(start[number]), int(end[number]))]
        rival = next((owner[cell] for cell in cells if cell in owner), -1)
        result[number] = rival
        if rival < 0:
            owner.update(dict.fromkeys(cells, number))
    return result


def longest_first(start: Ints, end: Ints, then: Ints) -> NDArray[np.int64]:
    """Order of preference: longest, then leftmost, then by `then`.  -> (S,)"""
    return np.lexsort((then, start, start.astype(np.int64) - end))
