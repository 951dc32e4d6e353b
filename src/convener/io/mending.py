"""Tags of others made legal, each repair noted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.io.report import Issues
from convener.schemes import RepairPolicy, is_io_or_iob1, to_bio

MAX_LISTED = 100
"""So many illegal tags of one source are listed one by one, the others together."""


@dataclass(frozen=True)
class TagRepair:
    """How illegal tags are settled, and where that is noted."""

    policy: RepairPolicy
    issues: Issues
    detect_scheme: bool = False
    """Tags may be IO or IOB1, where I- begins spans; files of ours say what they are."""

    def legal_labels(
        self,
        positions: NDArray[np.int8],
        type_indices: NDArray[np.int16],
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
        if self.detect_scheme and is_io_or_iob1(positions, type_indices, offsets):
            return to_bio(positions, type_indices, offsets)[0]
        labels, illegal = to_bio(positions, type_indices, offsets, policy)
        action = "dropped with what it belongs to" if policy == "drop" else "taken as a span's part"
        for token in illegal[:MAX_LISTED].tolist():
            if self.policy == "error":
                raise DataError(f"{where(token)}: illegal tag {tag(token)!r} of {source} ({len(illegal)} in all)")
            self.issues.add("illegal tag", where(token), source, f"{tag(token)} {action}")
        if len(illegal) > MAX_LISTED:
            location = where(int(illegal[MAX_LISTED]))
            detail = f"{len(illegal) - MAX_LISTED} more from here on: each {action}"
            self.issues.add("illegal tag", location, source, detail)
        return labels
