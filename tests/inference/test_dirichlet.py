"""Dirichlet samples: distribution and gradients, compared with torch and closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Generator, Tensor
from torch.distributions import Dirichlet

from convener.inference.dirichlet import log_dirichlet_mean, log_dirichlet_sample
from convener.inference.vote_cells import VoteCells, build_vote_cells
from tests.inference.test_vote_cells import crowds, random_crowd
from tests.oracles.dirichlet import log_dirichlet_sample_reference, rows_with_rest, sample_gamma_reference

double = torch.float64


def seeded(seed: int = 0) -> Generator:
    return Generator().manual_seed(seed)


def cell_parameters(omega: Tensor, cells: VoteCells) -> tuple[Tensor, Tensor]:
    """Concentrations of cells (C, L) and row sums (P, L) of omega (P, L, L) [row, latent label, vote]."""
    pair, label = torch.tensor(cells.source_row), torch.tensor(cells.label).long()
    return omega[pair, :, label].reshape(-1, omega.shape[-1]), omega.sum(-1)


def repeated(cells: list[int], labels: int, times: int) -> VoteCells:
    """One source that votes for the same labels in many sentences."""
    votes = np.tile(np.array(cells, np.int16), times)[:, None]
    return build_vote_cells(votes, np.arange(times + 1) * len(cells), labels)


def random_omega(seed: int, cells: VoteCells, labels: int, least: float) -> Tensor:
    rng = np.random.default_rng(seed)
    shape = len(cells.default_cell), labels, labels
    return torch.tensor(least + rng.gamma(0.5, 20, shape), dtype=double)


@given(crowds)
def test_the_mean_is_that_of_the_complete_distribution(case: tuple[int, list[int], int, int]) -> None:
    _, _, cells = random_crowd(*case)
    omega = random_omega(case[0], cells, case[3], 0.1)
    means = Dirichlet(omega).mean if len(omega) else omega
    expected = means[torch.tensor(cells.source_row), :, torch.tensor(cells.label).long()]
    found = log_dirichlet_mean(*cell_parameters(omega, cells), cells)
    torch.testing.assert_close(found.exp(), expected.reshape(found.shape))


def test_gradcheck_of_the_mean() -> None:
    _, _, cells = random_crowd(4, [5, 0, 7], 3, 3)
    columns, totals = (x.detach().requires_grad_() for x in cell_parameters(random_omega(1, cells, 3, 1.0), cells))
    assert torch.autograd.gradcheck(lambda c, t: log_dirichlet_mean(c, t, cells), (columns, totals))
    row = totals[:1].detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda c, t: log_dirichlet_mean(c, t, cells), (columns, row))


def follows(draws: Tensor, law: Any) -> bool:
    """Kolmogorov-Smirnov test at 1e-3, excluding values that are rounded to 1."""
    small = 10.0 ** np.linspace(-200, -1, 400)
    points = np.concatenate([small, np.linspace(0.1, 0.9, 200), 1 - small[small > 1e-12][::-1]])
    below = np.searchsorted(np.sort(draws.numpy()), points, "right") / len(draws)
    return bool(np.abs(below - law.cdf(points)).max() < 1.95 / len(draws) ** 0.5)


@pytest.mark.parametrize("dtype", [torch.float32, double])
@pytest.mark.parametrize("concentration", [1.0, 1.3, 2.5, 10.0, 400.0, 3e4])
def test_reference_gammas_follow_their_distribution(concentration: float, dtype: torch.dtype) -> None:
    drawn = sample_gamma_reference(torch.full((30_000,), concentration, dtype=dtype), seeded(3))
    assert stats.kstest(drawn.double().numpy(), stats.gamma(concentration).cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("omega", "labels"),
    [
        ([2.0, 5.0, 90.0, 1.5, 3.0], [0]),
        ([40.0, 1.0, 3.0, 2.0, 7.0], [0, 3]),
        ([1.0, 2.0, 3.0], [0, 1, 2]),
        ([0.3, 5.0, 0.05, 0.6, 0.2], [0, 2]),
        ([0.02, 0.01, 0.03], [0, 1, 2]),
        ([1000.0, 1.0, 0.5, 0.5, 2.0], [1, 2, 4]),
    ],
)
def test_samples_follow_the_dirichlet_distribution(omega: list[float], labels: list[int]) -> None:
    """Every share is a beta variable, and the covariances are those of a Dirichlet distribution."""
    times, size = 5000, len(omega)
    cells = repeated(labels, size, times)
    omega = torch.tensor(omega, dtype=double)
    columns = omega[labels].repeat(times)[:, None].expand(-1, size)
    drawn = log_dirichlet_sample(columns, omega.sum().expand(1, 1), cells, generator=seeded(1))
    assert torch.isfinite(drawn).all()
    shares = drawn.exp().reshape(times, len(labels), size).swapaxes(0, 1).reshape(len(labels), -1)
    for share, j in zip(shares, labels, strict=True):
        assert follows(share, stats.beta(omega[j], sum(omega) - omega[j]))
    other = Dirichlet(omega)
    mean, variance = other.mean[labels], other.variance[labels]
    error = (variance / shares.shape[1]).sqrt()
    assert ((shares.mean(1) - mean).abs() < 5 * error).all()
    covariance = -mean[:, None] * mean / (1 + omega.sum())
    covariance.fill_diagonal_(0).diagonal().copy_(variance)
    spread = (variance[:, None] * variance).sqrt()
    assert ((torch.atleast_2d(shares.cov()) - covariance).abs() < 0.06 * spread).all()
    if len(labels) == size:
        torch.testing.assert_close(shares.sum(0), torch.ones(shares.shape[1], dtype=double))


@pytest.mark.parametrize("least", [1.0, 0.05])
def test_gradients_are_those_of_the_expectation(least: float) -> None:
    """E log Phi_j = psi(a_j) - psi(a_0), and psi' is known."""
    size, times, labels = 5, 20_000, [0, 3]
    cells = repeated(labels, size, times)
    omega = torch.tensor([6.0, 2.0, 1.0, 1.0, 2.0], dtype=double) * least
    columns = omega[labels].repeat(times)[:, None].expand(-1, size).clone().requires_grad_()
    totals = omega.sum().expand(times, size).clone().requires_grad_()
    weights = torch.tensor([1.0, -0.5], dtype=double).repeat(times)[:, None]
    drawn = log_dirichlet_sample(columns, totals, cells, generator=seeded(7))
    (drawn * weights).sum().backward()
    trigamma = torch.special.polygamma(1, omega)
    expected = weights[:2, 0] * trigamma[labels]
    found = columns.grad.reshape(times, 2, size).swapaxes(1, 2).reshape(-1, 2)
    error = found.std(0) / len(found) ** 0.5
    assert ((found.mean(0) - expected).abs() < 4 * error + 1e-3 * expected.abs()).all()
    by_total = totals.grad.reshape(-1)
    expected_total = -weights[:2].sum() * torch.special.polygamma(1, omega.sum())
    error = by_total.std() / len(by_total) ** 0.5
    assert (by_total.mean() - expected_total).abs() < 4 * error + 1e-3 * expected_total.abs()


