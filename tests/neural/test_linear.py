"""The linear layer for few outputs, compared with torch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from convener.neural.linear import linear


def random_inputs(rows: int, width: int, outputs: int, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(rows + 31 * outputs)
    shapes = (rows, width), (outputs, width), (outputs,)
    return [torch.randn(x, generator=generator, dtype=dtype, requires_grad=True) for x in shapes]


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 67), st.sampled_from(["single", "double"]))
def test_values_and_gradients_match_torch(rows: int, width: int, outputs: int, precision: str) -> None:
    given = random_inputs(rows, width, outputs, getattr(torch, {"single": "float"}.get(precision, "double")))
    weights = torch.randn(rows, outputs, dtype=given[0].dtype)
    results = []
    for layer in (linear, functional.linear):
        out = layer(*given)
        assert out.shape == (rows, outputs)
        results.append((out, *torch.autograd.grad((out * weights).sum(), given)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_gradcheck() -> None:
    assert torch.autograd.gradcheck(linear, random_inputs(7, 5, 4, torch.float64))


def test_rows_without_requires_grad_get_no_gradient() -> None:
    rows, weight, bias = random_inputs(9, 5, 4, torch.float64)
    linear(rows.detach(), weight, bias).sum().backward()
    assert rows.grad is None
    torch.testing.assert_close(bias.grad, torch.full((4,), 9.0, dtype=torch.float64))


@pytest.fixture
def threads() -> object:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_a_row_does_not_depend_on_others_or_on_threads(threads) -> None:  # type: ignore[no-untyped-def]
    """Results are equal bit for bit."""
    rows, weight, bias = random_inputs(9000, 24, 25, torch.float32)
    results = []
    for number in (1, 2):
        threads(number)
        out = linear(rows, weight, bias)
        (slope,) = torch.autograd.grad(out.square().sum(), weight)
        results.append((out, slope))
    assert all(torch.equal(one, two) for one, two in zip(*results, strict=True))
    out = results[0][0]
    assert torch.equal(linear(rows[4097:4107], weight, bias), out[4097:4107])
