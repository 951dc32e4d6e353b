"""Labels read off tokens: scores of every label, from a token and its neighbours."""

from __future__ import annotations

import torch
from torch import Generator, Tensor, nn

from convener.kernels.linear import linear
from convener.nets.crf import CRF
from convener.nets.moves import PLAIN, Line, Look, shifted


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
        weight: Tensor = self.weight
        if generator is not None and self.look.dropout:
            weight = weight * self._kept(weight.shape[1:], generator)
        # The kernel adds biases before neighbours are added up: to the token's own part alone.
        middle = self.look.context * self.outputs
        bias = weight.new_zeros(len(weight))
        bias = torch.cat([bias[:middle], self.bias, bias[:middle]])
        parts = linear(batch.tokens, weight, bias)
        sentence = torch.repeat_interleave(batch.offsets.diff())
        total = parts[:, middle : middle + self.outputs]
        for number in range(2 * self.look.context + 1):
            step = number - self.look.context
            if step:
                first = number * self.outputs
                total = total + shifted(parts[:, first : first + self.outputs], step, sentence)
        if self.top is None:
            return total
        found = torch.relu(total)
        if generator is not None and self.look.dropout:
            found = found * self._kept(found.shape, generator)
        scores: Tensor = self.top(found)
        return scores

    def _kept(self, shape: torch.Size, generator: Generator) -> Tensor:
        """What stays of some features, rescaled."""
        stays = 1 - self.look.dropout
        return torch.bernoulli(torch.full(shape, stays), generator=generator) / stays
