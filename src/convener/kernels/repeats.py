"""Sources that repeat another: copies, lists with a few entries more, and parts of a list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ENOUGH = 20
"""So many marks must be the same before one source is said to repeat another."""
ALIKE = 0.95
"""Share of the tokens marked by either that both must mark alike. Two sources that are so much
alike by being right must each be nearly perfect, and then one of them is enough, too."""


def originals(votes: NDArray[np.int16]) -> NDArray[np.int64]:
    """The number of the source that each one repeats; its own where it speaks for itself.  -> (K,)

    votes (N, K). Of sources that are alike the one with most marks is the original, the first of
    several.

    >>> one = np.arange(100) % 3
    >>> originals(np.stack([one, one[::-1], one], axis=1).astype(np.int16)).tolist()
    [0, 1, 0]
    """
    marks = np.count_nonzero(votes > 0, axis=0)
    found = np.arange(votes.shape[1])
    order = np.argsort(-marks, kind="stable").tolist()
    for place, source in enumerate(order):
        for other in order[:place]:
            if found[other] == other and _alike(votes[:, other], votes[:, source]):
                found[source] = other
                break
    return found


def within(votes: NDArray[np.int16]) -> list[tuple[int, int, float]]:
    """Sources whose marks nearly all are another's, too: (source, the other, share).

    votes (N, K). Of several others the one with fewest marks is named; it has more than the source,
    or is an earlier copy.

    >>> one = np.arange(100) % 3
    >>> within(np.stack([one, one * (np.arange(100) < 50)], axis=1).astype(np.int16))
    [(1, 0, 1.0)]
    """
    marks = np.count_nonzero(votes > 0, axis=0)
    order = np.argsort(-marks, kind="stable").tolist()
    found = []
    for place, source in enumerate(order):
        marked = votes[:, source] > 0
        for other in reversed(order[:place]):
            same = np.count_nonzero(votes[marked, other] == votes[marked, source])
            if same >= ENOUGH and same >= ALIKE * marks[source]:
                found.append((source, other, float(same / marks[source])))
                break
    return sorted(found)


def _alike(one: NDArray[np.int16], other: NDArray[np.int16]) -> bool:
    """Whether two columns of votes mark nearly the same."""
    marked = (one > 0) | (other > 0)
    same = np.count_nonzero(one[marked] == other[marked])
    return bool(same >= ENOUGH and same >= ALIKE * np.count_nonzero(marked))
