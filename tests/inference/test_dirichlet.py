"""Drawn emissions: their law and their gradients, against torch's Dirichlet and closed forms."""

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


def parts(omega: Tensor, said: VoteCells) -> tuple[Tensor, Tensor]:
    """Columns (C, L) and totals (P, L) of whole concentrations (P, L, L) [pair, latent, said]."""
    pair, label = torch.tensor(said.source_row), torch.tensor(said.label).long()
    return omega[pair, :, label].reshape(-1, omega.shape[-1]), omega.sum(-1)


def repeated(said: list[int], labels: int, times: int) -> VoteCells:
    """One source that says the same labels in many sentences."""
    votes = np.tile(np.array(said, np.int16), times)[:, None]
    return build_vote_cells(votes, np.arange(times + 1) * len(said), labels)


def random_omega(seed: int, said: VoteCells, labels: int, least: float) -> Tensor:
    rng = np.random.default_rng(seed)
    shape = len(said.default_cell), labels, labels
    return torch.tensor(least + rng.gamma(0.5, 20, shape), dtype=double)


@given(crowds)
def test_the_mean_is_that_of_the_complete_distribution(crowd: tuple[int, list[int], int, int]) -> None:
    _, _, said = random_crowd(*crowd)
    omega = random_omega(crowd[0], said, crowd[3], 0.1)
    means = Dirichlet(omega).mean if len(omega) else omega
    expected = means[torch.tensor(said.source_row), :, torch.tensor(said.label).long()]
    found = log_dirichlet_mean(*parts(omega, said), said)
    torch.testing.assert_close(found.exp(), expected.reshape(found.shape))


def test_gradcheck_of_the_mean() -> None:
    _, _, said = random_crowd(4, [5, 0, 7], 3, 3)
    columns, totals = (x.detach().requires_grad_() for x in parts(random_omega(1, said, 3, 1.0), said))
    assert torch.autograd.gradcheck(lambda c, t: log_dirichlet_mean(c, t, said), (columns, totals))
    row = totals[:1].detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda c, t: log_dirichlet_mean(c, t, said), (columns, row))


def follows(draws: Tensor, law: Any) -> bool:
    """Kolmogorov's test at 1e-3, short of where a draw is rounded to 1."""
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
    ("omega", "spoken"),
    [
        ([2.0, 5.0, 90.0, 1.5, 3.0], [0]),
        ([40.0, 1.0, 3.0, 2.0, 7.0], [0, 3]),
        ([1.0, 2.0, 3.0], [0, 1, 2]),
        ([0.3, 5.0, 0.05, 0.6, 0.2], [0, 2]),
        ([0.02, 0.01, 0.03], [0, 1, 2]),
        ([1000.0, 1.0, 0.5, 0.5, 2.0], [1, 2, 4]),
    ],
)
def test_samples_follow_the_dirichlet_distribution(omega: list[float], spoken: list[int]) -> None:
    """Every cell is a beta variable, and the cells belong together as in a Dirichlet law."""
    times, size = 5000, len(omega)
    said = repeated(spoken, size, times)
    whole = torch.tensor(omega, dtype=double)
    columns = whole[spoken].repeat(times)[:, None].expand(-1, size)
    drawn = log_dirichlet_sample(columns, whole.sum().expand(1, 1), said, generator=seeded(1))
    assert torch.isfinite(drawn).all()
    cells = drawn.exp().reshape(times, len(spoken), size).swapaxes(0, 1).reshape(len(spoken), -1)
    for cell, j in zip(cells, spoken, strict=True):
        assert follows(cell, stats.beta(omega[j], sum(omega) - omega[j]))
    other = Dirichlet(whole)
    mean, variance = other.mean[spoken], other.variance[spoken]
    error = (variance / cells.shape[1]).sqrt()
    assert ((cells.mean(1) - mean).abs() < 5 * error).all()
    covariance = -mean[:, None] * mean / (1 + whole.sum())
    covariance.fill_diagonal_(0).diagonal().copy_(variance)
    spread = (variance[:, None] * variance).sqrt()
    assert ((torch.atleast_2d(cells.cov()) - covariance).abs() < 0.06 * spread).all()
    if len(spoken) == size:
        torch.testing.assert_close(cells.sum(0), torch.ones(cells.shape[1], dtype=double))


