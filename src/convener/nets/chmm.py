"""The networks of CHMM: transitions by token, and emissions by token or fixed."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Generator, Tensor
from torch.nn import functional

from convener.nets.moves import PLAIN, Look, MovesNet, silent_linear

CELLS = 1 << 24
"""Emission parameters that are computed together: tokens are taken in pieces."""


class Words(Protocol):
    """What of a batch matters here."""

    @property
    def tokens(self) -> Tensor: ...
    @property
    def votes(self) -> Tensor: ...


class CHMMNet(MovesNet):
    """Every token has its own emissions: L x L for each source."""

    def __init__(self, width: int, sources: int, labels: int, look: Look = PLAIN) -> None:
        super().__init__(width, sources, labels, look)
        self.emission = silent_linear(width, sources * labels * labels)

    @property
    def piece(self) -> int:
        """Tokens whose emissions are computed together."""
        return max(1, CELLS // max(1, self.emission.out_features))

    def set_emissions(self, log_emissions: Tensor) -> None:
        """Start from these emissions.  (K, L, L) [source, latent, said]"""
        self.emission.bias.copy_(log_emissions.reshape(-1))

    def logits(self, tokens: Tensor) -> Tensor:
        """Logits of the emissions.  (n, D) -> (n, K, L, L) [token, source, latent, said]"""
        logits: Tensor = self.emission(tokens)
        return logits.view(-1, self.sources, self.labels, self.labels)

    def log_like(self, batch: Words, generator: Generator | None = None) -> Tensor:
        """Log evidence; nothing is drawn.  -> (N, L)"""
        pieces = (torch.split(x, self.piece) for x in (batch.tokens, batch.votes))
        return torch.cat([self._evidence(*piece) for piece in zip(*pieces, strict=True)])

    def _evidence(self, tokens: Tensor, votes: Tensor) -> Tensor:
        """Log emissions of what was said, summed over the sources that did not abstain."""
        logits = self.logits(tokens)
        said = votes.clamp(min=0).long()[:, :, None, None].expand(-1, -1, self.labels, 1)
        cells = logits.gather(3, said).squeeze(3) - logits.logsumexp(3)
        return cells.where((votes >= 0)[:, :, None], cells.new_zeros(())).sum(1)

    def mean_emissions(self, tokens: Tensor) -> Tensor:
        """Emissions averaged over tokens, of the biases alone if there are none.  -> (K, L, L)"""
        with torch.no_grad():
            if not len(tokens):
                shape = self.sources, self.labels, self.labels
                return self.emission.bias.view(shape).softmax(2).double()
            parts = torch.split(tokens, self.piece)
            total = sum(self.logits(part).softmax(3).sum(0, dtype=torch.float64) for part in parts)
        return torch.as_tensor(total) / len(tokens)


class FixedNet(MovesNet):
    """Emissions that are known: the same for every token, and not trained."""

    def __init__(self, width: int, sources: int, labels: int, look: Look = PLAIN) -> None:
        super().__init__(width, sources, labels, look)
        # By what was said, abstain first, which is no evidence: its row stays zero.
        self.register_buffer("log_emissions", torch.zeros(sources, labels + 1, labels))
        self.log_emissions: Tensor

    def set_emissions(self, log_emissions: Tensor) -> None:
        """Take these emissions.  (K, L, L) [source, latent, said]"""
        self.log_emissions[:, 1:] = log_emissions.log_softmax(2).transpose(1, 2)

    def log_like(self, batch: Words, generator: Generator | None = None) -> Tensor:
        """Log evidence; nothing is drawn.  -> (N, L)"""
        first = torch.arange(self.sources) * (self.labels + 1)
        table = self.log_emissions.reshape(-1, self.labels)
        return functional.embedding_bag(first + 1 + batch.votes, table, mode="sum")

    def mean_emissions(self, tokens: Tensor) -> Tensor:
        """The emissions it has, whatever the tokens.  -> (K, L, L)"""
        return self.log_emissions[:, 1:].transpose(1, 2).double().exp()
