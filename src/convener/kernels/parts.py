"""Cells of votes that allow several labels, made of the cells of these labels.

What a source says in a sentence may overlap, B-PER and then "some entity": its emissions are one
draw over labels, and a coarse vote is the sum over those that it allows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from convener.kernels.said import Said


@dataclass(frozen=True, eq=False)
class Parts:
    """The cells of labels that the cells of some sentences are made of; a slice is a view.

    >>> from convener.kernels.said import said_cells
    >>> allowed = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1], [0, 1, 1]], bool)
    >>> votes = np.array([[0], [1], [3]], np.int16)
    >>> parts = parts_of(said_cells(votes, np.array([0, 3]), labels=5), allowed)
    >>> parts.cells.label.tolist(), parts.bounds.tolist(), parts.place.tolist()
    ([0, 1, 2], [0, 1, 2, 4], [0, 1, 1, 2])
    >>> parts.joined(torch.tensor([[0.2], [0.3], [0.5]]).log()).exp()
    tensor([[0.2000],
            [0.3000],
            [0.8000]])
    """

    cells: Said
    """The cells of labels, for what is drawn; the votes in it are those of symbols."""
    pairs: NDArray[np.int64]
    """(P+1,) where each pair's cells of symbols begin."""
    bounds: NDArray[np.int64]
    """(C+1,) where the parts of each cell of symbols begin."""
    place: NDArray[np.int64]
    """(J,) the number of the cell of a label."""

    def __getitem__(self, part: slice) -> Parts:
        cells = self.cells[part]
        first, _, _ = part.indices(len(self.cells))
        sources = cells.sources
        pairs = self.pairs[first * sources : (first + len(cells)) * sources + 1]
        here = pairs[[0, -1]] - self.pairs[0]
        bounds = self.bounds[here[0] : here[1] + 1]
        within = bounds[[0, -1]] - self.bounds[0]
        return Parts(cells, pairs, bounds, self.place[within[0] : within[1]])

    def joined(self, values: Tensor) -> Tensor:
        """Log-probabilities of symbols from those of labels, with gradient.  (C', L) -> (C, L)"""

        def tensor(array: NDArray[np.int64]) -> Tensor:
            return torch.as_tensor(array, device=values.device)

        place = self.place - self.cells.bounds[0]
        bounds, counts = self.bounds - self.bounds[0], np.diff(self.bounds)
        single = values.index_select(0, tensor(place[bounds[:-1]]))
        several = np.flatnonzero(counts > 1)
        if not len(several):
            return single
        rows = values.index_select(0, tensor(place[np.repeat(counts > 1, counts)]))
        whole = tensor(np.repeat(np.arange(len(several)), counts[several]))
        shape = len(several), values.shape[1]
        wide = whole[:, None].expand(rows.shape)
        top = rows.new_full(shape, -torch.inf).scatter_reduce(0, wide, rows.detach(), "amax")
        sums = rows.new_zeros(shape).index_add(0, whole, (rows - top[whole]).exp())
        return single.index_copy(0, tensor(several), top + sums.log())


def parts_of(said: Said, allowed: NDArray[np.bool_]) -> Parts | None:
    """What the cells of symbols are made of; None where symbols are the labels.  allowed (S, L)"""
    labels = allowed.shape[1]
    if len(allowed) == labels:
        return None
    symbol, member = np.nonzero(allowed)
    begin = np.searchsorted(symbol, np.arange(len(allowed)))
    counts = allowed.sum(axis=1)[said.label]
    bounds = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(bounds[-1]) - np.repeat(bounds[:-1], counts)
    label = member[np.repeat(begin[said.label], counts) + within]
    keys, place = np.unique(np.repeat(said.pair, counts) * labels + label, return_inverse=True)
    first = np.searchsorted(keys, np.arange(len(said.usual) + 1) * labels)
    cells = replace(said, bounds=first, label=(keys % labels).astype(np.int16))
    return Parts(cells, said.bounds, bounds, place.reshape(-1))
