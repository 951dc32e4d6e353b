"""Token scorers: scores of all labels from the features of a token and its neighbours."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from convener.neural.batch import Batch
from convener.neural.crf import CRF
from convener.neural.transition import NO_CONTEXT, ContextConfig, context_linear, zero_linear


class LinearTokenScorer(nn.Module):
    """Linear scores of labels from the features of a token and its neighbours; all weights start at zero."""

    def __init__(self, input_dim: int, num_labels: int, context: ContextConfig = NO_CONTEXT) -> None:
        super().__init__()
        self.context = context
        self.linear = zero_linear(input_dim, num_labels)
        self.context_weight = nn.Parameter(torch.zeros(2 * context.context_window * num_labels, input_dim))

    def forward(self, batch: Batch, generator: Generator | None = None) -> Tensor:
        """Scores of all labels; with a generator, dropout of features, the same for all tokens.  -> (N, L)"""
        weight, bias = self.linear.weight, self.linear.bias
        token_scores, context_scores = context_linear(batch, weight, bias, self.context_weight, self.context, generator)
        return token_scores if context_scores is None else token_scores + context_scores


class TokenScorer(nn.Module):
    """Scores of labels: a linear layer, with a hidden layer below it if `hidden_size` is positive.

    The contributions of neighbours, each with its own weights, are added to that of the token. The optional `crf` over
    the scores models transitions between labels.
    """

    def __init__(
        self,
        input_dim: int,
        num_labels: int,
        context: ContextConfig = NO_CONTEXT,
        *,
        hidden_size: int = 0,
        crf: CRF | None = None,
    ) -> None:
        super().__init__()
        self.crf = crf
        self.context, self.out_features = context, hidden_size or num_labels
        self.weight = nn.Parameter(torch.zeros((2 * context.context_window + 1) * self.out_features, input_dim))
        self.bias = nn.Parameter(torch.zeros(self.out_features))
        self.output_layer = nn.Linear(hidden_size, num_labels) if hidden_size else None
        if self.output_layer is not None:
            # As for one layer over the concatenated features of the token and its neighbours.
            nn.init.normal_(self.weight, std=(input_dim * (2 * context.context_window + 1)) ** -0.5)
            nn.init.zeros_(self.output_layer.weight)
            nn.init.zeros_(self.output_layer.bias)

    def scores(self, batch: Batch, generator: Generator | None = None) -> Tensor:
        """Scores of all labels; with a generator, dropout is applied.  -> (N, L)"""
        size, context_rows = self.out_features, self.context.context_window * self.out_features
        left, center, right = torch.split(self.weight, [context_rows, size, context_rows])
        context_weight = torch.cat([left, right])
        output, context_scores = context_linear(batch, center, self.bias, context_weight, self.context, generator)
        output = output if context_scores is None else output + context_scores
        if self.output_layer is None:
            return output
        hidden = torch.relu(output)
        if generator is not None and self.context.dropout:
            keep_prob = 1 - self.context.dropout
            hidden = hidden * torch.bernoulli(torch.full_like(hidden, keep_prob), generator=generator)
            hidden = hidden / keep_prob
        scores: Tensor = self.output_layer(hidden)
        return scores
