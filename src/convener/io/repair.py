"""Tags of others made legal, each repair noted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.io.report import Report
from convener.schemes import Repair, bio_labels

LISTED = 100
"""So many illegal tags of one source are listed one by one, the others together."""


def repaired(
    place: NDArray[np.int8],
    kind: NDArray[np.int16],
    offsets: NDArray[np.int64],
    policy: Repair,
    *,
    tag: Callable[[int], str],
    where: Callable[[int], str],
    source: str,
    report: Report,
) -> NDArray[np.int16]:
    """Legal BIO labels of tokens whose places and types are known.  -> (N,)

    `tag` and `where` name the tag and the place of a token, for messages.
    """
    labels, illegal = bio_labels(place, kind, offsets, "begin" if policy == "error" else policy)
    done = "dropped with what it belongs to" if policy == "drop" else "begins a span"
    for token in illegal[:LISTED].tolist():
        if policy == "error":
            raise DataError(
                f"{where(token)}: illegal tag {tag(token)!r} of {source} ({len(illegal)} in all)"
            )
        report.add("illegal tag", where(token), source, f"{tag(token)} {done}")
    if len(illegal) > LISTED:
        first = where(int(illegal[LISTED]))
        more = f"{len(illegal) - LISTED} more from here on: each {done}"
        report.add("illegal tag", first, source, more)
    return labels