def test_gradients_match_those_of_torch() -> None:
    """A function without closed form, compared with pathwise gradients of the complete distribution."""
    size, times = 3, 20_000
    omega = torch.tensor([8.0, 2.0, 1.5], dtype=double)

    def value(shares: Tensor) -> Tensor:
        return (shares.square() * torch.tensor([1.0, -2.0], dtype=double)).sum(-1).sin()

    cells = repeated([0, 2], size, times)
    columns = omega[[0, 2]].repeat(times)[:, None].expand(-1, size).clone().requires_grad_()
    totals = omega.sum().expand(times, size).clone().requires_grad_()
    drawn = log_dirichlet_sample(columns, totals, cells, generator=seeded(5)).exp()
    value(drawn.reshape(times, 2, size).swapaxes(1, 2)).sum().backward()
    by_column = columns.grad.reshape(times, 2, size).swapaxes(1, 2).reshape(-1, 2)
    by_total = totals.grad.reshape(-1, 1)
    # Gradients of complete rows: cells with votes also change the row sum, the others change only that.
    ours = torch.stack([by_column[:, 0], by_total[:, 0], by_column[:, 1]], 1)
    ours = ours + by_total * torch.tensor([1.0, 0.0, 1.0], dtype=double)
    torch.manual_seed(11)
    theirs = omega.expand(times * size, size).clone().requires_grad_()
    value(Dirichlet(theirs).rsample()[:, [0, 2]]).sum().backward()
    error = (ours.std(0) + theirs.grad.std(0)) / len(ours) ** 0.5
    assert ((ours.mean(0) - theirs.grad.mean(0)).abs() < 4 * error).all()


