"""The network of DWS: a conditional random field over the truth, and sources that report it."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from convener.nets.chmm import Votes, said_evidence
from convener.nets.crf import CRF, Chain, begin, chain_of
from convener.nets.moves import PLAIN, Line, Look
from convener.nets.scorer import Scorer


class Heard(Line, Votes, Protocol):
    """What of a batch matters here."""


class DWSNet(nn.Module):
    """Scores by token, a field over them, and one matrix of emissions for each source."""

    def __init__(self, width: int, sources: int, crf: CRF, look: Look = PLAIN) -> None:
        super().__init__()
        labels = len(crf.start)
        self.scorer, self.crf = Scorer(width, labels, look), crf
        self.emission = nn.Parameter(torch.zeros(sources, labels, labels))

    def field(self, batch: Line, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """Scores (N, L) and moves (L, L) of p(z | features)."""
        return self.crf.field(self.scorer(batch, generator), batch.offsets)

    def evidence(self, batch: Heard) -> Tensor:
        """Log emissions of what was said, summed over sources that did not abstain.  -> (N, L)"""
        said = self.emission.log_softmax(2).transpose(1, 2)
        return said_evidence(torch.cat([torch.zeros_like(said[:, :1]), said], 1), batch)

    def mean_emissions(self, tokens: Tensor) -> Tensor:
        """The emissions, whatever the tokens.  -> (K, L, L)"""
        return self.emission.detach().double().softmax(2)

    def log_initial(self) -> Tensor:
        """What is before a sentence in the chain that field and votes make together.  -> (L,)"""
        return begin(self.crf.moves.detach())

    def moves(self, batch: Line, generator: Generator | None = None) -> Tensor:
        """Moves of that chain.  -> (N, L, L)"""
        return self._chain(batch, generator).trans

    def log_like(self, batch: Heard, generator: Generator | None = None) -> Tensor:
        """Evidence of that chain: what features and votes say of each token.  -> (N, L)"""
        return self._chain(batch, generator).log_like + self.evidence(batch)

    def _chain(self, batch: Line, generator: Generator | None) -> Chain:
        scores, moves = self.field(batch, generator)
        return chain_of(scores, moves.expand(len(scores), -1, -1), batch.offsets)
