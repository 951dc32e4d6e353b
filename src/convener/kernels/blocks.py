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
_BLOCK_CELLS = 1 << 17
T = TypeVar("T")


def block_bounds(offsets: NDArray[np.int64], cells_per_token: int) -> list[int]:
    """First sentence of each block, and the end; a block has about `_CELLS / cells` tokens.

    >>> block_bounds(np.array([0, 60_000, 80_000, 150_000, 150_001]), 1)
    [0, 2, 4]
    """
    num_sentences = len(offsets) - 1
    size = max(64, _BLOCK_CELLS // cells_per_token)
    block_index = np.maximum(offsets[1:] - 1, 0) // size
    starts = np.flatnonzero(np.diff(block_index)) + 1 if num_sentences else np.zeros(0, np.int64)
    return [0, *starts.tolist(), num_sentences]


def map_blocks(
    function: Callable[[int, int], T],
    offsets: NDArray[np.int64],
    cells_per_token: int,
    num_threads: int,
) -> Iterator[T]:
    """Results of work(begin, end) for every block, in order."""
    blocks = list(pairwise(block_bounds(offsets, cells_per_token)))
    if num_threads <= 1 or len(blocks) == 1:
        yield from (function(start, end) for start, end in blocks)
        return
    with ThreadPoolExecutor(min(num_threads, len(blocks))) as pool:
        yield from pool.map(lambda block: function(*block), blocks)
