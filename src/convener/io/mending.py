"""Tags of others made legal, each repair noted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.io.report import Report
from convener.schemes import Repair, bio_labels, inside_may_begin

LISTED = 100
"""So many illegal tags of one source are listed one by one, the others together."""


@dataclass(frozen=True)
class Mending:
    """How illegal tags are settled, and where that is noted."""

    policy: Repair
    report: Report
    any_scheme: bool = False
    """Tags may be IO or IOB1, where I- begins spans; files of ours say what they are."""

    def labels(
        self,
        place: NDArray[np.int8],
        kind: NDArray[np.int16],
        offsets: NDArray[np.int64],
        *,
        source: str,
        tag: Callable[[int], str],
        where: Callable[[int], str],
    ) -> NDArray[np.int16]:
        """Legal BIO labels of tokens whose places and types are known.  -> (N,)

        `tag` and `where` name the tag and the place of a token, for messages.
        """
        policy = "begin" if self.policy == "error" else self.policy
        if self.any_scheme and inside_may_begin(place, kind, offsets):
            return bio_labels(place, kind, offsets)[0]
        labels, illegal = bio_labels(place, kind, offsets, policy)
        done = "dropped with what it belongs to" if policy == "drop" else "taken as a span's part"
        for token in illegal[:LISTED].tolist():
            if self.policy == "error":
                raise DataError(
                    f"{where(token)}: illegal tag {tag(token)!r} of {source} "
                    f"({len(illegal)} in all)"
                )
            self.report.add("illegal tag", where(token), source, f"{tag(token)} {done}")
        if len(illegal) > LISTED:
            first = where(int(illegal[LISTED]))
            more = f"{len(illegal) - LISTED} more from here on: each {done}"
            self.report.add("illegal tag", first, source, more)
        return labels
