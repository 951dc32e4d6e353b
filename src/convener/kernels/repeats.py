"""Sources that repeat another: copies, lists with a few entries more, and parts of a list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MIN_SHARED_VOTES = 20
"""So many marks must be the same before one source is said to repeat another."""
MIN_OVERLAP = 0.95
"""Share of the tokens marked by either that both must mark alike. Two sources that are so much
alike by being right must each be nearly perfect, and then one of them is enough, too."""


def find_duplicates(votes: NDArray[np.int16]) -> NDArray[np.int64]:
    """The number of the source that each one repeats; its own where it speaks for itself.  -> (K,)

    votes (N, K). Of sources that are alike the one with most marks is the original, the first of
    several.

    >>> one = np.arange(100) % 3
    >>> find_duplicates(np.stack([one, one[::-1], one], axis=1).astype(np.int16)).tolist()
    [0, 1, 0]
    """
    num_marked = np.count_nonzero(votes > 0, axis=0)
    duplicate_of = np.arange(votes.shape[1])
    order = np.argsort(-num_marked, kind="stable").tolist()
    for rank, source in enumerate(order):
        for other in order[:rank]:
            if duplicate_of[other] == other and _is_duplicate(votes[:, other], votes[:, source]):
                duplicate_of[source] = other
                break
    return duplicate_of


def find_subset_sources(votes: NDArray[np.int16]) -> list[tuple[int, int, float]]:
    """Sources whose marks nearly all are another's, too: (source, the other, share).

    votes (N, K). Of several others the one with fewest marks is named; it has more than the source,
    or is an earlier copy.

    >>> one = np.arange(100) % 3
    >>> find_subset_sources(np.stack([one, one * (np.arange(100) < 50)], axis=1).astype(np.int16))
    [(1, 0, 1.0)]
    """
    num_marked = np.count_nonzero(votes > 0, axis=0)
    order = np.argsort(-num_marked, kind="stable").tolist()
    subsets = []
    for rank, source in enumerate(order):
        marked = votes[:, source] > 0
        for other in reversed(order[:rank]):
            num_same = np.count_nonzero(votes[marked, other] == votes[marked, source])
            if num_same >= MIN_SHARED_VOTES and num_same >= MIN_OVERLAP * num_marked[source]:
                subsets.append((source, other, float(num_same / num_marked[source])))
                break
    return sorted(subsets)


def _is_duplicate(first: NDArray[np.int16], second: NDArray[np.int16]) -> bool:
    """Whether two columns of votes mark nearly the same."""
    marked = (first > 0) | (second > 0)
    num_same = np.count_nonzero(first[marked] == second[marked])
    return bool(num_same >= MIN_SHARED_VOTES and num_same >= MIN_OVERLAP * np.count_nonzero(marked))
