"""Gamma samples: their distribution, and gradients compared with derivatives of the distribution function."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import Generator

from convener.inference.dirichlet import GammaDraws, log_gamma_draws, log_gamma_grad, sample_gamma, sample_rejections

LEVELS = np.array([1e-4, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999, 1 - 1e-4])


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def quantile_gradient(a: float, drawn: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray:
    """d log x / da at fixed gammainc(a, x), by implicit differentiation."""
    step = 1e-5 * a
    by_a = (special.gammainc(a + step, drawn) - special.gammainc(a - step, drawn)) / (2 * step)
    return -by_a / (drawn * stats.gamma(a).pdf(drawn))  # type: ignore[no-any-return]


def as_drawn(concentration: float, values: np.ndarray, dtype: type) -> GammaDraws:
    """The given values as draws."""
    concentrations = np.full(len(values), concentration, dtype)
    none = np.zeros(0, dtype)
    roots = np.cbrt(values / (concentration - 1 / 3)).astype(dtype)
    return GammaDraws(concentrations, roots, np.zeros(0, np.int64), none, none)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("concentration", [0.02, 0.5, 1.0, 1.3, 2.5, 10.0, 400.0, 3e4])
def test_samples_follow_the_gamma_distribution(concentration: float, dtype: type) -> None:
    logs = log_gamma_draws(sample_gamma(np.full((3, 10_000), concentration, dtype), seeded(3)))
    assert logs.shape == (3, 10_000)
    assert logs.dtype == dtype
    assert np.isfinite(logs).all()
    law = stats.loggamma(concentration)
    assert stats.kstest(logs.astype(np.float64).ravel(), law.cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("concentration", [1.0, 2.0, 5.9, 6.0, 9.0, 30.0, 1e3, 1e5])
def test_gradients_keep_the_quantile_fixed(concentration: float, dtype: type) -> None:
    values = stats.gamma(concentration).ppf(LEVELS)
    expected = quantile_gradient(concentration, values)
    found = log_gamma_grad(as_drawn(concentration, values, dtype))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=5e-4)
    if concentration >= 6:  # by the series: nearer still for all but a few draws
        np.testing.assert_allclose(found[2:-2], expected[2:-2], rtol=3e-5)


@pytest.mark.parametrize("concentration", [0.3, 2.0, 40.0])
def test_mean_gradient_is_the_trigamma_function(concentration: float) -> None:
    """E log x = digamma(a)."""
    found = log_gamma_grad(sample_gamma(np.full(200_000, concentration), seeded(1)))
    expected = special.polygamma(1, concentration)
    assert abs(found.mean() - expected) < 4 * found.std() / len(found) ** 0.5


def test_proposals_are_rejected_with_their_probability() -> None:
    hazard = torch.tensor([0.0, 0.1, 50.0, 0.7, 0.0], dtype=torch.float64)
    counts = torch.zeros(5)
    generator = seeded(2)
    for _ in range(2000):
        counts[sample_rejections(hazard.cumsum(0), generator)] += 1
    expected = 1 - (-hazard).exp()
    assert ((counts / 2000 - expected).abs() < 0.04).all()
    assert counts[2] == 2000


def test_samples_depend_on_the_generator_only() -> None:
    concentrations = np.linspace(0.5, 3, 150, dtype=np.float32).reshape(50, 3)
    first, again, other = (log_gamma_draws(sample_gamma(concentrations, seeded(seed))) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_concentrations_are_not_modified() -> None:
    concentrations = np.full((4, 2), 0.5)
    drawn = sample_gamma(concentrations, seeded())
    assert (concentrations == 0.5).all()
    assert (drawn.boosted == 1.5).all()


def test_an_empty_array_is_sampled() -> None:
    nothing = sample_gamma(np.zeros((0, 3), np.float32), None)
    assert log_gamma_draws(nothing).shape == log_gamma_grad(nothing).shape == (0, 3)
