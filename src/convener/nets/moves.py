"""What the networks of all chains share: the start and the moves."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from convener.kernels.linear import linear

NEVER = -20.0
"""Added to the logit of a move that is not allowed: a finite floor.  The start makes such moves
1e-6 likely already; below 1e-18 the chain in single precision has to watch them all the time.
"""


class MovesNet(nn.Module):
    """The start and the moves of a chain; weights start at zero, so that biases alone speak."""

    def __init__(self, width: int, sources: int, labels: int) -> None:
        super().__init__()
        self.sources, self.labels = sources, labels
        self.initial = nn.Parameter(torch.zeros(labels))
        self.transition = silent_linear(width, labels * labels)
        self.register_buffer("floor", torch.zeros(labels * labels))
        self.floor: Tensor

    def log_initial(self) -> Tensor:
        """Log-probabilities of the hidden label before a sentence.  -> (L,)"""
        return self.initial.log_softmax(0)

    def moves(self, tokens: Tensor) -> Tensor:
        """Logits of the moves to each token's label.  (N, D) -> (N, L, L)"""
        bias = self.transition.bias + self.floor
        logits = linear(tokens, self.transition.weight, bias)
        return logits.view(-1, self.labels, self.labels)


def silent_linear(width: int, columns: int) -> nn.Linear:
    """A linear layer that gives zero until it is told otherwise."""
    layer = nn.Linear(width, columns)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
