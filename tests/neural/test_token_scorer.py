"""The token scorer, compared with a loop over tokens."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from convener.neural.scorer import TokenScorer
from convener.neural.transition import ContextConfig


@dataclass
class Line:
    tokens: Tensor
    offsets: Tensor


LINE = Line(torch.randn(9, 4, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 3, 3, 4, 9]))


def filled(net: TokenScorer) -> TokenScorer:
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return net


@pytest.mark.parametrize("context", [0, 1, 2])
@pytest.mark.parametrize("hidden", [0, 5])
def test_scores_equal_a_loop_over_tokens(context: int, hidden: int) -> None:
    net = filled(TokenScorer(4, 3, ContextConfig(context_window=context), hidden_size=hidden))
    outputs = hidden or 3
    found = net.scores(LINE)
    for start, end in zip(LINE.offsets[:-1].tolist(), LINE.offsets[1:].tolist(), strict=True):
        for token in range(start, end):
            total = net.bias.clone()
            for number, step in enumerate(range(-context, context + 1)):
                if start <= token + step < end:
                    weight = net.weight[number * outputs : (number + 1) * outputs]
                    total = total + weight @ LINE.tokens[token + step]
            if net.output_layer is not None:
                total = net.output_layer(torch.relu(total))
            torch.testing.assert_close(found[token], total)


def test_dropout_keeps_the_mean() -> None:
    net = filled(TokenScorer(4, 3, ContextConfig(dropout=0.3), hidden_size=0))
    generator = torch.Generator().manual_seed(3)
    mean = torch.stack([net.scores(LINE, generator) for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, net.scores(LINE), atol=0.1, rtol=0.1)


def test_dropout_of_the_hidden_layer_differs_by_token() -> None:
    net = filled(TokenScorer(4, 3, ContextConfig(dropout=0.5), hidden_size=64))
    same = Line(torch.ones(2, 4), torch.tensor([0, 1, 2]))
    one, two = net.scores(same, torch.Generator().manual_seed(1))
    assert not torch.equal(one, two)
    torch.testing.assert_close(*net.scores(same))


def test_gradients_reach_every_weight() -> None:
    net = filled(TokenScorer(4, 3, ContextConfig(context_window=1), hidden_size=5))
    net.scores(LINE).square().sum().backward()
    assert all(bool(weight.grad is not None and weight.grad.any()) for weight in net.parameters())
