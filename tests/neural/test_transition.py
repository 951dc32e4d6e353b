"""The transition network with context, compared with a loop over tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from convener.neural.transition import ContextConfig, TransitionNetwork

WIDTH, LABELS = 4, 3


def net_of(context: int, dropout: float = 0.0) -> TransitionNetwork:
    torch.manual_seed(5)
    net = TransitionNetwork(WIDTH, 2, LABELS, ContextConfig(context_window=context, dropout=dropout)).double()
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter)
    return net


def batch_of(lengths: list[int]) -> Any:
    torch.manual_seed(6)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    return SimpleNamespace(tokens=torch.randn(int(offsets[-1]), WIDTH).double(), offsets=offsets)


@pytest.mark.parametrize("context", [0, 1, 2])
@given(lengths=st.lists(st.integers(0, 6), max_size=5))
def test_neighbours_of_the_same_sentence_contribute_to_logits(context: int, lengths: list[int]) -> None:
    net, batch = net_of(context), batch_of(lengths)
    found = net.transition_logits(batch)
    assert found.shape == (sum(lengths), LABELS, LABELS)
    context_weight = net.context_weight.view(2 * context, LABELS, WIDTH)
    steps = [step for step in range(-context, context + 1) if step]
    for first, last in zip(batch.offsets, batch.offsets[1:], strict=False):
        for t in range(first, last):
            expected = net.transition_layer(batch.tokens[t]).view(LABELS, LABELS).clone()
            for number, step in enumerate(steps):
                if first <= t + step < last:
                    expected += context_weight[number] @ batch.tokens[t + step]
            torch.testing.assert_close(found[t], expected)


def test_context_weights_have_a_gradient() -> None:
    net, batch = net_of(2), batch_of([4, 1, 3])

    def value(context_weight: torch.Tensor) -> torch.Tensor:
        given = {"context_weight": context_weight}
        return torch.func.functional_call(_TransitionModule(net, batch), _named(given), ())

    assert torch.autograd.gradcheck(value, (net.context_weight.detach().clone().requires_grad_(),))


class _TransitionModule(torch.nn.Module):
    def __init__(self, net: TransitionNetwork, batch: Any) -> None:
        super().__init__()
        self.net, self.batch = net, batch

    def forward(self) -> torch.Tensor:
        return self.net.transition_logits(self.batch).softmax(-1)


def _named(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {f"net.{name}": weight for name, weight in weights.items()}


def test_dropout_is_equal_for_all_tokens_and_needs_a_generator() -> None:
    net, batch = net_of(0, dropout=0.5), batch_of([40])
    with torch.no_grad():
        expected = net.transition_logits(batch)
        torch.testing.assert_close(net.transition_logits(batch), expected)
        weight, plain = net.transition_layer.weight.clone(), net_of(0)
        seen = set()
        for seed in range(40):
            drawn = net.transition_logits(batch, torch.Generator().manual_seed(seed))
            for stays in range(1 << WIDTH):
                mask = torch.tensor([bool(stays >> bit & 1) for bit in range(WIDTH)])
                plain.transition_layer.weight.copy_(weight * mask * 2)
                if torch.allclose(plain.transition_logits(batch), drawn):
                    seen.add(stays)
                    break
            else:
                pytest.fail("no subset of features gives these logits")
    assert len(seen) > 8


def test_dropout_keeps_the_mean() -> None:
    net, batch = net_of(1, dropout=0.5), batch_of([5, 2])
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        mean = torch.stack([net.transition_logits(batch, generator) for _ in range(4000)]).mean(0)
        torch.testing.assert_close(mean, net.transition_logits(batch), atol=0.5, rtol=0)
