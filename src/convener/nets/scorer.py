"""Scores of labels, read off the features of each token."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from convener.nets.moves import PLAIN, Line, Look, looked, silent_linear


class Scorer(nn.Module):
    """A token's labels by its features and its neighbours'; zero until it is told otherwise."""

    def __init__(self, width: int, labels: int, look: Look = PLAIN) -> None:
        super().__init__()
        self.look = look
        self.own = silent_linear(width, labels)
        self.around = nn.Parameter(torch.zeros(2 * look.context * labels, width))

    def forward(self, batch: Line, generator: Generator | None = None) -> Tensor:
        """With a generator some features are left out, the same for all tokens.  -> (N, L)"""
        weight, bias = self.own.weight, self.own.bias
        own, beside = looked(batch, weight, bias, self.around, self.look, generator)
        return own if beside is None else own + beside
