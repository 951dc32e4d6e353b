"""Expected cross-entropy, compared with closed forms and torch."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from convener.neural.losses import expected_cross_entropy


@given(st.integers(0, 1 << 30), st.integers(1, 20), st.integers(2, 7))
def test_one_hot_labels_give_the_weighted_cross_entropy_of_torch(seed: int, n: int, size: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, size, generator=generator, dtype=torch.float64)
    weights = torch.rand(size, generator=generator, dtype=torch.float64) + 0.1
    labels = torch.randint(size, (n,), generator=generator)
    found = expected_cross_entropy(scores, functional.one_hot(labels, size).double(), weights)
    torch.testing.assert_close(found, functional.cross_entropy(scores, labels, weights))


@given(st.integers(0, 1 << 30), st.integers(1, 9), st.integers(2, 5))
def test_it_is_the_mean_over_labels_drawn_from_label_probs(seed: int, n: int, size: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, size, generator=generator, dtype=torch.float64)
    shares = torch.rand(n, size, generator=generator, dtype=torch.float64).softmax(1)
    ones = torch.ones(size, dtype=torch.float64)
    found = expected_cross_entropy(scores, shares, ones)
    total = torch.zeros((), dtype=torch.float64)
    for token in range(n):
        for label in range(size):
            total -= shares[token, label] * scores[token].softmax(0)[label].log()
    torch.testing.assert_close(found, total / n)


def test_the_closed_form_of_two_labels() -> None:
    # s = (0, log 3): p = (1/4, 3/4); q = (1/2, 1/2): -(log 1/4 + log 3/4) / 2.
    scores = torch.tensor([[0.0, torch.log(torch.tensor(3.0))]])
    found = expected_cross_entropy(scores, torch.full((1, 2), 0.5), torch.ones(2))
    torch.testing.assert_close(found, -(torch.tensor(3 / 16).log()) / 2)


def test_a_token_with_zero_label_probs_has_no_gradient() -> None:
    scores = torch.zeros(2, 3, requires_grad=True)
    shares = torch.tensor([[1 / 3] * 3, [0.8, 0.1, 0.1]])
    expected_cross_entropy(scores, shares, torch.ones(3)).backward()
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad[0], torch.zeros(3))
    assert scores.grad[1].abs().sum() > 0.1


def test_the_loss_of_no_tokens_is_zero() -> None:
    scores = torch.zeros(0, 3, requires_grad=True)
    loss = expected_cross_entropy(scores, torch.zeros(0, 3), torch.ones(3))
    loss.backward()
    assert float(loss.detach()) == 0
