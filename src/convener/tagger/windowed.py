"""Targets laid out for an encoder that is trained: windows of pieces, in batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from convener.encode.loaded import Batch, Loaded
from convener.encode.pieces import Pieces
from convener.encode.windows import Windows, windows_of
from convener.tagger.targets import Targets

POOL = 50
"""Batches that are drawn together and sorted by length, so that little is padded."""


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """Windows to read, where the first pieces of their words stand, and their labels' shares."""

    read: Batch
    places: NDArray[np.int64]
    shares: Tensor

    def __len__(self) -> int:
        return len(self.read.windows)


@dataclass(frozen=True, eq=False)
class Windowed:
    """All windows of some text, and how much of each word is of each label."""

    loaded: Loaded
    pieces: Pieces
    windows: Windows
    shares: NDArray[np.float32]

    @classmethod
    def of(cls, targets: Targets, loaded: Loaded, *, overlap: float) -> Windowed:
        """Cut as the tagger will read."""
        data = targets.data
        pieces = loaded.pieces(data.tokens, data.offsets, invisible=True)
        windows = windows_of(pieces.counts, data.offsets, capacity=loaded.capacity, overlap=overlap)
        return cls(loaded, pieces, windows, targets.shares())

    def __len__(self) -> int:
        return len(self.windows.start)

    def mean_length(self) -> float:
        """Pieces of a window, on average."""
        return float(self._lengths().mean()) if len(self) else 0.0

    def batches(self, size: int, rng: np.random.Generator | None = None) -> Iterator[WindowBatch]:
        """All batches of `size` windows: in order, or drawn, of about one length each."""
        for chosen in self._drawn(size, rng):
            read = self.loaded.batch(self.pieces, self.windows, chosen)
            words, places = read.first_pieces()
            yield WindowBatch(read, places, torch.from_numpy(self.shares[words]))

    def _drawn(self, size: int, rng: np.random.Generator | None) -> list[NDArray[np.int64]]:
        order = np.arange(len(self))
        if rng is None:
            return [order[at : at + size] for at in range(0, len(order), size)]
        order = rng.permutation(order)
        lengths = self._lengths()
        for at in range(0, len(order), POOL * size):
            pool = order[at : at + POOL * size]
            order[at : at + POOL * size] = pool[np.argsort(lengths[pool], kind="stable")]
        firsts = rng.permutation(np.arange(0, len(order), size))
        return [order[at : at + size] for at in firsts.tolist()]

    def _lengths(self) -> NDArray[np.int64]:
        before = self.pieces.before
        return before[self.windows.end] - before[self.windows.start]