@pytest.mark.parametrize("least", [1.0, 0.05])
def test_gradients_are_those_of_the_expectation(least: float) -> None:
    """E log Phi_j = psi(a_j) - psi(a_0), and psi' is known."""
    size, times, spoken = 5, 20_000, [0, 3]
    said = repeated(spoken, size, times)
    whole = torch.tensor([6.0, 2.0, 1.0, 1.0, 2.0], dtype=double) * least
    columns = whole[spoken].repeat(times)[:, None].expand(-1, size).clone().requires_grad_()
    totals = whole.sum().expand(times, size).clone().requires_grad_()
    weights = torch.tensor([1.0, -0.5], dtype=double).repeat(times)[:, None]
    drawn = log_dirichlet_sample(columns, totals, said, generator=seeded(7))
    (drawn * weights).sum().backward()
    trigamma = torch.special.polygamma(1, whole)
    expected = weights[:2, 0] * trigamma[spoken]
    found = columns.grad.reshape(times, 2, size).swapaxes(1, 2).reshape(-1, 2)
    error = found.std(0) / len(found) ** 0.5
    assert ((found.mean(0) - expected).abs() < 4 * error + 1e-3 * expected.abs()).all()
    by_total = totals.grad.reshape(-1)
    expected_total = -weights[:2].sum() * torch.special.polygamma(1, whole.sum())
    error = by_total.std() / len(by_total) ** 0.5
    assert (by_total.mean() - expected_total).abs() < 4 * error + 1e-3 * expected_total.abs()


def test_gradients_match_those_of_torch() -> None:
    """A function with no closed form, against the pathwise gradients of the whole law."""
    size, times = 3, 20_000
    whole = torch.tensor([8.0, 2.0, 1.5], dtype=double)

    def worth(shares: Tensor) -> Tensor:
        return (shares.square() * torch.tensor([1.0, -2.0], dtype=double)).sum(-1).sin()

    said = repeated([0, 2], size, times)
    columns = whole[[0, 2]].repeat(times)[:, None].expand(-1, size).clone().requires_grad_()
    totals = whole.sum().expand(times, size).clone().requires_grad_()
    drawn = log_dirichlet_sample(columns, totals, said, generator=seeded(5)).exp()
    worth(drawn.reshape(times, 2, size).swapaxes(1, 2)).sum().backward()
    by_column = columns.grad.reshape(times, 2, size).swapaxes(1, 2).reshape(-1, 2)
    by_total = totals.grad.reshape(-1, 1)
    # Whole rows: the said cells move the total, too; the unsaid one moves only that.
    ours = torch.stack([by_column[:, 0], by_total[:, 0], by_column[:, 1]], 1)
    ours = ours + by_total * torch.tensor([1.0, 0.0, 1.0], dtype=double)
    torch.manual_seed(11)
    theirs = whole.expand(times * size, size).clone().requires_grad_()
    worth(Dirichlet(theirs).rsample()[:, [0, 2]]).sum().backward()
    error = (ours.std(0) + theirs.grad.std(0)) / len(ours) ** 0.5
    assert ((ours.mean(0) - theirs.grad.mean(0)).abs() < 4 * error).all()


