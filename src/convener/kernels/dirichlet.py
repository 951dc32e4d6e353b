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

from convener.kernels.compiled import REGROUP, Array, compiled
from convener.kernels.exponent import DEEP, exp_in_place, log_in_place
from convener.kernels.gamma import SURE, gammas, log_gammas, log_slopes, refusals
from convener.kernels.said import Said


def log_mean(columns: Tensor, totals: Tensor, said: Said) -> Tensor:
    """Log of the mean emissions, log(Omega / sum(Omega)).  -> (C, L)

    columns (C, L) [cell, latent]: concentrations of the labels said; totals: sums of whole rows,
    (P, L) [pair, latent] or what broadcasts to it.
    """
    whole = totals.log().expand(len(said.usual), -1)
    return columns.log() - whole.index_select(0, _tensor(said.pair, columns))


def log_sample(
    columns: Tensor, totals: Tensor, said: Said, *, generator: Generator | None = None
) -> Tensor:
    """Log of emissions drawn from the Dirichlet laws, with pathwise gradients.  -> (C, L)

    columns (C, L) [cell, latent]: concentrations of the labels said, all positive; totals: sums of
    whole rows, (P, L) [pair, latent] or what broadcasts to it.  The kernel on CPU, the twin
    elsewhere; both in log space, finite for any concentration.
    """
    if columns.device.type != "cpu":
        return log_sample_twin(columns, totals, said, generator=generator)
    whole = totals.expand(len(said.usual), columns.shape[1])
    shares: Tensor = _Shares.apply(columns, whole, said.bounds, generator)  # type: ignore[no-untyped-call]
    return shares


def log_sample_twin(
    columns: Tensor, totals: Tensor, said: Said, *, generator: Generator | None = None
) -> Tensor:
    """The same draws and gradients in torch operations on any device, in log space.  -> (C, L)"""
    shape = len(said.usual), columns.shape[1]
    rest, pair = _with_rest(said, shape[1]), _tensor(said.pair, columns)
    spoken = columns.new_zeros(shape).index_add(0, pair, columns)
    others = torch.maximum(totals - spoken, torch.finfo(columns.dtype).eps * totals)
    concentrations = torch.cat([columns, others[_tensor(rest, columns)]])
    logs: Tensor = _LogGamma.apply(concentrations, generator)  # type: ignore[no-untyped-call]
    pairs = torch.cat([pair, _tensor(rest, columns)])
    wide = pairs[:, None].expand(logs.shape)
    top = logs.new_full(shape, -torch.inf).scatter_reduce(0, wide, logs.detach(), "amax")
    sums = torch.zeros_like(top).index_add(0, pairs, (logs - top[pairs]).exp())
    return logs[: len(pair)] - top[pair] - sums[pair].log()


def _with_rest(said: Said, labels: int) -> Array:
    """Pairs that have a rest: not those that say every label, or nothing.  (R,)"""
    counts = said.counts
    return np.flatnonzero((counts > 0) & (counts < labels))


def _tensor(array: Array, like: Tensor) -> Tensor:
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
    hazard = hazard.nan_to_num_(nan=SURE, posinf=SURE).clamp_(0, SURE)
    refused = refusals(hazard.cumsum(0, dtype=torch.float64), generator)
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
        uniform = torch.rand(
            below.shape, generator=generator, dtype=below.dtype, device=below.device
        )
        power[small] = uniform.neg_().log1p_() / below
        ctx.save_for_backward(concentration, raised, drawn, power)
        return drawn.log() + power

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        concentration, raised, drawn, power = ctx.saved_tensors
        slope = torch._standard_gamma_grad(raised, drawn) / drawn
        return grad * (slope - power / concentration), None


class _Shares(torch.autograd.Function):
    """Logs of the cells' shares in the sum over their pair and its rest."""

    @staticmethod
    def forward(
        ctx: Any, columns: Tensor, whole: Tensor, bounds: Array, generator: Generator | None
    ) -> Tensor:
        given = [x.detach().contiguous().numpy() for x in (columns, whole)]
        # A difference of sums may lose all its digits, but not its sign.
        floor = torch.finfo(columns.dtype).eps
        drawn = gammas(_concentrations(*given, bounds, floor), generator)
        logs = log_gammas(drawn)
        shares = np.empty_like(logs)
        _divide(logs, bounds, shares)
        ctx.kept = drawn, shares, bounds
        return torch.from_numpy(logs[: len(columns)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        drawn, shares, bounds = ctx.kept
        by_column = np.empty((len(grad), shares.shape[1]), shares.dtype)
        by_total = np.zeros((len(bounds) - 1, shares.shape[1]), shares.dtype)
        slopes = log_slopes(drawn)
        _gradients(grad.contiguous().numpy(), shares, slopes, bounds, by_column, by_total)
        return torch.from_numpy(by_column), torch.from_numpy(by_total), None, None


# In the kernels a pair has a rest unless it says every label, or nothing; rests come after all
# cells, in the order of their pairs.


@compiled(REGROUP)
def _concentrations(columns, whole, bounds, floor):  # type: ignore[no-untyped-def]
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


@compiled(REGROUP)
def _divide(logs, bounds, shares):  # type: ignore[no-untyped-def]
    """Logs of gamma variables (C+R, L) become, for cells, logs of their shares; fill the shares."""
    L, C, P = logs.shape[1], bounds[-1] - bounds[0], len(bounds) - 1
    deep = logs.dtype.type(DEEP)
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


@compiled(REGROUP)
def _gradients(grad, shares, slopes, bounds, by_column, by_total):  # type: ignore[no-untyped-def]
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
