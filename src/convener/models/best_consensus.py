"""Best consensus: the most that sources could say if someone chose among them."""

from __future__ import annotations

import numpy as np

from convener.data.dataset import Dataset
from convener.errors import DataError
from convener.models.base import LabelModel, LabelOutput
from convener.models.fitted import Params


class BestConsensus(LabelModel):
    """An oracle: the gold label wherever any source says it, O elsewhere, stray I- dropped.

    It sees gold in inference and marks the best any choice among the sources' labels could do
    (Li et al. 2022, "best consensus"); models that read the text may do better.

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "met", "Bo"]],
    ...     {"names": [[(0, 1, "PER"), (1, 2, "PER")]]},
    ...     gold=[[(0, 1, "PER"), (2, 3, "PER")]],
    ... )
    >>> BestConsensus().fit(data).predict(data).tags()
    [['B-PER', 'O', 'O']]
    """

    summary = "oracle: the gold label wherever any source says it"
    keeps_duplicate_sources = True
    supervised = True

    def _fit(self, train: Dataset, valid: Dataset | None, previous: Params | None) -> Params:
        """Nothing to learn; gold is needed."""
        if train.gold is None:
            raise DataError("best-consensus is a reference that needs gold, and train has none")
        return {}

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """The gold labels that some source says."""
        gold = np.zeros(len(data.tokens), np.int16) if data.gold is None else data.gold
        voted = (data.votes == gold[:, None]).any(axis=1)
        labels, _ = data.tags.repair(np.where(voted, gold, 0).astype(np.int16), data.offsets, "drop")
        return LabelOutput(labels, np.eye(len(data.tags), dtype=np.float32)[labels])
