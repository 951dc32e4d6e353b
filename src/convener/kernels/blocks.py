"""Fixed blocks of sentences, worked on by one thread or by several.

The blocks depend on the data alone and their results are joined in their order, so the number of
threads changes nothing but the time.  The threads are Python's: the kernels release the
interpreter lock, and no second OpenMP pool fights with torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

# Cells of work in a block: large beside the cost of a call, small beside a batch of many labels.
_CELLS = 1 << 17
T = TypeVar("T")


def block_bounds(offsets: NDArray[np.int64], cells: int) -> list[int]:
    """First sentence of each block, and the end; a block has about `_CELLS / cells` tokens.

    >>> block_bounds(np.array([0, 60_000, 80_000, 150_000, 150_001]), 1)
    [0, 2, 4]
    """
    sentences = len(offsets) - 1
    size = max(64, _CELLS // cells)
    number = np.maximum(offsets[1:] - 1, 0) // size
    begins = np.flatnonzero(np.diff(number)) + 1 if sentences else np.zeros(0, np.int64)
    return [0, *begins.tolist(), sentences]


def over_blocks(
    work: Callable[[int, int], T], offsets: NDArray[np.int64], cells: int, threads: int
) -> Iterator[T]:
    """Results of work(begin, end) for every block, in order."""
    blocks = list(pairwise(block_bounds(offsets, cells)))
    if threads <= 1 or len(blocks) == 1:
        yield from (work(begin, end) for begin, end in blocks)
        return
    with ThreadPoolExecutor(min(threads, len(blocks))) as pool:
        yield from pool.map(lambda block: work(*block), blocks)