@given(crowds, st.sampled_from([torch.float32, double]), st.sampled_from([1.0, 0.01]))
def test_kernel_and_reference_draw_the_same(
    crowd: tuple[int, list[int], int, int], dtype: torch.dtype, least: float
) -> None:
    _, _, said = random_crowd(*crowd)
    omega = random_omega(crowd[0], said, crowd[3], least).to(dtype)
    columns, totals = (x.detach().requires_grad_() for x in parts(omega, said))
    weights = torch.randn(columns.shape, dtype=dtype)
    results = []
    for sample in (log_dirichlet_sample, log_dirichlet_sample_reference):
        drawn = sample(columns, totals, said, generator=seeded(crowd[0] % 1000))
        assert drawn.dtype == dtype
        assert torch.isfinite(drawn).all()
        slopes = torch.autograd.grad((drawn * weights).sum(), (columns, totals))
        assert all(torch.isfinite(x).all() for x in slopes)
        results.append((drawn, *slopes))
    if dtype == double:  # in single precision, rounding may decide whether a proposal stays
        (drawn, *slopes), (drawn_twin, *slopes_twin) = results
        torch.testing.assert_close(drawn, drawn_twin, rtol=1e-9, atol=1e-9)
        for ours, twin in zip(slopes, slopes_twin, strict=True):  # torch's are approximations, too
            torch.testing.assert_close(ours, twin, rtol=2e-3, atol=2e-3)


def test_only_rows_with_some_labels_missing_have_a_rest() -> None:
    votes = np.array([[0, -1, 1], [1, -1, 1], [2, -1, 1]], np.int16)
    assert rows_with_rest(build_vote_cells(votes, np.array([0, 3]), 3), 3).tolist() == [2]


def test_samples_depend_on_the_generator_only() -> None:
    _, _, said = random_crowd(9, [6, 3, 0, 8], 4, 5)
    omega = random_omega(2, said, 5, 2.0).float()
    first, again, other = (
        log_dirichlet_sample(*parts(omega, said), said, generator=seeded(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_row_sums_are_broadcast() -> None:
    _, _, said = random_crowd(9, [6, 3, 0, 8], 4, 5)
    columns, _ = parts(random_omega(2, said, 5, 2.0), said)
    one = torch.full((1, 5), 5e3, dtype=double, requires_grad=True)
    wide = one.detach().expand(16, 5).clone().requires_grad_()
    for totals in (one, wide):
        log_dirichlet_sample(columns, totals, said, generator=seeded()).sum().backward()
    torch.testing.assert_close(one.grad, wide.grad.sum(0, keepdim=True))


def test_samples_and_gradients_are_finite() -> None:
    """Concentrations so small that a gamma underflows, and a rest lost to rounding."""
    said = repeated([0, 1], 5, 200)
    columns = torch.full((400, 5), 1e-3)
    columns[::2] = 1e4
    columns.requires_grad_()
    drawn = log_dirichlet_sample(columns, torch.full((1, 5), 1e4), said, generator=seeded(2))
    drawn.sum().backward()
    assert torch.isfinite(drawn).all()
    assert (drawn[1::2] < -100).any()
    assert torch.isfinite(columns.grad).all()


@pytest.mark.parametrize("votes", [np.full((4, 2), -1), np.zeros((0, 2)), np.zeros((4, 0))])
def test_without_cells_nothing_is_sampled(
    votes: np.ndarray[tuple[int, int], np.dtype[np.int16]],
) -> None:
    said = build_vote_cells(votes.astype(np.int16), np.array([0, 0, len(votes)]), 3)
    columns, totals = torch.ones(0, 3, requires_grad=True), torch.ones(len(said.default_cell), 3)
    for function in (log_dirichlet_sample, log_dirichlet_sample_reference, log_dirichlet_mean):
        drawn = function(columns, totals, said)
        assert drawn.shape == (0, 3)
        drawn.sum().backward()


def test_a_slice_is_sampled_like_its_sentences_alone() -> None:
    votes, offsets, said = random_crowd(6, [4, 0, 5, 7, 3], 3, 5)
    part = said[2:4]
    alone = build_vote_cells(votes[offsets[2] : offsets[4]], offsets[2:5] - offsets[2], 5)
    omega = random_omega(2, part, 5, 2.0)
    drawn = [log_dirichlet_sample(*parts(omega, x), x, generator=seeded(4)) for x in (part, alone)]
    assert torch.equal(*drawn)
