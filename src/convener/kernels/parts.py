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

from convener.kernels.said import VoteCells


@dataclass(frozen=True, eq=False)
class CoarseCells:
    """The cells of labels that the cells of some sentences are made of; a slice is a view.

    >>> from convener.kernels.said import build_vote_cells
    >>> allowed = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1], [0, 1, 1]], bool)
    >>> votes = np.array([[0], [1], [3]], np.int16)
    >>> parts = build_coarse_cells(build_vote_cells(votes, np.array([0, 3]), num_labels=5), allowed)
    >>> parts.cells.label.tolist(), parts.member_offsets.tolist(), parts.member_cell.tolist()
    ([0, 1, 2], [0, 1, 2, 4], [0, 1, 1, 2])
    >>> parts.sum_over_allowed(torch.tensor([[0.2], [0.3], [0.5]]).log()).exp()
    tensor([[0.2000],
            [0.3000],
            [0.8000]])
    """

    cells: VoteCells
    """The cells of labels, for what is drawn; the votes in it are those of symbols."""
    row_offsets: NDArray[np.int64]
    """(P+1,) where each pair's cells of symbols begin."""
    member_offsets: NDArray[np.int64]
    """(C+1,) where the parts of each cell of symbols begin."""
    member_cell: NDArray[np.int64]
    """(J,) the number of the cell of a label."""

    def __getitem__(self, index: slice) -> CoarseCells:
        cells = self.cells[index]
        first, _, _ = index.indices(len(self.cells))
        num_sources = cells.num_sources
        row_offsets = self.row_offsets[first * num_sources : (first + len(cells)) * num_sources + 1]
        cell_range = row_offsets[[0, -1]] - self.row_offsets[0]
        member_offsets = self.member_offsets[cell_range[0] : cell_range[1] + 1]
        member_range = member_offsets[[0, -1]] - self.member_offsets[0]
        return CoarseCells(cells, row_offsets, member_offsets, self.member_cell[member_range[0] : member_range[1]])

    def sum_over_allowed(self, log_probs: Tensor) -> Tensor:
        """Log-probabilities of symbols from those of labels, with gradient.  (C', L) -> (C, L)"""

        def to_tensor(array: NDArray[np.int64]) -> Tensor:
            return torch.as_tensor(array, device=log_probs.device)

        member_cell = self.member_cell - self.cells.cell_offsets[0]
        member_offsets, counts = (
            self.member_offsets - self.member_offsets[0],
            np.diff(self.member_offsets),
        )
        single = log_probs.index_select(0, to_tensor(member_cell[member_offsets[:-1]]))
        several = np.flatnonzero(counts > 1)
        if not len(several):
            return single
        rows = log_probs.index_select(0, to_tensor(member_cell[np.repeat(counts > 1, counts)]))
        whole = to_tensor(np.repeat(np.arange(len(several)), counts[several]))
        shape = len(several), log_probs.shape[1]
        wide = whole[:, None].expand(rows.shape)
        top = rows.new_full(shape, -torch.inf).scatter_reduce(0, wide, rows.detach(), "amax")
        sums = rows.new_zeros(shape).index_add(0, whole, (rows - top[whole]).exp())
        return single.index_copy(0, to_tensor(several), top + sums.log())


def build_coarse_cells(cells: VoteCells, allowed: NDArray[np.bool_]) -> CoarseCells | None:
    """What the cells of symbols are made of; None where symbols are the labels.  allowed (S, L)"""
    num_labels = allowed.shape[1]
    if len(allowed) == num_labels:
        return None
    symbol, member = np.nonzero(allowed)
    first_member = np.searchsorted(symbol, np.arange(len(allowed)))
    counts = allowed.sum(axis=1)[cells.label]
    member_offsets = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(member_offsets[-1]) - np.repeat(member_offsets[:-1], counts)
    label = member[np.repeat(first_member[cells.label], counts) + within]
    keys, member_cell = np.unique(np.repeat(cells.source_row, counts) * num_labels + label, return_inverse=True)
    cell_offsets = np.searchsorted(keys, np.arange(len(cells.default_cell) + 1) * num_labels)
    label_cells = replace(cells, cell_offsets=cell_offsets, label=(keys % num_labels).astype(np.int16))
    return CoarseCells(label_cells, cells.cell_offsets, member_offsets, member_cell.reshape(-1))
