"""Labels read off tokens: scores of every label, from a token and its neighbours."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from convener.nets.crf import CRF
from convener.nets.moves import PLAIN, Line, Look, looked


class TokenNet(nn.Module):
    """Scores of labels: a linear layer, or with a hidden width one hidden layer below it.

    What a neighbour says is added to what a token says of itself, each by weights of its own. A
    field over them, `crf`, says which label follows which.
    """

    def __init__(
        self,
        width: int,
        labels: int,
        look: Look = PLAIN,
        *,
        hidden: int = 0,
        crf: CRF | None = None,
    ) -> None:
        super().__init__()
        self.crf = crf
        self.look, self.outputs = look, hidden or labels
        self.weight = nn.Parameter(torch.zeros((2 * look.context + 1) * self.outputs, width))
        self.bias = nn.Parameter(torch.zeros(self.outputs))
        self.top = nn.Linear(hidden, labels) if hidden else None
        if self.top is not None:
            # As if all neighbours were one layer: their number is part of its width.
            nn.init.normal_(self.weight, std=(width * (2 * look.context + 1)) ** -0.5)
            nn.init.zeros_(self.top.weight)
            nn.init.zeros_(self.top.bias)

    def scores(self, batch: Line, generator: Generator | None = None) -> Tensor:
        """Scores of all labels at every token; with a generator some features are left out.

        -> (N, L)
        """
        size, middle = self.outputs, self.look.context * self.outputs
        before, own, behind = torch.split(self.weight, [middle, size, middle])
        around = torch.cat([before, behind])
        total, beside = looked(batch, own, self.bias, around, self.look, generator)
        total = total if beside is None else total + beside
        if self.top is None:
            return total
        found = torch.relu(total)
        if generator is not None and self.look.dropout:
            stays = 1 - self.look.dropout
            found = found * torch.bernoulli(torch.full_like(found, stays), generator=generator)
            found = found / stays
        scores: Tensor = self.top(found)
        return scores
