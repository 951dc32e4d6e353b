"""What the networks of all chains share: the start and the moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from convener.kernels.linear import linear

NEVER = -20.0
"""Added to the logit of a move that is not allowed: a finite floor.  The start makes such moves
1e-6 likely already; below 1e-18 the chain in single precision has to watch them all the time.
"""


class Line(Protocol):
    """What of a batch matters here."""

    @property
    def tokens(self) -> Tensor: ...
    @property
    def offsets(self) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class Look:
    """What of the features moves depend on."""

    context: int = 0
    """Neighbours on either side that are seen, too. They speak of a token's label only, whatever
    the label before it: L outputs for each neighbour, where a token itself has L x L."""
    dropout: float = 0.0
    """Share of the features that a training step leaves out."""


PLAIN = Look()


class MovesNet(nn.Module):
    """The start and the moves of a chain; weights start at zero, so that biases alone speak."""

    def __init__(self, width: int, sources: int, labels: int, look: Look = PLAIN) -> None:
        super().__init__()
        self.sources, self.labels, self.look = sources, labels, look
        self.initial = nn.Parameter(torch.zeros(labels))
        self.transition = silent_linear(width, labels * labels)
        self.around = nn.Parameter(torch.zeros(2 * look.context * labels, width))
        self.register_buffer("floor", torch.zeros(labels * labels))
        self.floor: Tensor

    def log_initial(self) -> Tensor:
        """Log-probabilities of the hidden label before a sentence.  -> (L,)"""
        return self.initial.log_softmax(0)

    def moves(self, batch: Line, generator: Generator | None = None) -> Tensor:
        """Logits of the moves to each token's label.  -> (N, L, L)

        With a generator some features are left out, the same for all tokens of the batch: that
        costs a pass over the weights, not over the tokens.
        """
        weight, bias = self.transition.weight, self.transition.bias + self.floor
        own, beside = looked(batch, weight, bias, self.around, self.look, generator)
        moves = own.reshape(-1, self.labels, self.labels)
        return moves if beside is None else moves + beside[:, None]


def looked(
    batch: Line,
    weight: Tensor,
    bias: Tensor,
    around: Tensor,
    look: Look,
    generator: Generator | None = None,
) -> tuple[Tensor, Tensor | None]:
    """What the features say at each token, and what those of its neighbours say there.

    weight (C, D), bias (C,), around (2 context L, D) -> (N, C), and (N, L) if there is context
    """
    columns = len(weight)
    if look.context:
        weight = torch.cat([weight, around])
        bias = torch.cat([bias, bias.new_zeros(len(around))])
    if generator is not None and look.dropout:
        stays = 1 - look.dropout
        chances = weight.new_full(weight.shape[1:], stays)
        weight = weight * torch.bernoulli(chances, generator=generator) / stays
    found = linear(batch.tokens, weight, bias)
    if not look.context:
        return found, None
    sentence = torch.repeat_interleave(batch.offsets.diff())
    steps = [step for step in range(-look.context, look.context + 1) if step]
    parts = torch.split(found[:, columns:], len(around) // len(steps), dim=1)
    beside = [_shifted(part, step, sentence) for part, step in zip(parts, steps, strict=True)]
    return found[:, :columns], sum(beside[1:], start=beside[0])


def silent_linear(width: int, columns: int) -> nn.Linear:
    """A linear layer that gives zero until it is told otherwise."""
    layer = nn.Linear(width, columns)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def _shifted(rows: Tensor, step: int, sentence: Tensor) -> Tensor:
    """For each token the row of the one `step` further in its sentence, or zero.  -> (N, L)"""
    place = torch.arange(len(rows)) + step
    there = place.clamp(0, max(0, len(rows) - 1))
    inside = (place == there) & (sentence[there] == sentence)
    return rows[there] * inside[:, None]
