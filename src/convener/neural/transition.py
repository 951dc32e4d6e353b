"""Transition network: initial distribution and token-dependent transitions of a hidden chain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from convener.config import Settings, check_min, check_range
from convener.neural.batch import Batch
from convener.neural.linear import linear

MIN_PROBABILITY = 1e-6
"""Lower bound of probabilities that are converted to initial logits."""
ILLEGAL_LOGIT = -20.0
"""Added to the logit of an illegal transition: a finite value.  The initial probability of such transitions is already
1e-6; below 1e-18 the scaled pass in single precision would have to check all of them."""


@dataclass(frozen=True, kw_only=True)
class ContextConfig(Settings):
    """Which features the scores of a token depend on: a group of settings of networks."""

    context_window: int = 0
    """Number of neighbours on either side whose features count, at least 0; 0 is the token alone. A neighbour
    contributes L scores, independent of the previous label, where the token itself contributes L x L transition
    logits."""
    dropout: float = 0.0
    """Fraction of the features dropped in a training step, in [0, 1); 0 switches dropout off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "context_window")
        check_range(self, "[0, 1)", "dropout")


NO_CONTEXT = ContextConfig()


class TransitionNetwork(nn.Module):
    """Initial distribution and transitions of a chain. Weights are initially zero, so that only the biases count."""

    def __init__(self, input_dim: int, num_sources: int, num_labels: int, context: ContextConfig = NO_CONTEXT) -> None:
        super().__init__()
        self.num_sources, self.num_labels, self.context = num_sources, num_labels, context
        self.initial_logits = nn.Parameter(torch.zeros(num_labels))
        self.transition_layer = zero_linear(input_dim, num_labels * num_labels)
        self.context_weight = nn.Parameter(torch.zeros(2 * context.context_window * num_labels, input_dim))
        self.register_buffer("illegal_logits", torch.zeros(num_labels * num_labels))
        self.illegal_logits: Tensor

    def log_initial(self) -> Tensor:
        """Log-probabilities of the hidden label before a sentence.  -> (L,)"""
        return self.initial_logits.log_softmax(0)

    def transition_logits(self, batch: Batch, generator: Generator | None = None) -> Tensor:
        """Logits S of the transitions Psi to each token (3.1) [previous label, label].  -> (N, L, L)

        With a generator, dropout is applied to the same features for all tokens of the batch: this costs a pass over
        the weights instead of the tokens.
        """
        weight, bias = (
            self.transition_layer.weight,
            self.transition_layer.bias + self.illegal_logits,
        )
        token_logits, context_logits = context_linear(batch, weight, bias, self.context_weight, self.context, generator)
        logits = token_logits.reshape(-1, self.num_labels, self.num_labels)
        return logits if context_logits is None else logits + context_logits[:, None]


class TokenBatch(Protocol):
    """The features of some sentences: tokens (N, D), and offsets (M+1,)."""

    @property
    def tokens(self) -> Tensor: ...
    @property
    def offsets(self) -> Tensor: ...


def context_linear(
    batch: TokenBatch,
    weight: Tensor,
    bias: Tensor,
    context_weight: Tensor,
    context: ContextConfig,
    generator: Generator | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Linear outputs of each token, and the sum of the outputs of its neighbours.

    weight (C, D), bias (C,), context_weight (2 context_window L, D) -> (N, C), and (N, L) or None without context
    """
    num_outputs = len(weight)
    if context.context_window:
        weight = torch.cat([weight, context_weight])
        bias = torch.cat([bias, bias.new_zeros(len(context_weight))])
    if generator is not None and context.dropout:
        keep_prob = 1 - context.dropout
        keep_probs = weight.new_full(weight.shape[1:], keep_prob)
        weight = weight * torch.bernoulli(keep_probs, generator=generator) / keep_prob
    output = linear(batch.tokens, weight, bias)
    if not context.context_window:
        return output, None
    sentence = torch.repeat_interleave(batch.offsets.diff())
    shifts = [shift for shift in range(-context.context_window, context.context_window + 1) if shift]
    blocks = torch.split(output[:, num_outputs:], len(context_weight) // len(shifts), dim=1)
    neighbors = [_shift_rows(block, step, sentence) for block, step in zip(blocks, shifts, strict=True)]
    return output[:, :num_outputs], sum(neighbors[1:], start=neighbors[0])


def zero_linear(in_features: int, out_features: int) -> nn.Linear:
    """A linear layer with all weights zero."""
    layer = nn.Linear(in_features, out_features)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _shift_rows(rows: Tensor, shift: int, sentence: Tensor) -> Tensor:
    """For each token the row of the token `shift` positions further in its sentence, or zeros.  -> (N, L)"""
    position = torch.arange(len(rows)) + shift
    clipped = position.clamp(0, max(0, len(rows) - 1))
    in_sentence = (position == clipped) & (sentence[clipped] == sentence)
    return rows[clipped] * in_sentence[:, None]


def floored_log(matrix: NDArray[np.float64]) -> Tensor:
    """Logarithm of probabilities, with `MIN_PROBABILITY` as lower bound."""
    return torch.from_numpy(np.log(np.maximum(matrix, MIN_PROBABILITY)))