@given(crowds, st.sampled_from([torch.float32, double]), st.sampled_from([1.0, 0.01]))
def test_kernel_and_reference_draw_the_same(
    case: tuple[int, list[int], int, int], dtype: torch.dtype, least: float
) -> None:
    _, _, cells = random_crowd(*case)
    omega = random_omega(case[0], cells, case[3], least).to(dtype)
    columns, totals = (x.detach().requires_grad_() for x in cell_parameters(omega, cells))
    weights = torch.randn(columns.shape, dtype=dtype)
    results = []
    for sample in (log_dirichlet_sample, log_dirichlet_sample_reference):
        drawn = sample(columns, totals, cells, generator=seeded(case[0] % 1000))
        assert drawn.dtype == dtype
        assert torch.isfinite(drawn).all()
        slopes = torch.autograd.grad((drawn * weights).sum(), (columns, totals))
        assert all(torch.isfinite(x).all() for x in slopes)
        results.append((drawn, *slopes))
    if dtype == double:  # in single precision, rounding may decide whether a proposal is accepted
        (drawn, *slopes), (drawn_reference, *slopes_reference) = results
        torch.testing.assert_close(drawn, drawn_reference, rtol=1e-9, atol=1e-9)
        for ours, reference in zip(slopes, slopes_reference, strict=True):  # torch's are approximations, too
            torch.testing.assert_close(ours, reference, rtol=2e-3, atol=2e-3)


def test_only_rows_with_some_labels_missing_have_a_rest() -> None:
    votes = np.array([[0, -1, 1], [1, -1, 1], [2, -1, 1]], np.int16)
    assert rows_with_rest(build_vote_cells(votes, np.array([0, 3]), 3), 3).tolist() == [2]


def test_samples_depend_on_the_generator_only() -> None:
    _, _, cells = random_crowd(9, [6, 3, 0, 8], 4, 5)
    omega = random_omega(2, cells, 5, 2.0).float()
    first, again, other = (
        log_dirichlet_sample(*cell_parameters(omega, cells), cells, generator=seeded(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_row_sums_are_broadcast() -> None:
    _, _, cells = random_crowd(9, [6, 3, 0, 8], 4, 5)
    columns, _ = cell_parameters(random_omega(2, cells, 5, 2.0), cells)
    one = torch.full((1, 5), 5e3, dtype=double, requires_grad=True)
    wide = one.detach().expand(16, 5).clone().requires_grad_()
    for totals in (one, wide):
        log_dirichlet_sample(columns, totals, cells, generator=seeded()).sum().backward()
    torch.testing.assert_close(one.grad, wide.grad.sum(0, keepdim=True))


def test_samples_and_gradients_are_finite() -> None:
    """Concentrations so small that a gamma underflows, and a rest lost to rounding."""
    cells = repeated([0, 1], 5, 200)
    columns = torch.full((400, 5), 1e-3)
    columns[::2] = 1e4
    columns.requires_grad_()
    drawn = log_dirichlet_sample(columns, torch.full((1, 5), 1e4), cells, generator=seeded(2))
    drawn.sum().backward()
    assert torch.isfinite(drawn).all()
    assert (drawn[1::2] < -100).any()
    assert torch.isfinite(columns.grad).all()


@pytest.mark.parametrize("votes", [np.full((4, 2), -1), np.zeros((0, 2)), np.zeros((4, 0))])
def test_without_cells_nothing_is_sampled(
    votes: np.ndarray[tuple[int, int], np.dtype[np.int16]],
) -> None:
    cells = build_vote_cells(votes.astype(np.int16), np.array([0, 0, len(votes)]), 3)
    columns, totals = torch.ones(0, 3, requires_grad=True), torch.ones(len(cells.default_cell), 3)
    for function in (log_dirichlet_sample, log_dirichlet_sample_reference, log_dirichlet_mean):
        drawn = function(columns, totals, cells)
        assert drawn.shape == (0, 3)
        drawn.sum().backward()


def test_a_slice_is_sampled_like_its_sentences_alone() -> None:
    votes, offsets, cells = random_crowd(6, [4, 0, 5, 7, 3], 3, 5)
    part = cells[2:4]
    alone = build_vote_cells(votes[offsets[2] : offsets[4]], offsets[2:5] - offsets[2], 5)
    omega = random_omega(2, part, 5, 2.0)
    drawn = [log_dirichlet_sample(*cell_parameters(omega, x), x, generator=seeded(4)) for x in (part, alone)]
    assert torch.equal(*drawn)
