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
from convener.kernels.said import Said

# Stands for infinity: nobody survives exp(-50).
_SURE = 50.0


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
    whole rows, (P, L) [pair, latent] or what broadcasts to it.  The kernel on CPU, where all
    concentrations are 1 or more; the twin elsewhere, finite for any concentration.
    """
    whole = totals.expand(len(said.usual), columns.shape[1])
    if columns.device.type == "cpu":
        rest = _with_rest(said, columns.shape[1])
        # A difference of sums may lose all its digits, but not its sign.
        floor = torch.finfo(columns.dtype).eps
        given = [x.detach().contiguous().numpy() for x in (columns, whole)]
        concentrations, least = _concentrations(*given, said.bounds, rest, floor)
        if least >= 1:
            drawn = _gamma(torch.from_numpy(concentrations), generator)
            return _Shares.apply(columns, whole, concentrations, drawn, said.bounds, rest)  # type: ignore[no-untyped-call,no-any-return]
    return log_sample_twin(columns, whole, said, generator=generator)


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
    """Gamma variables of concentrations from 1 upwards, by Marsaglia and Tsang (2000).

    One proposal for all at once; torch draws those anew that were refused, a few per cent.
    That takes a quarter of the time that torch would take for all.
    """
    flat = concentration.reshape(-1)
    if not len(flat):
        return concentration.clone()
    d = flat - 1 / 3
    normal = torch.randn(flat.shape, generator=generator, dtype=flat.dtype, device=flat.device)
    root = (9 * d).rsqrt_().mul_(normal).add_(1)
    cube = root * root * root
    # A proposal stays with probability exp(-hazard), and none that is not positive.
    hazard = (cube - cube.log() - 1).mul_(d).sub_(normal.square_(), alpha=0.5)
    hazard = hazard.nan_to_num_(nan=_SURE, posinf=_SURE).clamp_(0, _SURE)
    # Points of a Poisson process hit the stretch of a proposal with just the probability to refuse
    # it: a few random numbers instead of one for each proposal.
    ends = hazard.cumsum(0, dtype=torch.float64)
    hits = int(torch.poisson(ends[-1], generator=generator))
    points = torch.rand(hits, generator=generator, dtype=ends.dtype, device=ends.device)
    places = torch.searchsorted(ends, points.mul_(ends[-1])).clamp_(max=len(flat) - 1)
    refused = torch.unique(places)
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
        if small.any():
            # Uniform numbers never reach 1, so that 1 less them is never 0.
            uniform = power.uniform_(generator=generator).neg_().add_(1)
            power = torch.where(small, uniform.log_() / concentration, 0)
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
        ctx: Any,
        columns: Tensor,
        whole: Tensor,
        concentrations: Array,
        drawn: Tensor,
        bounds: Array,
        rest: Array,
    ) -> Tensor:
        shares = np.empty_like(concentrations)
        _divide(drawn.numpy(), bounds, rest, shares)
        ctx.save_for_backward(torch.from_numpy(concentrations), drawn, torch.from_numpy(shares))
        ctx.structure = bounds, rest
        return torch.from_numpy(shares[: len(columns)]).log()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        concentrations, drawn, shares = ctx.saved_tensors
        bounds, rest = ctx.structure
        slope = torch._standard_gamma_grad(concentrations, drawn).div_(drawn)
        by_column = np.empty((len(grad), shares.shape[1]), shares.numpy().dtype)
        by_total = np.zeros((len(bounds) - 1, shares.shape[1]), by_column.dtype)
        arrays = [x.contiguous().numpy() for x in (grad, shares, slope)]
        _gradients(*arrays, bounds, rest, by_column, by_total)
        return torch.from_numpy(by_column), torch.from_numpy(by_total), None, None, None, None


@compiled(REGROUP)
def _concentrations(columns, whole, bounds, rest, floor):  # type: ignore[no-untyped-def]
    """Concentrations of all cells and then of the rests (C+R, L), and the least of them."""
    C, L = columns.shape
    out = np.empty((C + len(rest), L), columns.dtype)
    spoken = np.empty(L)
    out[:C] = columns
    for r in range(len(rest)):
        spoken[:] = 0
        for c in range(bounds[rest[r]] - bounds[0], bounds[rest[r] + 1] - bounds[0]):
            for i in range(L):
                spoken[i] += columns[c, i]
        for i in range(L):
            out[C + r, i] = max(whole[rest[r], i] - spoken[i], floor * whole[rest[r], i])
    least = np.inf
    for c in range(len(out)):
        for i in range(L):
            least = min(least, out[c, i])
    return out, least


@compiled(REGROUP)
def _divide(drawn, bounds, rest, out):  # type: ignore[no-untyped-def]
    L, C = drawn.shape[1], bounds[-1] - bounds[0]
    total = np.empty(L)
    r = 0
    for p in range(len(bounds) - 1):
        first, last = bounds[p] - bounds[0], bounds[p + 1] - bounds[0]
        if first == last:
            continue
        extra = r < len(rest) and rest[r] == p
        for i in range(L):
            total[i] = drawn[C + r, i] if extra else 0.0
        for c in range(first, last):
            for i in range(L):
                total[i] += drawn[c, i]
        for i in range(L):
            total[i] = 1.0 / total[i]
        for c in range(first, last):
            for i in range(L):
                out[c, i] = drawn[c, i] * total[i]
        if extra:
            for i in range(L):
                out[C + r, i] = drawn[C + r, i] * total[i]
            r += 1


@compiled(REGROUP)
def _gradients(grad, shares, slope, bounds, rest, by_column, by_total):  # type: ignore[no-untyped-def]
    """A share's logarithm falls with every other cell's gamma; the rest falls with every cell."""
    L, C = grad.shape[1], bounds[-1] - bounds[0]
    total = np.empty(L)
    r = 0
    for p in range(len(bounds) - 1):
        first, last = bounds[p] - bounds[0], bounds[p + 1] - bounds[0]
        if first == last:
            continue
        total[:] = 0
        for c in range(first, last):
            for i in range(L):
                total[i] += grad[c, i]
        if r < len(rest) and rest[r] == p:
            for i in range(L):
                by_total[p, i] = -total[i] * shares[C + r, i] * slope[C + r, i]
            r += 1
        for c in range(first, last):
            for i in range(L):
                moved = (grad[c, i] - total[i] * shares[c, i]) * slope[c, i]
                by_column[c, i] = moved - by_total[p, i]
