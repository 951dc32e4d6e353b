"""Spans as people write them, lists of (start, end, type), become labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from convener import expect
from convener.spans import Spans
from convener.tags import ABSTAIN, TagSet

SpanList = Sequence[tuple[int, int, str]]
"""The spans of one sentence."""


def labels_from_lists(
    sentences: Sequence[SpanList | None], tags: TagSet, offsets: NDArray[np.int64]
) -> NDArray[np.int16]:
    """Labels of every token; abstain where a sentence's spans are None.  -> (N,)

    >>> labels_from_lists([[(0, 2, "PER")], None], TagSet(("PER",)), np.array([0, 3, 4])).tolist()
    [1, 2, 0, -1]
    """
    expect.check_shape("spans", (len(sentences),), (len(offsets) - 1,))
    rows = [
        (index, start, end, tags.type_index(name))
        for index, spans in enumerate(sentences)
        for start, end, name in spans or ()
    ]
    all_integers = all(isinstance(item, int | np.integer) for row in rows for item in row)
    expect.check(all_integers, "starts and ends of spans must be whole numbers")
    labels = tags.labels(Spans.from_rows(rows), offsets)
    abstains = np.array([spans is None for spans in sentences], bool)
    labels[np.repeat(abstains, np.diff(offsets))] = ABSTAIN
    return labels
