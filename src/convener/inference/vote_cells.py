"""Vote cells: the labels each source votes for in each sentence, and the log evidence computed from them.

Emissions of Sparse-CHMM differ between sentences; for emissions that are the same everywhere, see `evidence`. They
are needed only for the labels that a source votes for in a sentence: each such (sentence, source, label) is a cell. A
coarse vote stands for several labels; its cell is the sum over the cells of the labels it allows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from convener.data.ragged import concat_ranges, lengths_to_offsets
from convener.inference._numba import REASSOCIATE, Array, jit


@dataclass(frozen=True, eq=False)
class VoteCells:
    """The C cells of M sentences and K sources, in the order of sentence, source and label.

    A row is a pair of sentence and source, P = M K of them.  Each row has a default vote, O or abstain; exceptions are
    the votes that differ from it.  Positions of cells are counted from the first cell of their sentence, so that a
    slice of sentences is a view; its offsets need not start at 0.

    >>> votes = np.array([[0, -1], [1, -1], [0, 2]], np.int16)
    >>> cells = build_vote_cells(votes, np.array([0, 2, 3]), num_labels=3)
    >>> cells.label.tolist(), cells.source_row.tolist()
    ([0, 1, 0, 2], [0, 0, 2, 3])
    >>> cells[1:].label.tolist(), cells[1:].source_row.tolist()
    ([0, 2], [0, 1])
    """

    num_sources: int
    offsets: NDArray[np.int64]
    """(M+1,) token offsets of the sentences."""
    cell_offsets: NDArray[np.int64]
    """(P+1,) cell offsets of the rows."""
    label: NDArray[np.int16]
    """(C,) the label voted for."""
    default_cell: NDArray[np.int32]
    """(P,) position of the cell of the default vote, O; -1 if the default is to abstain."""
    exception_offsets: NDArray[np.int64]
    """(N+1,) offsets of the exceptions of each token."""
    added_cell: NDArray[np.int32]
    """(S,) position of the cell to add; -1 for an abstention."""
    removed_cell: NDArray[np.int32]
    """(S,) position of the default cell to subtract; -1 if the default is to abstain."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: slice) -> VoteCells:
        first, last, step = index.indices(len(self))
        if step != 1:
            raise ValueError(f"expected a slice of consecutive sentences, got step {step}")
        last = max(first, last)
        offsets = self.offsets[first : last + 1]
        cell_offsets = self.cell_offsets[first * self.num_sources : last * self.num_sources + 1]
        tokens = offsets - self.offsets[0]
        cell_range = cell_offsets[[0, -1]] - self.cell_offsets[0]
        exception_offsets = self.exception_offsets[tokens[0] : tokens[-1] + 1]
        exception_range = exception_offsets[[0, -1]] - self.exception_offsets[0]
        return replace(
            self,
            offsets=offsets,
            cell_offsets=cell_offsets,
            label=self.label[cell_range[0] : cell_range[1]],
            default_cell=self.default_cell[first * self.num_sources : last * self.num_sources],
            exception_offsets=exception_offsets,
            added_cell=self.added_cell[exception_range[0] : exception_range[1]],
            removed_cell=self.removed_cell[exception_range[0] : exception_range[1]],
        )

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of cells of each row.  (P,)"""
        return np.diff(self.cell_offsets)

    @property
    def source_row(self) -> NDArray[np.int64]:
        """Row of each cell: sentence * K + source.  (C,)"""
        return np.repeat(np.arange(len(self.default_cell)), self.counts)


def build_vote_cells(votes: NDArray[np.int16], offsets: NDArray[np.int64], num_labels: int) -> VoteCells:
    """Find the labels each source votes for in each sentence.  votes (N, K), -1 = abstain; offsets (M+1,)"""
    votes = np.ascontiguousarray(votes, np.int16)
    offsets = np.ascontiguousarray(offsets, np.int64)
    if votes.size and not -1 <= votes.min() <= votes.max() < num_labels:
        raise ValueError(f"votes must be in [-1, {num_labels}), got {votes.min()} to {votes.max()}")
    cell_offsets, default_cell, exception_offsets = _count_cells(votes, offsets, num_labels)
    label = np.empty(cell_offsets[-1], np.int16)
    added_cell = np.empty(exception_offsets[-1], np.int32)
    removed_cell = np.empty(exception_offsets[-1], np.int32)
    rows, exceptions = (cell_offsets, default_cell, exception_offsets), (added_cell, removed_cell)
    _fill_cells(votes, offsets, num_labels, *rows, label, *exceptions)
    return VoteCells(votes.shape[1], offsets, cell_offsets, label, default_cell, exception_offsets, *exceptions)


def log_evidence(log_emission: Tensor, cells: VoteCells) -> Tensor:
    """Log evidence, Eq. (10): sum of log emissions over the sources that did not abstain, with gradient.  -> (N, L)

    log_emission (C, L) [cell, latent label], finite: log-probability of a vote for the cell's label.
    """
    evidence: Tensor = _LogEvidence.apply(log_emission, cells)  # type: ignore[no-untyped-call]
    return evidence


class _LogEvidence(torch.autograd.Function):
    """Sums default votes once per sentence and exceptions one by one; backward likewise."""

    @staticmethod
    def forward(ctx: Any, log_emission: Tensor, cells: VoteCells) -> Tensor:
        ctx.cells = cells
        rows = log_emission.detach().contiguous().numpy()
        num_tokens = int(cells.offsets[-1] - cells.offsets[0])
        out = np.empty((num_tokens, log_emission.shape[1]), rows.dtype)
        _sum_evidence(*_kernel_arrays(cells), rows, out)
        return torch.from_numpy(out)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        rows = grad.contiguous().numpy()
        # Exceptions may cancel most of the gradient of a default vote: float64 keeps the remainder.
        out = np.zeros((len(ctx.cells.label), grad.shape[1]))
        _scatter_grad(*_kernel_arrays(ctx.cells), rows, out)
        return torch.from_numpy(out).to(grad.dtype), None


def _kernel_arrays(cells: VoteCells) -> tuple[Array, ...]:
    rows = (cells.offsets, cells.cell_offsets, cells.default_cell)
    return *rows, cells.exception_offsets, cells.added_cell, cells.removed_cell


@dataclass(frozen=True, eq=False)
class CoarseCells:
    """The cells of labels whose sums are the cells of symbols, coarse labels included; a slice is a view.

    >>> allowed = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1], [0, 1, 1]], bool)
    >>> votes = np.array([[0], [1], [3]], np.int16)
    >>> coarse = build_coarse_cells(build_vote_cells(votes, np.array([0, 3]), num_labels=5), allowed)
    >>> coarse.cells.label.tolist(), coarse.member_offsets.tolist(), coarse.member_cell.tolist()
    ([0, 1, 2], [0, 1, 2, 4], [0, 1, 1, 2])
    >>> coarse.sum_over_allowed(torch.tensor([[0.2], [0.3], [0.5]]).log()).exp()
    tensor([[0.2000],
            [0.3000],
            [0.8000]])
    """

    cells: VoteCells
    """The cells of labels, for sampling; default votes and exceptions refer to cells of symbols."""
    row_offsets: NDArray[np.int64]
    """(P+1,) offsets of the cells of symbols of each row."""
    member_offsets: NDArray[np.int64]
    """(C+1,) offsets of the members of each cell of a symbol."""
    member_cell: NDArray[np.int64]
    """(J,) index of the cell of a label."""

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
        member_cell = self.member_cell - self.cells.cell_offsets[0]
        member_offsets, counts = self.member_offsets - self.member_offsets[0], np.diff(self.member_offsets)
        single = log_probs.index_select(0, torch.from_numpy(member_cell[member_offsets[:-1]]))
        several = np.flatnonzero(counts > 1)
        if not len(several):
            return single
        rows = log_probs.index_select(0, torch.from_numpy(member_cell[np.repeat(counts > 1, counts)]))
        group = torch.from_numpy(np.repeat(np.arange(len(several)), counts[several]))
        shape = len(several), log_probs.shape[1]
        index = group[:, None].expand(rows.shape)
        top = rows.new_full(shape, -torch.inf).scatter_reduce(0, index, rows.detach(), "amax")
        sums = rows.new_zeros(shape).index_add(0, group, (rows - top[group]).exp())
        return single.index_copy(0, torch.from_numpy(several), top + sums.log())


def build_coarse_cells(cells: VoteCells, allowed: NDArray[np.bool_]) -> CoarseCells | None:
    """Find the cells of labels behind the cells of symbols; None if no symbol is coarse.  allowed (S, L)"""
    num_labels = allowed.shape[1]
    if len(allowed) == num_labels:
        return None
    symbol, member = np.nonzero(allowed)
    first_member = np.searchsorted(symbol, np.arange(len(allowed)))
    counts = allowed.sum(axis=1)[cells.label]
    label = member[concat_ranges(first_member[cells.label], counts)]
    keys, member_cell = np.unique(np.repeat(cells.source_row, counts) * num_labels + label, return_inverse=True)
    cell_offsets = np.searchsorted(keys, np.arange(len(cells.default_cell) + 1) * num_labels)
    label_cells = replace(cells, cell_offsets=cell_offsets, label=(keys % num_labels).astype(np.int16))
    return CoarseCells(label_cells, cells.cell_offsets, lengths_to_offsets(counts), member_cell.reshape(-1))


@jit()
def _count_cells(votes, offsets, L):  # type: ignore[no-untyped-def]
    """Cell offsets, default votes as 0 or -1, exception offsets."""
    M, (N, K) = len(offsets) - 1, votes.shape
    bounds, changes = np.zeros(M * K + 1, np.int64), np.zeros(N + 1, np.int64)
    usual = np.empty(M * K, np.int32)
    # The last sentence in which a source voted for a label: the array need not be cleared in between.
    seen = np.full((K, L), -1, np.int64)
    tally = np.empty((K, 2), np.int64)
    for m in range(M):
        tally[:] = 0
        for t in range(offsets[m], offsets[m + 1]):
            for k in range(K):
                j = votes[t, k]
                if j < 1:
                    tally[k, j + 1] += 1
                if j >= 0 and seen[k, j] != m:
                    seen[k, j] = m
                    bounds[m * K + k + 1] += 1
        for k in range(K):
            p = m * K + k
            bounds[p + 1] += bounds[p]
            usual[p] = 0 if tally[k, 1] > 0 and tally[k, 1] >= tally[k, 0] else -1
        for t in range(offsets[m], offsets[m + 1]):
            changes[t + 1] = changes[t]
            for k in range(K):
                changes[t + 1] += votes[t, k] != usual[m * K + k]
    return bounds, usual, changes


@jit()
def _fill_cells(votes, offsets, L, bounds, usual, changes, label, gained, lost):  # type: ignore[no-untyped-def]
    """Fill label, gained (added cells) and lost (removed cells); default votes become cell positions."""
    K = votes.shape[1]
    seen = np.full((K, L), -1, np.int64)
    place = np.empty((K, L), np.int32)
    for m in range(len(offsets) - 1):
        for t in range(offsets[m], offsets[m + 1]):
            for k in range(K):
                if votes[t, k] >= 0:
                    seen[k, votes[t, k]] = m
        c = bounds[m * K]
        for k in range(K):
            # Stop at the last cell of the row: most sources vote only O.
            j = 0
            while c < bounds[m * K + k + 1]:
                if seen[k, j] == m:
                    label[c] = j
                    place[k, j] = c - bounds[m * K]
                    c += 1
                j += 1
        for t in range(offsets[m], offsets[m + 1]):
            s = changes[t]
            if s == changes[t + 1]:
                continue
            for k in range(K):
                if votes[t, k] != usual[m * K + k]:
                    gained[s] = place[k, votes[t, k]] if votes[t, k] >= 0 else -1
                    lost[s] = place[k, 0] if usual[m * K + k] == 0 else -1
                    s += 1
        for k in range(K):
            if usual[m * K + k] == 0:
                usual[m * K + k] = place[k, 0]


@jit(REASSOCIATE)
def _sum_evidence(offsets, bounds, usual, changes, gained, lost, values, out):  # type: ignore[no-untyped-def]
    M, L = len(offsets) - 1, values.shape[1]
    K = len(usual) // M if M else 0
    base, row = np.empty(L), np.empty(L)
    for m in range(M):
        c = bounds[m * K] - bounds[0]
        base[:] = 0
        for p in range(m * K, (m + 1) * K):
            if usual[p] >= 0:
                for i in range(L):
                    base[i] += values[c + usual[p], i]
        for t in range(offsets[m] - offsets[0], offsets[m + 1] - offsets[0]):
            for i in range(L):
                row[i] = base[i]
            for s in range(changes[t] - changes[0], changes[t + 1] - changes[0]):
                if gained[s] >= 0:
                    for i in range(L):
                        row[i] += values[c + gained[s], i]
                if lost[s] >= 0:
                    for i in range(L):
                        row[i] -= values[c + lost[s], i]
            for i in range(L):
                out[t, i] = row[i]


@jit(REASSOCIATE)
def _scatter_grad(offsets, bounds, usual, changes, gained, lost, grad, out):  # type: ignore[no-untyped-def]
    M, L = len(offsets) - 1, grad.shape[1]
    K = len(usual) // M if M else 0
    total = np.empty(L)
    for m in range(M):
        c = bounds[m * K] - bounds[0]
        total[:] = 0
        for t in range(offsets[m] - offsets[0], offsets[m + 1] - offsets[0]):
            for i in range(L):
                total[i] += grad[t, i]
            for s in range(changes[t] - changes[0], changes[t + 1] - changes[0]):
                if gained[s] >= 0:
                    for i in range(L):
                        out[c + gained[s], i] += grad[t, i]
                if lost[s] >= 0:
                    for i in range(L):
                        out[c + lost[s], i] -= grad[t, i]
        for p in range(m * K, (m + 1) * K):
            if usual[p] >= 0:
                for i in range(L):
                    out[c + usual[p], i] += total[i]
