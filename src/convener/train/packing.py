"""Sentences laid out for training: shuffled once, so that a batch is a view."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from convener.data import Dataset
from convener.errors import DataError
from convener.features import Features
from convener.kernels.parts import Parts, parts_of
from convener.kernels.said import Said, said_cells
from convener.packed import offsets_of, ranges


@dataclass(frozen=True, eq=False)
class Batch:
    """Some sentences: features of tokens (N, D) and sentences (M, D), offsets, votes (N, K).

    `said` holds the votes by cells; `given` (N, L) is evidence that is known beforehand. Votes are
    symbols, of which `allowed` (S, L) tells what each allows: `parts` are its cells, where some
    are coarse.
    """

    tokens: Tensor
    sentences: Tensor
    offsets: Tensor
    votes: Tensor
    said: Said
    given: Tensor
    allowed: Tensor
    parts: Parts | None

    def __len__(self) -> int:
        return len(self.sentences)


@dataclass(frozen=True, eq=False)
class Packing:
    """All sentences of a dataset in one order, their features standardised and in memory."""

    tokens: Tensor
    sentences: Tensor
    offsets: NDArray[np.int64]
    votes: NDArray[np.int16]
    said: Said
    given: Tensor
    allowed: NDArray[np.bool_]
    parts: Parts | None

    @classmethod
    def of(
        cls,
        data: Dataset,
        given: NDArray[np.float32] | None = None,
        *,
        seed: int | None = None,
    ) -> Packing:
        """Laid out in the data's order or, with a seed, shuffled.

        given (N, L): nothing unless given.
        """
        features = features_of(data)
        order = np.arange(len(data))
        if seed is not None:
            order = np.random.default_rng(seed).permutation(len(data))
        lengths, allowed = data.lengths[order], data.allowed()
        rows = ranges(data.offsets[:-1][order], lengths)
        offsets = offsets_of(lengths)
        votes = data.votes[rows]
        empty = np.zeros((len(rows), allowed.shape[1]), np.float32)
        known = empty if given is None else given[rows]
        said = said_cells(votes, offsets, len(allowed))
        return cls(
            torch.from_numpy(features.token_rows(rows)),
            torch.from_numpy(features.sentence_rows(order)),
            offsets,
            votes,
            said,
            torch.from_numpy(known),
            allowed,
            parts_of(said, allowed),
        )

    def with_votes(self, votes: NDArray[np.int16]) -> Packing:
        """The same sentences with other votes (N, K), in this order; features are shared."""
        said = said_cells(votes, self.offsets, len(self.allowed))
        return replace(self, votes=votes, said=said, parts=parts_of(said, self.allowed))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def batch(self, first: int = 0, last: int | None = None) -> Batch:
        """The sentences from `first` to before `last`, all by default, as views."""
        last = len(self) if last is None else last
        offsets = self.offsets[first : last + 1]
        tokens = slice(int(offsets[0]), int(offsets[-1]))
        return Batch(
            self.tokens[tokens],
            self.sentences[first:last],
            torch.from_numpy(offsets - offsets[0]),
            torch.from_numpy(self.votes[tokens]),
            self.said[first:last],
            self.given[tokens],
            torch.from_numpy(self.allowed),
            None if self.parts is None else self.parts[first:last],
        )

    def batches(self, size: int, rng: np.random.Generator | None = None) -> Iterator[Batch]:
        """All batches of `size` sentences, in order or drawn."""
        firsts = np.arange(0, len(self), size)
        for first in firsts if rng is None else rng.permutation(firsts):
            yield self.batch(int(first), min(int(first) + size, len(self)))


def sentence_features(data: Dataset) -> Tensor:
    """Features of all sentences, as they are read.  -> (M, D)"""
    return torch.from_numpy(features_of(data).sentence_rows())


def features_of(data: Dataset) -> Features:
    """The features, where they cannot be done without."""
    if data.features is None:
        raise DataError("features are needed here, and there are none")
    return data.features
