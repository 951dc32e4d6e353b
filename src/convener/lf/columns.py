"""What a function says of all texts, put together from its pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN
from convener.lf.function import LabelingFunction
from convener.lf.texts import Docs
from convener.lf.work import ChunkResult, LocatedIssue
from convener.spans import Spans
from convener.tags import TagSet


@dataclass(frozen=True, eq=False)
class VoteColumn:
    """Labels over the function's own types (N,), and what there is to report."""

    labels: NDArray[np.int16]
    issues: tuple[LocatedIssue, ...]

    @property
    def num_spans(self) -> int:
        """How many spans there are."""
        return int(np.count_nonzero((self.labels > 0) & (self.labels % 2 == 1)))

    def count_abstained(self, docs: Docs) -> int:
        """How many of the texts that have words it abstains on."""
        labels = self.labels if docs.token_order is None else self.labels[docs.token_order]
        first = docs.offsets[:-1][np.diff(docs.offsets) > 0]
        return int(np.count_nonzero(labels[first] == ABSTAIN))


def build_column(function: LabelingFunction, docs: Docs, chunks: Iterable[ChunkResult]) -> VoteColumn:
    """One label of the function's own types for each token of the dataset."""
    chunks = sorted(chunks, key=lambda chunk: chunk.start)
    spans = np.concatenate([np.zeros((0, 4), np.int64), *(piece.spans for piece in chunks)])
    abstained = np.zeros(len(docs), bool)
    for piece in chunks:
        abstained[piece.abstained] = True
    labels = TagSet(function.labels).labels(Spans.from_array(spans), docs.offsets)
    labels[np.repeat(abstained, np.diff(docs.offsets))] = ABSTAIN
    if docs.token_order is not None:
        reordered = np.empty_like(labels)
        reordered[docs.token_order] = labels
        labels = reordered
    return VoteColumn(labels, tuple(issue for piece in chunks for issue in piece.issues))
