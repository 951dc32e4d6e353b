"""Emissions drawn from Dirichlet laws, only where a source says something.

Each row Phi[m, k, i, :] ~ Dirichlet(Omega[m, k, i, :]) is needed at the labels that source k says
in sentence m.  All other labels of the row together are one more cell, the rest, whose
concentration is the sum of theirs: summing cells of a Dirichlet law gives a Dirichlet law.  Its
cells are gamma variables divided by their sum.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor
from torch.autograd.function import once_differentiable

from convener.inference._numba import MIN_EXPONENT, REASSOCIATE, Array, exp_in_place, jit, log_in_place
from convener.inference.vote_cells import VoteCells

# Stands for infinity: nobody survives exp(-50).
MAX_HAZARD = 50.0
# Within this, a few terms of the logarithm's series do, and lose no digits.
_SERIES_RADIUS = 0.3
# From this concentration on, the series of `log_slopes` errs by less than 1e-4 (1e-5 for nearly all
# draws); torch's own approximation errs by as much.
_MIN_SERIES_CONCENTRATION = 6.0


class GammaDraws(NamedTuple):
    """Gamma variables as they were drawn; those of small concentrations are few."""

    boosted: Array
    """Concentrations, one more where they are below 1."""
    cube_roots: Array
    """Of the same shape: a variable is (raised - 1/3) root^3, times its power where it is one of"""
    small_index: Array
    """(S,) places of concentrations below 1, counted in all."""
    small_concentrations: Array
    """(S,) these concentrations."""
    log_powers: Array
    """(S,) logarithms of U^(1/a)."""


def sample_gamma(concentrations: Array, generator: Generator | None) -> GammaDraws:
    """Draw gamma variables of these concentrations, all positive.

    One proposal for all at once; torch draws those anew that were refused, a few per cent.
    """
    flat = concentrations.reshape(-1)
    small_index = np.flatnonzero(flat < 1)
    small_concentrations = flat[small_index]
    boosted = torch.from_numpy(flat.copy() if len(small_index) else flat)
    boosted.numpy()[small_index] += 1
    cube_roots = torch.randn(boosted.shape, generator=generator, dtype=boosted.dtype)
    if len(flat):
        cumulative_hazard = torch.empty(boosted.shape, dtype=torch.float64)
        _propose(boosted.numpy(), cube_roots.numpy(), cumulative_hazard.numpy())
        rejected = sample_rejections(cumulative_hazard, generator)
        rejected_concentrations = boosted[rejected]
        redrawn = torch._standard_gamma(rejected_concentrations, generator=generator)
        redrawn.clamp_(min=torch.finfo(redrawn.dtype).tiny)
        cube_roots[rejected] = redrawn.div_(rejected_concentrations - 1 / 3).pow_(1 / 3)
    # Uniform numbers never reach 1, so that 1 less them is never 0.
    uniform = torch.rand(len(small_index), generator=generator, dtype=boosted.dtype).numpy()
    shape = concentrations.shape
    log_powers = np.log1p(-uniform) / small_concentrations
    return GammaDraws(
        boosted.numpy().reshape(shape),
        cube_roots.numpy().reshape(shape),
        small_index,
        small_concentrations,
        log_powers,
    )


def log_gamma_draws(draws: GammaDraws) -> Array:
    """Logarithms of the variables."""
    logs = np.empty_like(draws.cube_roots)
    _log_values(draws.boosted.reshape(-1), draws.cube_roots.reshape(-1), logs.reshape(-1))
    logs.reshape(-1)[draws.small_index] += draws.log_powers
    return logs


def sample_rejections(cumulative_hazard: Tensor, generator: Generator | None) -> Tensor:
    """Places of proposals that do not stay, each with probability 1 - exp(-hazard).  -> (R,)

    ends (n,) float64: hazards, summed up to each place.  Points of a Poisson process hit the
    stretch of a proposal with just the probability to refuse it: a few random numbers instead of
    one for each proposal.
    """
    num_points = int(torch.poisson(cumulative_hazard[-1], generator=generator))
    points = torch.rand(
        num_points,
        generator=generator,
        dtype=cumulative_hazard.dtype,
        device=cumulative_hazard.device,
    )
    indices = torch.searchsorted(cumulative_hazard, points.mul_(cumulative_hazard[-1])).clamp_(
        max=len(cumulative_hazard) - 1
    )
    rejected: Tensor = torch.unique(indices)
    return rejected


def log_gamma_grad(draws: GammaDraws) -> Array:
    """How the logarithms of the variables move with their concentrations, quantiles held fast."""
    a, cube_roots = draws.boosted.reshape(-1), draws.cube_roots.reshape(-1)
    grad = np.empty_like(cube_roots)
    _grad_series(a, cube_roots, grad)
    small = np.flatnonzero(a < _MIN_SERIES_CONCENTRATION)
    if len(small):
        small_a, small_roots = a[small], cube_roots[small]
        values = (small_a - 1 / 3) * small_roots * small_roots * small_roots
        exact_grad = torch._standard_gamma_grad(torch.from_numpy(small_a), torch.from_numpy(values))
        grad[small] = exact_grad.numpy() / values
    grad[draws.small_index] -= draws.log_powers / draws.small_concentrations
    return grad.reshape(draws.cube_roots.shape)


@jit(REASSOCIATE)
def _log_values(a, roots, out):  # type: ignore[no-untyped-def]
    third, tiny = a.dtype.type(1 / 3), a.dtype.type(np.finfo(a.dtype).tiny)
    for k in range(len(a)):
        out[k] = max((a[k] - third) * roots[k] * roots[k] * roots[k], tiny)
    log_in_place(out, len(a))


@jit(REASSOCIATE)
def _propose(a, roots, ends):  # type: ignore[no-untyped-def]
    """Turn normal variables into roots; hazards, summed, into ends."""
    one = a.dtype.type(1)
    near, third, half = a.dtype.type(_SERIES_RADIUS), a.dtype.type(1 / 3), a.dtype.type(1 / 2)
    c5, c7, c9 = a.dtype.type(1 / 5), a.dtype.type(1 / 7), a.dtype.type(1 / 9)
    c4, c6, c8, c10 = half * half, half * third, half * half * half, a.dtype.type(1 / 10)
    least = np.finfo(a.dtype).eps
    total = 0.0
    for k in range(len(a)):
        d = a[k] - third
        w = roots[k] * (third / math.sqrt(d))
        if abs(w) < near:
            x = c4 - w * (c5 - w * (c6 - w * (c7 - w * (c8 - w * (c9 - w * c10)))))
            hazard = x * (w * w) * (w * w)
        elif w > least - one:
            hazard = max(w - w * w * (half - w * third) - math.log1p(w), 0.0)
        else:
            hazard, w = MAX_HAZARD, least - one
        roots[k] = one + w
        total += min(3 * d * hazard, MAX_HAZARD)
        ends[k] = total


@jit(REASSOCIATE)
def _grad_series(a, roots, slopes):  # type: ignore[no-untyped-def]
    """Slopes of log(d root^3) by a, quantiles held fast: a series in w and 1/d.

    The normal variables n = 3 sqrt(d) w that stay have a density, phi(n) exp(-hazard) / Z(d).  As
    d grows, each moves so as to keep its quantile; that motion, solved order by order in
    1 / sqrt d, is added to the slope at a fixed n, (1 - 3/2 w / root) / d.
    """
    kind = a.dtype.type
    one, half = kind(1), kind(1.5)
    a3, a4, a5, a6, a7, a8 = (
        kind(1 / 4), kind(-3 / 10), kind(1 / 4), kind(-73 / 420), kind(13 / 120), kind(-9 / 140)
    )  # fmt: skip
    b1, b2, b3, b4, b5, b6 = (
        kind(1 / 12), kind(-2 / 15), kind(1 / 9), kind(-11 / 252), kind(-1 / 40), kind(1 / 15)
    )  # fmt: skip
    c0, c1, c2, c3, c4 = (
        kind(-4 / 135),
        kind(1 / 27),
        kind(-1 / 105),
        kind(-13 / 360),
        kind(22 / 315),
    )
    d0, d1, d2, e0 = kind(-2 / 945), kind(-13 / 1080), kind(2 / 63), kind(4 / 567)
    third = kind(1 / 3)
    for k in range(len(a)):
        r = one / (a[k] - third)
        w = roots[k] - one
        x = w * w * w * (a3 + w * (a4 + w * (a5 + w * (a6 + w * (a7 + w * a8)))))
        y = w * (b1 + w * (b2 + w * (b3 + w * (b4 + w * (b5 + w * b6)))))
        z = c0 + w * (c1 + w * (c2 + w * (c3 + w * c4))) + r * (d0 + w * (d1 + w * d2) + r * e0)
        slopes[k] = r * (one + (x + r * (y + r * z) - half * w) / roots[k])


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
