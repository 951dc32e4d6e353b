"""Gradients of the partition function of segmentations."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from convener.inference.semi_markov_autograd import segment_log_partition
from tests.oracles.semi_markov import random_potentials


def test_gradients_of_the_partition_function_of_segmentations() -> None:
    potentials, offsets = random_potentials(np.random.default_rng(0), [3, 0, 4], 2)
    inputs = [torch.tensor(x).requires_grad_() for x in potentials[:4]]
    for reduce in (torch.Tensor.clone, torch.sum):

        def value(*x: torch.Tensor, reduce: Any = reduce) -> torch.Tensor:
            total = segment_log_partition(*x, potentials.evidence, torch.tensor(offsets))
            return reduce(total)  # type: ignore[no-any-return]

        assert torch.autograd.gradcheck(value, inputs)


def test_the_partition_function_keeps_single_precision() -> None:
    potentials, offsets = random_potentials(np.random.default_rng(0), [3, 2], 1)
    inputs = [torch.tensor(x, dtype=torch.float32).requires_grad_() for x in potentials[:4]]
    value = segment_log_partition(*inputs, potentials.evidence, torch.tensor(offsets))
    value.sum().backward()
    assert value.dtype == torch.float32
    assert all(x.grad is not None and x.grad.dtype == torch.float32 for x in inputs)
