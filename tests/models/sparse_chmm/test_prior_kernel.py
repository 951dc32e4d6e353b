"""The compiled base prior against the reference in torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from convener.errors import ConfigError
from convener.models.sparse_chmm.prior import SparsePrior
from convener.models.sparse_chmm.prior_kernel import base_prior_at, prior_rows
from tests.inference.test_vote_cells import crowds, random_crowd

# h_n, h_s: two pairs of the paper, one without h, and one with infinite slopes.
SCALINGS = [(1.2, 1.5), (0.8, 1.5), (1.0, 1.0), (3.0, 0.5)]
priors = st.builds(
    lambda scaling, g_n, softmax, expansion: SparsePrior(
        h_n=scaling[0], h_s=scaling[1], g_n=g_n, softmax=softmax, expansion=expansion
    ),
    st.sampled_from(SCALINGS),
    st.sampled_from([1.0, 1.5, 4.0]),
    st.booleans(),
    st.booleans(),
)
PRIOR = SparsePrior(h_n=1.2, h_s=1.5, g_n=4.0)


@given(crowds, priors, st.floats(0.01, 1), st.booleans(), st.sampled_from([0.5, 4.0, 40.0]))
def test_values_and_gradients_equal_the_reference(
    crowd: tuple[int, list[int], int, int],
    prior: SparsePrior,
    share: float,
    by_type: bool,
    spread: float,
) -> None:
    seed, lengths, sources, labels = crowd
    sources = max(sources, 1)
    _, _, cells = random_crowd(seed, lengths, sources, labels)
    g_r = share / (labels - 1)
    size = labels // 2 + 1 if by_type else labels
    chance = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(lengths), sources, size, generator=chance, dtype=torch.float64).mul_(spread)
    for dtype, near in ((torch.float64, 1e-9), (torch.float32, 1e-4)):
        given = logits.to(dtype).requires_grad_()
        weights = torch.randn(len(cells.label), labels, dtype=dtype)
        results = []
        for found in (
            base_prior_at(given, labels, cells, prior, g_r),
            prior_rows(given, labels, prior, g_r).at_cells(cells),
        ):
            assert found.dtype == dtype
            (slope,) = torch.autograd.grad((found * weights).sum(), given)
            results.append((found, slope))
        (ours, slope), (reference, reference_slope) = results
        torch.testing.assert_close(ours, reference, rtol=near, atol=near)
        assert torch.isfinite(slope).all()
        if dtype == torch.float64:
            torch.testing.assert_close(slope, reference_slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("sources", [1, 4])
@pytest.mark.parametrize(("softmax", "expansion"), [(True, True), (False, True), (True, False)])
def test_gradcheck(size: int, sources: int, softmax: bool, expansion: bool) -> None:
    _, _, cells = random_crowd(2, [4, 0, 6, 2], sources, 5)
    prior = replace(PRIOR, softmax=softmax, expansion=expansion)
    logits = torch.randn(4, sources, size, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: base_prior_at(x, 5, cells, prior, 0.2), logits)


def test_a_slice_of_sentences_has_the_same_values() -> None:
    _, _, cells = random_crowd(6, [4, 0, 5, 7, 3], 3, 5)
    logits = torch.randn(5, 3, 3)
    whole = base_prior_at(logits, 5, cells, PRIOR, 0.1)
    first, last = cells.cell_offsets[2 * 3], cells.cell_offsets[4 * 3]
    assert torch.equal(base_prior_at(logits[2:4], 5, cells[2:4], PRIOR, 0.1), whole[first:last])


def test_invalid_parameters_raise_an_error() -> None:
    _, _, cells = random_crowd(6, [4], 3, 5)
    logits = torch.randn(1, 3, 5)
    with pytest.raises(ValueError, match=r"g_r=0\.9 makes g negative"):
        base_prior_at(logits, 5, cells, PRIOR, 0.9)
    with pytest.raises(ConfigError, match="h_n must be in"):
        SparsePrior(h_n=0.0)
    with pytest.raises(ValueError, match=r"expected 5 scores \(by label\) or 3 \(by entity type\), got 4"):
        base_prior_at(logits[..., :4], 5, cells, PRIOR, 0.1)
