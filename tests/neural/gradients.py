"""Checks of the objective of a network: gradients of all weights, and the reference objective."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from convener.models.neural_chain import chain_loss
from convener.neural.batch import Batch
from tests.oracles.chain import chain_objective_reference


class _ValueModule(torch.nn.Module):
    """A function of a network as a module, so that its weights can be replaced."""

    def __init__(self, net: Any, value: Callable[[], Tensor]) -> None:
        super().__init__()
        self.net, self.value = net, value

    def forward(self) -> Tensor:
        return self.value()


def gradient_by_weights_is_right(net: Any, value: Callable[[], Tensor], **options: Any) -> bool:
    """Whether the gradient of a value with respect to all weights matches finite differences."""
    module = _ValueModule(net, value)
    names = [name for name, _ in module.named_parameters()]

    def value_of(*weights: Tensor) -> Tensor:
        given = dict(zip(names, weights, strict=True))
        found: Tensor = torch.func.functional_call(module, given, ())
        return found

    weights = tuple(p.detach().clone().requires_grad_() for p in module.parameters())
    return torch.autograd.gradcheck(value_of, weights, **options)


def gradient_is_right(net: Any, batch: Batch, tau: float, **options: Any) -> bool:
    """Whether the gradient of the chain objective with respect to all weights matches finite differences."""
    loss = chain_loss(net, tau, sample=False)
    return gradient_by_weights_is_right(net, lambda: loss(batch, torch.Generator()), **options)


def assert_loss_equals_the_reference(net: Any, batch: Batch) -> None:
    for tau in (0.0, 1.0):
        with torch.no_grad():
            ours = chain_loss(net, tau, sample=False)(batch, torch.Generator())
            value, _ = chain_objective_reference(
                net.log_initial(),
                net.transition_logits(batch),
                net.log_evidence(batch),
                batch.offsets,
                tau=tau,
            )
        torch.testing.assert_close(ours, -value.mean())
