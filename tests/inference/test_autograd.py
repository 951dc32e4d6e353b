from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convener.inference import autograd, chain
from convener.inference._log_pass import IMPOSSIBLE
from tests.inference.chain_oracle import Chain, chains, random_chain
from tests.oracles.chain import chain_objective_reference

quick = settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))


def tensors(batch: Chain) -> tuple[torch.Tensor, ...]:
    inputs = [torch.tensor(x).requires_grad_() for x in batch.arrays[:3]]
    return (*inputs, torch.tensor(batch.offsets))


@pytest.mark.parametrize("tau", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("labels", [2, 3])
def test_gradcheck(tau: float, constant: bool, labels: int) -> None:
    *inputs, offsets = tensors(random_chain(labels, labels, [3, 0, 1, 4], constant=constant))
    for reduce in (torch.Tensor.clone, torch.sum):

        def value(*x: torch.Tensor, reduce: Any = reduce) -> torch.Tensor:
            return reduce(autograd.chain_objective(*x, offsets, tau=tau)[0])  # type: ignore[no-any-return]

        assert torch.autograd.gradcheck(value, inputs)


@quick
@given(chains(np.float64, 100.0), st.sampled_from([0.0, 0.4, 1.0]))
def test_kernel_and_reference_agree(batch: Chain, tau: float) -> None:
    *inputs, offsets = tensors(batch)
    weights = torch.linspace(-1, 2, len(offsets) - 1, dtype=torch.float64)
    ours, flags = autograd.chain_objective(*inputs, offsets, tau=tau)
    reference, _ = chain_objective_reference(*inputs, offsets, tau=tau)
    torch.testing.assert_close(ours, reference, rtol=1e-9, atol=1e-9)
    a = torch.autograd.grad((ours * weights).sum(), inputs)
    b = torch.autograd.grad((reference * weights).sum(), inputs, materialize_grads=True)
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, torch.nan_to_num(y), rtol=1e-8, atol=1e-6)
    assert flags.dtype == torch.uint8


def test_float32_gradients_are_those_of_the_kernel() -> None:
    batch = random_chain(1, 5, [6, 0, 9], dtype=np.float32)
    *inputs, offsets = tensors(batch)
    value, _ = autograd.chain_objective(*inputs, offsets, tau=1.0, num_threads=2)
    assert value.dtype == torch.float32
    (-value.mean()).backward()
    expected = chain.chain_objective(*batch.arrays, tau=1.0).grad_transition / -3
    np.testing.assert_allclose(inputs[1].grad.numpy(), expected, rtol=1e-6)


def test_impossible_sentences_are_flagged_by_kernel_and_reference() -> None:
    batch = random_chain(1, 3, [3, 2])
    batch.log_like[1] = -np.inf
    *inputs, offsets = tensors(batch)
    for kernel in (autograd.chain_objective, chain_objective_reference):
        value, flags = kernel(*inputs, offsets)
        assert flags.tolist() == [IMPOSSIBLE, 0]
        assert torch.isfinite(value).all()
