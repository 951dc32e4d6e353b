"""Targets laid out for an encoder that is trained: windows of pieces, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from convener.encode.loaded import Batch, HFModel
from convener.encode.pieces import Subwords
from convener.encode.windows import Windows, make_windows
from convener.tagger.targets import Targets

BATCHES_PER_POOL = 50
"""Batches that are drawn together and sorted by length, so that little is padded."""


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """Windows to read, where the first pieces of their words stand, and their labels' shares."""

    inputs: Batch
    first_subwords: NDArray[np.int64]
    label_probs: Tensor

    def __len__(self) -> int:
        return len(self.inputs.windows)


@dataclass(frozen=True, eq=False)
class WindowedTargets:
    """All windows of some text, and how much of each word is of each label."""

    hf_model: HFModel
    subwords: Subwords
    windows: Windows
    label_probs: NDArray[np.float32]

    @classmethod
    def from_targets(cls, targets: Targets, hf_model: HFModel, *, overlap: float) -> WindowedTargets:
        """Cut as the tagger will read."""
        data = targets.data
        subwords = hf_model.tokenize(data.tokens, data.offsets, allow_empty=True)
        windows = make_windows(subwords.counts, data.offsets, max_subwords=hf_model.max_subwords, overlap=overlap)
        return cls(hf_model, subwords, windows, targets.label_probs())

    def __len__(self) -> int:
        return len(self.windows.start)

    def mean_length(self) -> float:
        """Pieces of a window, on average."""
        return float(self._lengths().mean()) if len(self) else 0.0

    def batches(self, size: int, rng: np.random.Generator | None = None) -> Iterator[WindowBatch]:
        """All batches of `size` windows: in order, or drawn, of about one length each."""
        for indices in self._batch_indices(size, rng):
            inputs = self.hf_model.batch(self.subwords, self.windows, indices)
            words, first_subwords = inputs.first_subwords()
            yield WindowBatch(inputs, first_subwords, torch.from_numpy(self.label_probs[words]))

    def _batch_indices(self, size: int, rng: np.random.Generator | None) -> list[NDArray[np.int64]]:
        order = np.arange(len(self))
        if rng is None:
            return [order[start : start + size] for start in range(0, len(order), size)]
        order = rng.permutation(order)
        lengths = self._lengths()
        for at in range(0, len(order), BATCHES_PER_POOL * size):
            pool = order[at : at + BATCHES_PER_POOL * size]
            order[at : at + BATCHES_PER_POOL * size] = pool[np.argsort(lengths[pool], kind="stable")]
        starts = rng.permutation(np.arange(0, len(order), size))
        return [order[at : at + size] for at in starts.tolist()]

    def _lengths(self) -> NDArray[np.int64]:
        subword_offsets = self.subwords.offsets
        return subword_offsets[self.windows.end] - subword_offsets[self.windows.start]
