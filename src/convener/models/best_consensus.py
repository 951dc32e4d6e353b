"""Best consensus: an oracle that picks the gold label wherever any source votes for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from convener.config import init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.errors import DataError
from convener.models.base import LabelModel, ModelConfig
from convener.models.fitted import Params


class BestConsensus(LabelModel):
    """An oracle: the gold label wherever any source votes for it, O elsewhere; illegal I- labels are dropped.

    It uses gold labels in prediction and shows the best that any selection among the votes could reach (Li et al.
    2022, "best consensus"). Models that use the text may do better.

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "met", "Bo"]],
    ...     {"names": [[(0, 1, "PER"), (1, 2, "PER")]]},
    ...     gold=[[(0, 1, "PER"), (2, 3, "PER")]],
    ... )
    >>> BestConsensus().fit(data).predict(data).tags()
    [['B-PER', 'O', 'O']]
    """

    summary = "oracle: the gold label wherever any source votes for it"
    keeps_duplicate_sources = True
    supervised = True
    needs_gold_to_predict = True

    @init_with(ModelConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Check that there are gold labels; there are no parameters."""
        if train.gold is None:
            raise DataError("best-consensus needs gold labels; train has none")
        return {}, Diagnostics()

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """The gold labels that at least one source votes for."""
        gold = np.zeros(len(data.tokens), np.int16) if data.gold is None else data.gold
        voted = (data.votes == gold[:, None]).any(axis=1)
        labels, _ = data.tags.repair(np.where(voted, gold, 0).astype(np.int16), data.offsets, "drop")
        return LabelOutput(labels, np.eye(len(data.tags), dtype=np.float32)[labels])
