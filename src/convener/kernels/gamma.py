"""Gamma variables on CPU, many at once, and how they move with their concentrations.

By Marsaglia and Tsang (2000), with d = a - 1/3, a variable of concentration a >= 1 is d root^3.
A proposal is root = 1 + w, where w is normal with spread 1 / (3 sqrt d); it stays with probability
exp(-3d (w - w^2/2 + w^3/3 - log(1 + w))), and most do.  Below 1, a variable is one of concentration
a + 1 times U^(1/a), whose logarithm cannot underflow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from convener.kernels.compiled import REASSOCIATE, Array, jit
from convener.kernels.exponent import log_in_place

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
