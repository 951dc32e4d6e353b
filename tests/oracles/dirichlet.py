"""Reference of Dirichlet samples: the same draws and gradients in torch operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.autograd.function import once_differentiable

from convener.inference.dirichlet import MAX_HAZARD, sample_rejections
from convener.inference.vote_cells import VoteCells


def log_dirichlet_sample_reference(
    concentration: Tensor, row_sums: Tensor, cells: VoteCells, *, generator: Generator | None = None
) -> Tensor:
    """As `dirichlet.log_dirichlet_sample`; in float64 it draws the same numbers.  -> (C, L)"""
    shape = len(cells.default_cell), concentration.shape[1]
    rest_rows, cell_rows = torch.as_tensor(rows_with_rest(cells, shape[1])), torch.as_tensor(cells.source_row)
    cell_sums = concentration.new_zeros(shape).index_add(0, cell_rows, concentration)
    rest = torch.maximum(row_sums - cell_sums, torch.finfo(concentration.dtype).eps * row_sums)
    log_draws: Tensor = _LogGamma.apply(torch.cat([concentration, rest[rest_rows]]), generator)  # type: ignore[no-untyped-call]
    rows = torch.cat([cell_rows, rest_rows])
    index = rows[:, None].expand(log_draws.shape)
    top = log_draws.new_full(shape, -torch.inf).scatter_reduce(0, index, log_draws.detach(), "amax")
    sums = torch.zeros_like(top).index_add(0, rows, (log_draws - top[rows]).exp())
    return log_draws[: len(cell_rows)] - top[cell_rows] - sums[cell_rows].log()


def rows_with_rest(cells: VoteCells, num_labels: int) -> NDArray[np.int64]:
    """Pairs of sentence and source with some, but not all labels among their cells.  -> (R,)"""
    return np.flatnonzero((cells.counts > 0) & (cells.counts < num_labels))


def sample_gamma_reference(concentration: Tensor, generator: Generator | None) -> Tensor:
    """Gamma variables of concentrations of at least 1, drawn as `dirichlet.sample_gamma` does."""
    flat = concentration.reshape(-1)
    if not len(flat):
        return concentration.clone()
    d = flat - 1 / 3
    normal = torch.randn(flat.shape, generator=generator, dtype=flat.dtype)
    cube = (1 + normal / (9 * d).sqrt()).pow(3)
    # Proposals that are not positive are always rejected.
    hazard = (cube - cube.log() - 1).mul_(d).sub_(normal.square_(), alpha=0.5)
    hazard = hazard.nan_to_num_(nan=MAX_HAZARD, posinf=MAX_HAZARD).clamp_(0, MAX_HAZARD)
    rejected = sample_rejections(hazard.cumsum(0, dtype=torch.float64), generator)
    draws = cube.mul_(d)
    draws[rejected] = torch._standard_gamma(flat[rejected], generator=generator)
    return draws.clamp_(min=torch.finfo(draws.dtype).tiny).reshape(concentration.shape)


class _LogGamma(torch.autograd.Function):
    """Logarithms of gamma variables; the gradient keeps the quantile of a draw fixed.

    Below a concentration of 1, gamma(a) = gamma(a+1) U^(1/a), whose logarithm cannot underflow.
    """

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, generator: Generator | None) -> Tensor:
        small = concentration < 1
        boosted = torch.where(small, concentration + 1, concentration)
        draws = sample_gamma_reference(boosted, generator)
        log_power = torch.zeros_like(draws)
        small_concentration = concentration[small]
        uniform = torch.rand(small_concentration.shape, generator=generator, dtype=concentration.dtype)
        log_power[small] = uniform.neg_().log1p_() / small_concentration
        ctx.save_for_backward(concentration, boosted, draws, log_power)
        return draws.log() + log_power

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        concentration, boosted, draws, log_power = ctx.saved_tensors
        slope = torch._standard_gamma_grad(boosted, draws) / draws
        return grad * (slope - log_power / concentration), None
