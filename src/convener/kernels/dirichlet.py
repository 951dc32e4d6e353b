"""Emissions drawn from Dirichlet laws, only where a source says something.

Each row Phi[m, k, i, :] ~ Dirichlet(Omega[m, k, i, :]) is needed at the labels that source k says
in sentence m.  All other labels of the row together are one more cell, the rest, whose
concentration is the sum of theirs: summing cells of a Dirichlet law gives a Dirichlet law.  Its
cells are gamma variables divided by their sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.autograd.function import once_differentiable

from convener.kernels.compiled import REASSOCIATE, Array, jit
from convener.kernels.exponent import MIN_EXPONENT, exp_in_place, log_in_place
from convener.kernels.gamma import (
    MAX_HAZARD,
    log_gamma_draws,
    log_gamma_grad,
    sample_gamma,
    sample_rejections,
)
from convener.kernels.said import VoteCells


def log_dirichlet_mean(concentration: Tensor, row_sums: Tensor, cells: VoteCells) -> Tensor:
    """Log of the mean emissions, log(Omega / sum(Omega)).  -> (C, L)

    columns (C, L) [cell, latent]: concentrations of the labels said; totals: sums of whole rows,
    (P, L) [pair, latent] or what broadcasts to it.
    """
    log_row_sums = row_sums.log().expand(len(cells.default_cell), -1)
    return concentration.log() - log_row_sums.index_select(0, _to_tensor(cells.source_row, concentration))


def log_dirichlet_sample(
    concentration: Tensor, row_sums: Tensor, cells: VoteCells, *, generator: Generator | None = None
) -> Tensor:
    """Log of emissions drawn from the Dirichlet laws, with pathwise gradients.  -> (C, L)

    columns (C, L) [cell, latent]: concentrations of the labels said, all positive; totals: sums of
    whole rows, (P, L) [pair, latent] or what broadcasts to it.  The kernel on CPU, the twin
    elsewhere; both in log space, finite for any concentration.
    """
    if concentration.device.type != "cpu":
        return log_sample_twin(concentration, row_sums, cells, generator=generator)
    expanded_sums = row_sums.expand(len(cells.default_cell), concentration.shape[1])
    log_probs: Tensor = _DirichletSample.apply(concentration, expanded_sums, cells.cell_offsets, generator)  # type: ignore[no-untyped-call]
    return log_probs


def log_sample_twin(columns: Tensor, totals: Tensor, said: VoteCells, *, generator: Generator | None = None) -> Tensor:
    """The same draws and gradients in torch operations on any device, in log space.  -> (C, L)"""
    shape = len(said.default_cell), columns.shape[1]
    rest, pair = _with_rest(said, shape[1]), _to_tensor(said.source_row, columns)
    spoken = columns.new_zeros(shape).index_add(0, pair, columns)
    others = torch.maximum(totals - spoken, torch.finfo(columns.dtype).eps * totals)
    concentrations = torch.cat([columns, others[_to_tensor(rest, columns)]])
    logs: Tensor = _LogGamma.apply(concentrations, generator)  # type: ignore[no-untyped-call]
    pairs = torch.cat([pair, _to_tensor(rest, columns)])
    wide = pairs[:, None].expand(logs.shape)
    top = logs.new_full(shape, -torch.inf).scatter_reduce(0, wide, logs.detach(), "amax")
    sums = torch.zeros_like(top).index_add(0, pairs, (logs - top[pairs]).exp())
    return logs[: len(pair)] - top[pair] - sums[pair].log()


def _with_rest(said: VoteCells, labels: int) -> Array:
    """Pairs that have a rest: not those that say every label, or nothing.  (R,)"""
    counts = said.counts
    return np.flatnonzero((counts > 0) & (counts < labels))


def _to_tensor(array: Array, like: Tensor) -> Tensor:
    return torch.as_tensor(array, device=like.device)


def _gamma(concentration: Tensor, generator: Generator | None) -> Tensor:
    """Gamma variables of concentrations from 1 upwards, as `gammas` draws them."""
    flat = concentration.reshape(-1)
    if not len(flat):
        return concentration.clone()
    d = flat - 1 / 3
    normal = torch.randn(flat.shape, generator=generator, dtype=flat.dtype, device=flat.device)
    cube = (1 + normal / (9 * d).sqrt()).pow(3)
    # No proposal stays that is not positive.
    hazard = (cube - cube.log() - 1).mul_(d).sub_(normal.square_(), alpha=0.5)
    hazard = hazard.nan_to_num_(nan=MAX_HAZARD, posinf=MAX_HAZARD).clamp_(0, MAX_HAZARD)
    refused = sample_rejections(hazard.cumsum(0, dtype=torch.float64), generator)
    drawn = cube.mul_(d)
    drawn[refused] = torch._standard_gamma(flat[refused], generator=generator)
    return drawn.clamp_(min=torch.finfo(drawn.dtype).tiny).reshape(concentration.shape)


class _LogGamma(torch.autograd.Function):
    """Log of gamma variables; the gradient moves a draw along its quantile.

    Below a concentration of 1, gamma(a) = gamma(a+1) U^(1/a), whose logarithm cannot underflow.
    """

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, generator: Generator | None) -> Tensor:
        small = concentration < 1
        raised = torch.where(small, concentration + 1, concentration)
        drawn = _gamma(raised, generator)
        power = torch.zeros_like(drawn)
        below = concentration[small]
        uniform = torch.rand(below.shape, generator=generator, dtype=below.dtype, device=below.device)
        power[small] = uniform.neg_().log1p_() / below
        ctx.save_for_backward(concentration, raised, drawn, power)
        return drawn.log() + power

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        concentration, raised, drawn, power = ctx.saved_tensors
        slope = torch._standard_gamma_grad(raised, drawn) / drawn
        return grad * (slope - power / concentration), None


class _DirichletSample(torch.autograd.Function):
    """Logs of the cells' shares in the sum over their pair and its rest."""

    @staticmethod
    def forward(
        ctx: Any,
        concentration: Tensor,
        row_sums: Tensor,
        cell_offsets: Array,
        generator: Generator | None,
    ) -> Tensor:
        arrays = [x.detach().contiguous().numpy() for x in (concentration, row_sums)]
        # A difference of sums may lose all its digits, but not its sign.
        floor = torch.finfo(concentration.dtype).eps
        draws = sample_gamma(_concentration_with_rest(*arrays, cell_offsets, floor), generator)
        log_probs = log_gamma_draws(draws)
        probs = np.empty_like(log_probs)
        _normalize(log_probs, cell_offsets, probs)
        ctx.kept = draws, probs, cell_offsets
        return torch.from_numpy(log_probs[: len(concentration)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        draws, probs, cell_offsets = ctx.kept
        grad_concentration = np.empty((len(grad), probs.shape[1]), probs.dtype)
        grad_row_sums = np.zeros((len(cell_offsets) - 1, probs.shape[1]), probs.dtype)
        gamma_grad = log_gamma_grad(draws)
        _backward(
            grad.contiguous().numpy(),
            probs,
            gamma_grad,
            cell_offsets,
            grad_concentration,
            grad_row_sums,
        )
        return torch.from_numpy(grad_concentration), torch.from_numpy(grad_row_sums), None, None


# In the kernels a pair has a rest unless it says every label, or nothing; rests come after all
# cells, in the order of their pairs.


@jit(REASSOCIATE)
def _concentration_with_rest(columns, whole, bounds, floor):  # type: ignore[no-untyped-def]
    """Concentrations of all cells and then of the rests.  -> (C+R, L)"""
    C, L = columns.shape
    R = 0
    for p in range(len(bounds) - 1):
        R += 0 < bounds[p + 1] - bounds[p] < L
    out = np.empty((C + R, L), columns.dtype)
    spoken = np.empty(L)
    out[:C] = columns
    r = C
    for p in range(len(bounds) - 1):
        first, last = bounds[p] - bounds[0], bounds[p + 1] - bounds[0]
        if not 0 < last - first < L:
            continue
        spoken[:] = 0
        for c in range(first, last):
            for i in range(L):
                spoken[i] += columns[c, i]
        for i in range(L):
            out[r, i] = max(whole[p, i] - spoken[i], floor * whole[p, i])
        r += 1
    return out


@jit(REASSOCIATE)
def _normalize(logs, bounds, shares):  # type: ignore[no-untyped-def]
    """Logs of gamma variables (C+R, L) become, for cells, logs of their shares; fill the shares."""
    L, C, P = logs.shape[1], bounds[-1] - bounds[0], len(bounds) - 1
    deep = logs.dtype.type(MIN_EXPONENT)
    tops, totals = np.full((P, L), -np.inf, logs.dtype), np.zeros((P, L), logs.dtype)
    r = C
    for p in range(P):
        first, last = bounds[p] - bounds[0], bounds[p + 1] - bounds[0]
        rest = 0 < last - first < L
        for c in range(first, last + rest):
            k = c if c < last else r
            for i in range(L):
                tops[p, i] = max(tops[p, i], logs[k, i])
        for c in range(first, last + rest):
            k = c if c < last else r
            for i in range(L):
                shares[k, i] = max(logs[k, i] - tops[p, i], deep)
        r += rest
    exp_in_place(shares.reshape(-1), shares.size)
    r = C
    for p in range(P):
        first, last = bounds[p] - bounds[0], bounds[p + 1] - bounds[0]
        rest = 0 < last - first < L
        for c in range(first, last + rest):
            k = c if c < last else r
            for i in range(L):
                totals[p, i] += shares[k, i]
        for c in range(first, last + rest):
            k = c if c < last else r
            for i in range(L):
                shares[k, i] /= totals[p, i]
        r += rest
    log_in_place(totals.reshape(-1), P * L)
    for p in range(P):
        for c in range(bounds[p] - bounds[0], bounds[p + 1] - bounds[0]):
            for i in range(L):
                logs[c, i] -= tops[p, i] + totals[p, i]


@jit(REASSOCIATE)
def _backward(grad, shares, slopes, bounds, by_column, by_total):  # type: ignore[no-untyped-def]
    """A share's logarithm falls with every other cell's gamma; the rest falls with every cell."""
    L, C = grad.shape[1], bounds[-1] - bounds[0]
    total = np.empty(L)
    r = C
    for p in range(len(bounds) - 1):
        first, last = bounds[p] - bounds[0], bounds[p + 1] - bounds[0]
        total[:] = 0
        for c in range(first, last):
            for i in range(L):
                total[i] += grad[c, i]
        if 0 < last - first < L:
            for i in range(L):
                by_total[p, i] = -total[i] * shares[r, i] * slopes[r, i]
            r += 1
        for c in range(first, last):
            for i in range(L):
                moved = (grad[c, i] - total[i] * shares[c, i]) * slopes[c, i]
                by_column[c, i] = moved - by_total[p, i]
