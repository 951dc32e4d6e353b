"""The networks of CHMM: transitions by token, and emissions by token or fixed."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Generator, Tensor
from torch.nn import functional

from convener.nets.moves import PLAIN, Look, MovesNet, silent_linear

CELLS = 1 << 24
"""Emission parameters that are computed together: tokens are taken in pieces."""


class Votes(Protocol):
    """What sources say, and what that allows."""

    @property
    def votes(self) -> Tensor: ...
    @property
    def allowed(self) -> Tensor: ...


class Words(Votes, Protocol):
    """What of a batch matters here."""

    @property
    def tokens(self) -> Tensor: ...


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
        each = zip(*pieces, strict=True)
        return torch.cat([self._evidence(x, votes, batch.allowed) for x, votes in each])

    def _evidence(self, tokens: Tensor, votes: Tensor, allowed: Tensor) -> Tensor:
        """Log emissions of what was said, summed over the sources that did not abstain."""
        logits = self.logits(tokens)
        said = votes.clamp(0, self.labels - 1).long()
        cells = logits.gather(3, said[:, :, None, None].expand(-1, -1, self.labels, 1)).squeeze(3)
        coarse = (votes >= self.labels).nonzero(as_tuple=True)
        if len(coarse[0]):
            among = allowed[votes[coarse].long()][:, None]
            cells = cells.index_put(
                coarse, logits[coarse].masked_fill(~among, -torch.inf).logsumexp(2)
            )
        cells = cells - logits.logsumexp(3)
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
        return said_evidence(self.log_emissions, batch)

    def mean_emissions(self, tokens: Tensor) -> Tensor:
        """The emissions it has, whatever the tokens.  -> (K, L, L)"""
        return self.log_emissions[:, 1:].transpose(1, 2).double().exp()


def said_evidence(log_said: Tensor, batch: Votes) -> Tensor:
    """Log emissions of what was said, summed over the sources that did not abstain.  -> (N, L)

    log_said (K, 1 + L, L), the same for every token, by what was said, abstain first.
    """
    labels = log_said.shape[2]
    coarse = [log_said[:, 1:][:, among] for among in batch.allowed[labels:]]
    wide = [log_said, *(some.logsumexp(1, keepdim=True) for some in coarse)]
    first = torch.arange(len(log_said)) * (len(batch.allowed) + 1)
    table = torch.cat(wide, 1).reshape(-1, labels)
    return functional.embedding_bag(first + 1 + batch.votes, table, mode="sum")
