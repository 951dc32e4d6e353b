"""What a function says of all texts, put together from its pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN
from convener.lf.function import LabelingFunction
from convener.lf.texts import Texts
from convener.lf.work import Event, Piece
from convener.spans import Spans
from convener.tags import TagSet


@dataclass(frozen=True, eq=False)
class Column:
    """Labels over the function's own types (N,), and what there is to report."""

    labels: NDArray[np.int16]
    events: tuple[Event, ...]

    @property
    def spans(self) -> int:
        """How many spans there are."""
        return int(np.count_nonzero((self.labels > 0) & (self.labels % 2 == 1)))

    def abstains(self, texts: Texts) -> int:
        """How many of the texts that have words it abstains on."""
        labels = self.labels if texts.tokens is None else self.labels[texts.tokens]
        first = texts.offsets[:-1][np.diff(texts.offsets) > 0]
        return int(np.count_nonzero(labels[first] == ABSTAIN))


def column_of(function: LabelingFunction, texts: Texts, found: Iterable[Piece]) -> Column:
    """One label of the function's own types for each token of the dataset."""
    found = sorted(found, key=lambda piece: piece.start)
    spans = np.concatenate([np.zeros((0, 4), np.int64), *(piece.spans for piece in found)])
    abstains = np.zeros(len(texts), bool)
    for piece in found:
        abstains[piece.abstains] = True
    labels = TagSet(function.labels).labels(Spans.of_columns(spans), texts.offsets)
    labels[np.repeat(abstains, np.diff(texts.offsets))] = ABSTAIN
    if texts.tokens is not None:
        placed = np.empty_like(labels)
        placed[texts.tokens] = labels
        labels = placed
    return Column(labels, tuple(event for piece in found for event in piece.events))
