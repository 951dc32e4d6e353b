"""Scores of labels, read off the features of each token."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from convener.nets.moves import NO_CONTEXT, ContextConfig, TokenBatch, context_linear, zero_linear


class LinearTokenScorer(nn.Module):
    """A token's labels by its features and its neighbours'; zero until it is told otherwise."""

    def __init__(self, input_dim: int, num_labels: int, context: ContextConfig = NO_CONTEXT) -> None:
        super().__init__()
        self.context = context
        self.linear = zero_linear(input_dim, num_labels)
        self.context_weight = nn.Parameter(torch.zeros(2 * context.context_window * num_labels, input_dim))

    def forward(self, batch: TokenBatch, generator: Generator | None = None) -> Tensor:
        """With a generator some features are left out, the same for all tokens.  -> (N, L)"""
        weight, bias = self.linear.weight, self.linear.bias
        token_scores, context_scores = context_linear(batch, weight, bias, self.context_weight, self.context, generator)
        return token_scores if context_scores is None else token_scores + context_scores
