"""Batches: a dataset packed for training, and views of some of its sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from convener.data.dataset import Dataset
from convener.data.features import Features
from convener.data.ragged import concat_ranges, lengths_to_offsets
from convener.errors import DataError
from convener.inference.vote_cells import CoarseCells, VoteCells, build_coarse_cells, build_vote_cells

BLOCK_TOKENS = 1 << 16
"""Number of tokens per block of prediction."""


@dataclass(frozen=True, eq=False)
class Batch:
    """A view of M sentences with N tokens.

    tokens, sentences    features (N, D) and (M, D)
    offsets              (M+1,) token offsets of the sentences
    votes                (N, K) symbols: labels and, after them, coarse labels; -1 = abstain
    cells                the votes by sentence, source and symbol
    log_evidence_offset  (N, L) added to the log evidence in label models; label targets in taggers
    allowed              (S, L) the labels each symbol allows
    coarse_cells         the cells of labels behind `cells`; None if no symbol is coarse
    """

    tokens: Tensor
    sentences: Tensor
    offsets: Tensor
    votes: Tensor
    cells: VoteCells
    log_evidence_offset: Tensor
    allowed: Tensor
    coarse_cells: CoarseCells | None

    def __len__(self) -> int:
        return len(self.sentences)


@dataclass(frozen=True, eq=False)
class PackedDataset:
    """All sentences of a dataset in a fixed order, with standardized features in memory; fields as in `Batch`."""

    tokens: Tensor
    sentences: Tensor
    offsets: NDArray[np.int64]
    votes: NDArray[np.int16]
    cells: VoteCells
    log_evidence_offset: Tensor
    allowed: NDArray[np.bool_]
    coarse_cells: CoarseCells | None

    @classmethod
    def from_dataset(
        cls,
        data: Dataset,
        log_evidence_offset: NDArray[np.float32] | None = None,
        *,
        seed: int | None = None,
    ) -> PackedDataset:
        """Pack a dataset in its order or, with a seed, shuffled.

        log_evidence_offset (N, L) in the order of the dataset, by default zeros.
        """
        features = require_features(data)
        order = np.arange(len(data))
        if seed is not None:
            order = np.random.default_rng(seed).permutation(len(data))
        lengths, allowed = data.lengths[order], data.allowed_labels()
        rows = concat_ranges(data.offsets[:-1][order], lengths)
        offsets = lengths_to_offsets(lengths)
        votes = data.votes[rows]
        zeros = np.zeros((len(rows), allowed.shape[1]), np.float32)
        offset = zeros if log_evidence_offset is None else log_evidence_offset[rows]
        cells = build_vote_cells(votes, offsets, len(allowed))
        return cls(
            torch.from_numpy(features.token_vectors(rows)),
            torch.from_numpy(features.sentence_vectors(order)),
            offsets,
            votes,
            cells,
            torch.from_numpy(offset),
            allowed,
            build_coarse_cells(cells, allowed),
        )

    def replace_votes(self, votes: NDArray[np.int16]) -> PackedDataset:
        """The same sentences with other votes (N, K), in the packed order; features are shared."""
        cells = build_vote_cells(votes, self.offsets, len(self.allowed))
        return replace(self, votes=votes, cells=cells, coarse_cells=build_coarse_cells(cells, self.allowed))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def batch(self, first: int = 0, last: int | None = None) -> Batch:
        """Sentences `first` to `last` (exclusive), by default all, as views."""
        last = len(self) if last is None else last
        offsets = self.offsets[first : last + 1]
        tokens = slice(int(offsets[0]), int(offsets[-1]))
        return Batch(
            self.tokens[tokens],
            self.sentences[first:last],
            torch.from_numpy(offsets - offsets[0]),
            torch.from_numpy(self.votes[tokens]),
            self.cells[first:last],
            self.log_evidence_offset[tokens],
            torch.from_numpy(self.allowed),
            None if self.coarse_cells is None else self.coarse_cells[first:last],
        )

    def batches(self, size: int, rng: np.random.Generator | None = None) -> Iterator[Batch]:
        """Iterate over batches of `size` sentences, in order or, with `rng`, in random order."""
        firsts = np.arange(0, len(self), size)
        for first in firsts if rng is None else rng.permutation(firsts):
            yield self.batch(int(first), min(int(first) + size, len(self)))


def sentence_features(data: Dataset) -> Tensor:
    """Features of all sentences, standardized if the dataset has a standardizer.  -> (M, D)"""
    return torch.from_numpy(require_features(data).sentence_vectors())


def require_features(data: Dataset) -> Features:
    """The features of a dataset; an error if it has none."""
    if data.features is None:
        raise DataError("features are needed, but the dataset has none; call convener.encode first")
    return data.features
