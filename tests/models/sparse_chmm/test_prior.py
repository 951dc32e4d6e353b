"""Reliability scores and priors against their definitions, and the properties that the paper requires."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from convener.models.sparse_chmm.prior import (
    addon_prior,
    addon_prior_at,
    addon_row_sums,
    base_prior,
    base_prior_rows,
    emit_to_o,
    expand_to_labels,
    reliability_logits,
    reliability_scores,
    scale_reliability,
    uniform_prior_rows,
    unscale_reliability,
)
from tests.inference.test_vote_cells import crowds, random_crowd

scalings = st.fixed_dictionaries({"h_n": st.floats(0.5, 4), "h_s": st.floats(0.5, 4), "h_r": st.floats(0.05, 0.95)})
# The paper's values on its five data sets: h_n, h_s, number of sources.
PAPER = [(1.2, 1.5, 16), (1.2, 3.0, 6), (0.9, 1.1, 9), (0.8, 1.5, 4), (1.1, 1.0, 17)]
# L, g_n, and g_r as a multiple of 1/(L-1), up to which g is never negative.
expansions = st.tuples(st.sampled_from([3, 5, 9, 37]), st.floats(1, 6), st.floats(0.01, 1))
double = torch.float64


def h(a: float, h_n: float, h_s: float, h_r: float) -> float:
    u = min(max(a ** (1 / h_s), 1e-6), 1 - 1e-6)
    if u < h_r:
        return u**h_n / h_r ** (h_n - 1)
    return 1 - (1 - u) ** h_n / (1 - h_r) ** (h_n - 1)


def g(a: float, labels: int, exponent: float, turn: float) -> float:
    def low(x: float) -> float:
        below = (exponent - 1) * turn**exponent - exponent * turn ** (exponent - 1)
        return (2 - labels) / below * x**exponent + (1 - labels) * x + 1

    return low(a) if a <= turn else low(turn) * (a - 1) / (turn - 1)


def slopes(function: Any, points: list[float]) -> list[float]:
    at = torch.tensor(points, dtype=double, requires_grad=True)
    (slope,) = torch.autograd.grad(function(at).sum(), at)
    return slope.tolist()  # type: ignore[no-any-return]


@given(scalings, st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_h_is_its_definition(how: dict[str, float], points: list[float]) -> None:
    found = scale_reliability(torch.tensor(points, dtype=double), **how)
    expected = [h(a, **how) for a in points]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)


@given(scalings)
def test_h_is_continuous_smooth_and_monotonic(how: dict[str, float]) -> None:
    split = how["h_r"] ** how["h_s"]
    around = torch.tensor([split * (1 - 1e-9), split * (1 + 1e-9)], dtype=double)
    torch.testing.assert_close(scale_reliability(around, **how), torch.full((2,), how["h_r"], dtype=double))
    before, after = slopes(lambda a: scale_reliability(a, **how), around.tolist())
    assert before == pytest.approx(after, rel=1e-5)
    grid = scale_reliability(torch.linspace(0, 1, 1001, dtype=double), **how)
    assert (grid.diff() >= 0).all()
    assert grid[0] < 2e-3
    assert grid[-1] > 1 - 2e-3


@given(scalings)
def test_the_slope_of_h_at_0_and_1_depends_on_the_exponents(how: dict[str, float]) -> None:
    """The slope is proportional to u^(h_n - h_s) near 0 and to (1 - u)^(h_n - 1) near 1: zero, finite or infinite."""
    steepness, root = how["h_n"], how["h_s"]
    for side, power in ((lambda u: u, steepness - root), (lambda u: 1 - u, steepness - 1)):
        near = [side(u) ** root for u in (2e-6, 1e-5)]
        close, far = slopes(lambda a: scale_reliability(a, **how), near)
        assert close / far == pytest.approx(0.2**power, rel=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@given(scalings)
def test_h_has_a_gradient_everywhere(dtype: torch.dtype, how: dict[str, float]) -> None:
    a = torch.tensor([0.0, 1e-30, 1e-7, 0.5, 1 - 1e-7, 1.0], dtype=dtype, requires_grad=True)
    (slope,) = torch.autograd.grad(scale_reliability(a, **how).sum(), a)
    assert torch.isfinite(slope).all()
    assert slope[0] == slope[-1] == 0


@given(scalings)
def test_h_has_an_inverse(how: dict[str, float]) -> None:
    shares = torch.linspace(0.01, 0.99, 50, dtype=double)
    torch.testing.assert_close(unscale_reliability(scale_reliability(shares, **how), **how), shares)


@pytest.mark.parametrize("wrong", [{"h_n": 0.0}, {"h_s": -1.0}, {"h_r": 0.0}, {"h_r": 1.0}])
def test_h_rejects_invalid_parameters(wrong: dict[str, float]) -> None:
    how = {"h_n": 1.0, "h_s": 1.0, "h_r": 0.5} | wrong
    for function in (scale_reliability, unscale_reliability):
        with pytest.raises(ValueError, match="expected h_n > 0, h_s > 0 and 0 < h_r < 1, got h_n="):
            function(torch.ones(1), **how)


@given(expansions, st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_g_is_its_definition(how: tuple[int, float, float], points: list[float]) -> None:
    labels, exponent, share = how
    turn = share / (labels - 1) * 0.999
    found = emit_to_o(torch.tensor(points, dtype=double), num_labels=labels, g_n=exponent, g_r=turn)
    expected = [g(a, labels, exponent, turn) for a in points]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-7, atol=1e-10)


@given(expansions)
def test_g_is_continuous_smooth_and_monotonic(how: tuple[int, float, float]) -> None:
    labels, exponent, share = how
    turn = share / (labels - 1) * 0.999

    def function(a: Tensor) -> Tensor:
        return emit_to_o(a, num_labels=labels, g_n=exponent, g_r=turn)

    around = [turn * (1 - 1e-9), turn * (1 + 1e-9)]
    low, high = function(torch.tensor(around, dtype=double)).tolist()
    assert low == pytest.approx(high, abs=1e-6)
    before, after = slopes(function, around)
    assert before == pytest.approx(after, rel=1e-5, abs=1e-5)
    values = function(torch.linspace(0, 1, 1001, dtype=double))
    assert (values.diff() <= 1e-12).all()
    assert values[[0, -1]].tolist() == [1, 0]
    first = slopes(function, [0.0])[0]
    # With g_n = 1, g(a) = 1 - a: the other labels have weight 0.
    assert first == pytest.approx(1 - labels if exponent > 1 else -1)


@pytest.mark.parametrize(
    ("labels", "exponent", "turn", "message"),
    [
        (2, 4.0, 0.1, "L >= 3"),
        (5, 0.9, 0.1, "g_n >= 1"),
        (5, 4.0, 0.0, "0 < g_r < 1"),
        (5, 4.0, 1.0, "0 < g_r < 1"),
        (9, 4.0, 0.6, r"g_r=0\.6 makes g negative; values up to 1/\(L-1\) = 0\.125"),
    ],
)
def test_g_rejects_parameters_for_which_rows_are_no_distributions(
    labels: int, exponent: float, turn: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        emit_to_o(torch.ones(1), num_labels=labels, g_n=exponent, g_r=turn)


def test_the_parameters_of_the_figure_in_the_paper_are_valid() -> None:
    scores = torch.linspace(0, 1, 101).repeat(5, 1).T
    prior = base_prior(scores, g_n=2, g_r=0.3)
    assert (prior >= 0).all()


def random_scores(seed: int, *shape: int) -> Tensor:
    """Scores in [0, 1], including 0 and 1."""
    rng = np.random.default_rng(seed)
    values = rng.random(shape) ** rng.choice([0.1, 1, 20], shape)
    return torch.tensor(np.where(rng.random(shape) < 0.1, rng.integers(0, 2, shape), values))


@given(st.integers(0, 2**32 - 1), expansions, st.booleans())
def test_the_base_prior_is_its_definition(seed: int, how: tuple[int, float, float], naive: bool) -> None:
    labels, exponent, share = how
    turn = share / (labels - 1) * 0.999
    scores = random_scores(seed, 2, labels)
    expected = np.zeros((2, labels, labels))
    for k, i, j in product(range(2), range(labels), range(labels)):
        a = float(scores[k, i])
        to_outside = g(a, labels, exponent, turn)
        if i == j:
            expected[k, i, j] = a
        elif i == 0 or naive:
            expected[k, i, j] = (1 - a) / (labels - 1)
        else:
            expected[k, i, j] = to_outside if j == 0 else (1 - a - to_outside) / (labels - 2)
    rows = uniform_prior_rows(scores) if naive else base_prior_rows(scores, g_n=exponent, g_r=turn)
    np.testing.assert_allclose(rows.dense().numpy(), expected, rtol=1e-6, atol=1e-9)


@given(st.integers(0, 2**32 - 1), expansions)
def test_rows_are_distributions(seed: int, how: tuple[int, float, float]) -> None:
    """a + g(a) <= 1 and g(a) >= 0 in single precision, too, with no sign lost to rounding."""
    labels, exponent, share = how
    scores = random_scores(seed, 3, 2, labels).float()
    for prior in (
        base_prior(scores, g_n=exponent, g_r=share / (labels - 1) * 0.999),
        uniform_prior_rows(scores).dense(),
    ):
        assert (prior >= 0).all()
        torch.testing.assert_close(prior.sum(-1), torch.ones(3, 2, labels))


@given(crowds, st.booleans())
def test_priors_at_cells_are_entries_of_the_dense_priors(crowd: tuple[int, list[int], int, int], naive: bool) -> None:
    votes, offsets, cells = random_crowd(*crowd)
    sources, labels = votes.shape[1], crowd[3]
    shape = len(offsets) - 1, sources, labels
    scores = random_scores(crowd[0], *shape)
    rows = uniform_prior_rows(scores) if naive else base_prior_rows(scores, g_n=4, g_r=0.1)
    scales, table = random_scores(1, *shape), random_scores(2, sources, labels, labels)
    addon = addon_prior(scales, table)
    pair, label = torch.tensor(cells.source_row), torch.tensor(cells.label).long()
    for whole, columns in (
        (rows.dense(), rows.at_cells(cells)),
        (addon, addon_prior_at(scales, table, cells)),
    ):
        flat = whole.reshape(-1, labels, labels)
        torch.testing.assert_close(columns, flat[pair, :, label].reshape(-1, labels))
    torch.testing.assert_close(addon_row_sums(scales, table), addon.sum(-1))


def test_gradients_of_priors_at_cells() -> None:
    _, _, cells = random_crowd(2, [4, 6, 2], 3, 5)
    scores = torch.rand(3, 3, 5, dtype=double) * 0.8 + 0.1
    scales, table = torch.rand(3, 3, 5, dtype=double), torch.rand(3, 5, 5, dtype=double)

    def columns(a: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        prior = base_prior_rows(a, g_n=4, g_r=0.15).at_cells(cells)
        return prior + addon_prior_at(c, table, cells), addon_row_sums(c, table)

    assert torch.autograd.gradcheck(columns, (scores.requires_grad_(), scales.requires_grad_()))


def test_gradients_are_finite_at_0_and_1() -> None:
    for exponent in (1.0, 1.5, 4.0, 60.0):
        scores = torch.tensor([[0.0, 0.0, 1.0], [1.0, 1e-20, 0.5]], requires_grad=True)
        (slope,) = torch.autograd.grad((base_prior(scores, g_n=exponent, g_r=0.01) ** 2).sum(), scores)
        assert torch.isfinite(slope).all()


def test_the_addon_prior_has_the_latent_label_first() -> None:
    scales, table = random_scores(0, 2, 5), random_scores(1, 2, 5, 5)
    prior = addon_prior(scales, table)
    for k, latent, q in product(range(2), range(5), range(5)):
        assert prior[k, latent, q] == scales[k, q] * table[k, q, latent]


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.booleans(), st.booleans())
def test_scores_are_their_definition(seed: int, sources: int, softmax: bool, without_h: bool) -> None:
    logits = torch.tensor(np.random.default_rng(seed).normal(0, 2, (2, sources, 4)))
    steepness, root = (1.0, 1.0) if without_h else (1.2, 1.5)
    found = reliability_scores(logits, h_n=steepness, h_s=root, softmax=softmax)
    for m, k, c in product(range(2), range(sources), range(4)):
        share = 1 / (1 + np.exp(-float(logits[m, k, c])))
        if c > 0 and sources > 1:
            if softmax:
                powers = np.exp(logits[m, :, c].numpy())
                share = powers[k] / powers.sum()
            if not without_h:
                share = h(share, steepness, root, 1 / sources)
        assert found[m, k, c] == pytest.approx(share, rel=1e-9)


@pytest.mark.parametrize(("steepness", "root", "sources"), PAPER)
def test_the_best_source_always_has_a_high_score(steepness: float, root: float, sources: int) -> None:
    logits = torch.randn(50, sources, 5)
    scores = reliability_scores(logits, h_n=steepness, h_s=root)
    assert ((scores > 0) & (scores < 1)).all()
    assert (scores[..., 1:].amax(-2) >= 1 / sources - 1e-6).all()


def test_labels_of_a_type_share_a_score() -> None:
    scores = torch.rand(2, 3, 5)
    found = expand_to_labels(scores, 9)
    assert found.shape == (2, 3, 9)
    for label in range(9):
        assert torch.equal(found[..., label], scores[..., (label + 1) // 2])
    assert expand_to_labels(scores, 5) is scores
    with pytest.raises(ValueError, match=r"expected 7 scores \(by label\) or 4 \(by entity type\), got 5"):
        expand_to_labels(scores, 7)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.booleans(), st.sampled_from(PAPER))
def test_reliability_logits_invert_reachable_scores(
    seed: int, sources: int, softmax: bool, how: tuple[float, float, int]
) -> None:
    logits = torch.tensor(np.random.default_rng(seed).normal(0, 1.5, (sources, 4)))
    for steepness, root in (how[:2], (1.0, 1.0)):
        options: Any = {"h_n": steepness, "h_s": root, "softmax": softmax}
        scores = reliability_scores(logits, **options)
        found = reliability_scores(reliability_logits(scores, **options), **options)
        torch.testing.assert_close(found, scores, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("total", [0.3, 2.5])
def test_unreachable_scores_are_normalized_over_the_sources(total: float) -> None:
    how: Any = {"h_n": 1.2, "h_s": 1.5, "h_r": 0.25}
    shares = total * torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=double)
    shares = shares.clamp(max=0.99)
    wanted = torch.cat([torch.full((4, 1), 0.97), scale_reliability(shares, **how)[:, None]], 1)
    found = reliability_scores(reliability_logits(wanted, **how), **how)
    torch.testing.assert_close(found[:, 0], wanted[:, 0])
    torch.testing.assert_close(unscale_reliability(found[:, 1], **how), shares / shares.sum())


@pytest.mark.parametrize("sources", [1, 3])
@pytest.mark.parametrize("softmax", [True, False])
@pytest.mark.parametrize("root", [1.0, 3.0])
def test_logits_are_finite_at_0_and_1(sources: int, softmax: bool, root: float) -> None:
    wanted = torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.5, 0.0, 0.0]])[:sources]
    logits = reliability_logits(wanted, h_n=1.2, h_s=root, softmax=softmax)
    assert logits.dtype == torch.float32
    assert torch.isfinite(logits).all()
    found = reliability_scores(logits, h_n=1.2, h_s=root, softmax=softmax)
    torch.testing.assert_close(found[:, 0], wanted[:, 0], rtol=0, atol=1e-5)
