"""The network of ConNet: one field for all sources, seen through a matrix of each."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from convener.nets.chmm import Votes, said_evidence
from convener.nets.crf import CRF, Chain, begin, chain_of, with_start
from convener.nets.moves import PLAIN, Line, Look, silent_linear
from convener.nets.scorer import Scorer


class Text(Line, Protocol):
    """What of a batch a field depends on."""

    @property
    def sentences(self) -> Tensor: ...


class Heard(Text, Votes, Protocol):
    """What of a batch labels depend on."""


class ViewsNet(nn.Module):
    """Scores by token and a field over them; a matrix for each source, and attention to them.

    The matrices start as the identity, and attention at every source alike. Emissions, where votes
    are heard in the end, are fixed.
    """

    def __init__(
        self, width: int, sources: int, crf: CRF, look: Look = PLAIN, *, hears: bool = True
    ) -> None:
        super().__init__()
        labels = len(crf.start)
        self.hears = hears
        self.scorer, self.crf = Scorer(width, labels, look), crf
        self.views = nn.Parameter(torch.eye(labels).repeat(sources, 1, 1))
        self.attention = silent_linear(width, sources)
        # By what was said, abstain first, which is no evidence: its row stays zero.
        self.register_buffer("log_said", torch.zeros(sources, labels + 1, labels))
        self.log_said: Tensor

    def set_emissions(self, log_emissions: Tensor) -> None:
        """Take these emissions.  (K, L, L) [source, latent, said]"""
        self.log_said[:, 1:] = log_emissions.log_softmax(2).transpose(1, 2)

    def mean_emissions(self, tokens: Tensor) -> Tensor:
        """The emissions it was given, whatever the tokens.  -> (K, L, L)"""
        return self.log_said[:, 1:].transpose(1, 2).double().exp()

    def seen(self, scores: Tensor, view: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """The field through a matrix (L, L), or through one for each sentence (M, L, L).

        scores (N, L) of the tokens -> scores (N, L), and moves (L, L) or (N, L, L)
        """
        start = self.crf.start @ view + self.crf.start_floor
        moves = self.crf.moves @ view + self.crf.floor
        if view.ndim == 3:
            sentence = torch.repeat_interleave(offsets.diff())
            scores = torch.bmm(scores[:, None], view[sentence]).squeeze(1)
            return with_start(scores, start, offsets), moves[sentence]
        return with_start(scores @ view, start, offsets), moves

    def consensus(self, batch: Text, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """The field through the matrices of all sources, each as much as the sentence asks."""
        share = self.attention(batch.sentences).softmax(1)
        view = torch.einsum("mk,kij->mij", share, self.views)
        return self.seen(self.scorer(batch, generator), view, batch.offsets)

    def log_initial(self) -> Tensor:
        """What is before a sentence in the chain that consensus and votes make.  -> (L,)"""
        return begin(self.crf.moves.detach())

    def moves(self, batch: Text, generator: Generator | None = None) -> Tensor:
        """Moves of that chain.  -> (N, L, L)"""
        return self._chain(batch, generator).trans

    def log_like(self, batch: Heard, generator: Generator | None = None) -> Tensor:
        """Evidence of that chain: what features say of each token and, if heard, votes."""
        features = self._chain(batch, generator).log_like
        return features + said_evidence(self.log_said, batch) if self.hears else features

    def _chain(self, batch: Text, generator: Generator | None) -> Chain:
        return chain_of(*self.consensus(batch, generator), batch.offsets)
