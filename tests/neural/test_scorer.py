"""The linear token scorer, compared with a loop over tokens."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from convener.neural.scorer import LinearTokenScorer
from convener.neural.transition import ContextConfig
from tests.neural.test_transition import LABELS, WIDTH, batch_of


def scorer_of(context: int, dropout: float = 0.0) -> LinearTokenScorer:
    torch.manual_seed(5)
    scorer = LinearTokenScorer(WIDTH, LABELS, ContextConfig(context_window=context, dropout=dropout)).double()
    for parameter in scorer.parameters():
        torch.nn.init.normal_(parameter)
    return scorer


@pytest.mark.parametrize("context", [0, 1, 2])
@given(lengths=st.lists(st.integers(0, 6), max_size=5))
def test_scores_sum_over_a_token_and_its_neighbours(context: int, lengths: list[int]) -> None:
    scorer, batch = scorer_of(context), batch_of(lengths)
    found = scorer(batch)
    assert found.shape == (sum(lengths), LABELS)
    around = scorer.context_weight.view(2 * context, LABELS, WIDTH)
    steps = [step for step in range(-context, context + 1) if step]
    for first, last in zip(batch.offsets, batch.offsets[1:], strict=False):
        for t in range(first, last):
            expected = scorer.linear(batch.tokens[t])
            for number, step in enumerate(steps):
                if first <= t + step < last:
                    expected = expected + around[number] @ batch.tokens[t + step]
            torch.testing.assert_close(found[t], expected)


def test_initial_scores_are_zero() -> None:
    batch = batch_of([3, 2])
    assert not LinearTokenScorer(WIDTH, LABELS, ContextConfig(context_window=1)).double()(batch).any()


def test_dropout_needs_a_generator() -> None:
    scorer, batch = scorer_of(1, dropout=0.5), batch_of([5, 2])
    expected = scorer(batch)
    torch.testing.assert_close(scorer(batch), expected)
    drawn = scorer(batch, torch.Generator().manual_seed(0))
    assert not torch.allclose(drawn, expected)
