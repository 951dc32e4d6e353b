"""Samples of Dirichlet-distributed emissions (3.2.3), drawn only for the labels that a source votes for.

Each row Phi[m, k, i, :] ~ Dirichlet(Omega[m, k, i, :]) is needed at the labels that source k votes for in sentence m.
All other labels of the row are aggregated into one more cell, the rest, whose concentration is the sum of theirs: by
the aggregation property the result is again a Dirichlet distribution.  Its cells are gamma variables divided by their
sum.
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

# Stands for infinity: a proposal is accepted with probability exp(-hazard).
MAX_HAZARD = 50.0
# Up to this radius a few terms of the series of the logarithm are exact enough and lose no digits.
_SERIES_RADIUS = 0.3
# From this concentration on, the error of `_grad_series` is below 1e-4 (1e-5 for nearly all draws), as is that of
# torch's own approximation.
_MIN_SERIES_CONCENTRATION = 6.0


def log_dirichlet_mean(concentration: Tensor, row_sums: Tensor, cells: VoteCells) -> Tensor:
    """Log of the mean emissions, log(Omega / sum(Omega)).  -> (C, L)

    concentration (C, L) [cell, latent label]; row_sums broadcastable to (P, L) [row, latent label]: sums over all
    labels.
    """
    log_row_sums = row_sums.log().expand(len(cells.default_cell), -1)
    return concentration.log() - log_row_sums.index_select(0, torch.from_numpy(cells.source_row))


def log_dirichlet_sample(
    concentration: Tensor, row_sums: Tensor, cells: VoteCells, *, generator: Generator | None = None
) -> Tensor:
    """Log of emissions drawn from Dirichlet distributions, with pathwise gradients.  -> (C, L)

    concentration (C, L) [cell, latent label], positive; row_sums broadcastable to (P, L) [row, latent label]: sums over
    all labels.  Computed in log space, finite for any concentration.
    """
    expanded_sums = row_sums.expand(len(cells.default_cell), concentration.shape[1])
    log_probs: Tensor = _DirichletSample.apply(concentration, expanded_sums, cells.cell_offsets, generator)  # type: ignore[no-untyped-call]
    return log_probs


class _DirichletSample(torch.autograd.Function):
    """Logs of gamma variables normalized over the cells of their row and its rest."""

    @staticmethod
    def forward(
        ctx: Any,
        concentration: Tensor,
        row_sums: Tensor,
        cell_offsets: Array,
        generator: Generator | None,
    ) -> Tensor:
        arrays = [x.detach().contiguous().numpy() for x in (concentration, row_sums)]
        # The rest is a difference that may lose all its digits; it must stay positive.
        floor = torch.finfo(concentration.dtype).eps
        draws = sample_gamma(_concentration_with_rest(*arrays, cell_offsets, floor), generator)
        log_probs = log_gamma_draws(draws)
        probs = np.empty_like(log_probs)
        _normalize(log_probs, cell_offsets, probs)
        ctx.saved = draws, probs, cell_offsets
        return torch.from_numpy(log_probs[: len(concentration)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        draws, probs, cell_offsets = ctx.saved
        grad_concentration = np.empty((len(grad), probs.shape[1]), probs.dtype)
        grad_row_sums = np.zeros((len(cell_offsets) - 1, probs.shape[1]), probs.dtype)
        inputs = (grad.contiguous().numpy(), probs, log_gamma_grad(draws), cell_offsets)
        _backward(*inputs, grad_concentration, grad_row_sums)
        return torch.from_numpy(grad_concentration), torch.from_numpy(grad_row_sums), None, None


class GammaDraws(NamedTuple):
    """Gamma variables in the form in which they were drawn."""

    boosted: Array
    """Concentrations, increased by 1 where they are below 1."""
    cube_roots: Array
    """Of the same shape: a variable is (boosted - 1/3) * root^3, times U^(1/a) where its concentration a is below 1."""
    small_index: Array
    """(S,) flat indices of concentrations below 1."""
    small_concentrations: Array
    """(S,) the concentrations below 1."""
    log_powers: Array
    """(S,) logarithms of U^(1/a)."""


def sample_gamma(concentrations: Array, generator: Generator | None) -> GammaDraws:
    """Draw gamma variables with the given positive concentrations.

    One proposal is made for all at once; torch redraws the few per cent that are rejected.
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
    # Uniform numbers are below 1, so 1 - uniform is never 0.
    uniform = torch.rand(len(small_index), generator=generator, dtype=boosted.dtype).numpy()
    shape = concentrations.shape
    log_powers = np.log1p(-uniform) / small_concentrations
    normal = (boosted.numpy().reshape(shape), cube_roots.numpy().reshape(shape))
    return GammaDraws(*normal, small_index, small_concentrations, log_powers)


def log_gamma_draws(draws: GammaDraws) -> Array:
    """Logarithms of the variables."""
    logs = np.empty_like(draws.cube_roots)
    _log_values(draws.boosted.reshape(-1), draws.cube_roots.reshape(-1), logs.reshape(-1))
    logs.reshape(-1)[draws.small_index] += draws.log_powers
    return logs


def sample_rejections(cumulative_hazard: Tensor, generator: Generator | None) -> Tensor:
    """Indices of rejected proposals; each is rejected with probability 1 - exp(-hazard).  -> (R,)

    cumulative_hazard (n,) float64.  Points of a Poisson process fall into the interval of a proposal with exactly the
    probability of its rejection, so only a few random numbers are needed instead of one per proposal.
    """
    num_points = int(torch.poisson(cumulative_hazard[-1], generator=generator))
    points = torch.rand(num_points, generator=generator, dtype=cumulative_hazard.dtype)
    indices = torch.searchsorted(cumulative_hazard, points.mul_(cumulative_hazard[-1])).clamp_(
        max=len(cumulative_hazard) - 1
    )
    rejected: Tensor = torch.unique(indices)
    return rejected


def log_gamma_grad(draws: GammaDraws) -> Array:
    """Derivatives of the log variables with respect to their concentrations at fixed quantiles."""
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
def _concentration_with_rest(columns, whole, bounds, floor):  # type: ignore[no-untyped-def]
    """Concentrations of all cells, then of the R rests.  -> (C+R, L)"""
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
    """Replace logs of gamma variables (C+R, L) of cells by logs of their shares; fill the shares."""
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
    """Fill gradients: the log of a share falls with every other gamma variable of its row, and the rest with all."""
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


@jit(REASSOCIATE)
def _log_values(a, roots, out):  # type: ignore[no-untyped-def]
    third, tiny = a.dtype.type(1 / 3), a.dtype.type(np.finfo(a.dtype).tiny)
    for k in range(len(a)):
        out[k] = max((a[k] - third) * roots[k] * roots[k] * roots[k], tiny)
    log_in_place(out, len(a))


@jit(REASSOCIATE)
def _propose(a, roots, ends):  # type: ignore[no-untyped-def]
    """Replace normal variables by cube roots of proposals; fill the cumulative hazards."""
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
    """Derivatives of log(d root^3) with respect to a at fixed quantiles: a series in w and 1/d.

    Accepted normal variables n = 3 sqrt(d) w have the density phi(n) exp(-hazard) / Z(d).  As d grows, n changes such
    that its quantile stays fixed; this change, solved order by order in 1 / sqrt d, is added to the derivative at fixed
    n, (1 - 3/2 w / root) / d.
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
