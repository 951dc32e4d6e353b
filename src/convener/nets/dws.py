"""The network of DWS: a conditional random field over the truth, and sources that report it."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from convener.nets.chmm import VoteBatch, constant_log_evidence
from convener.nets.crf import CRF, ChainPotentials, crf_to_chain, log_initial_o
from convener.nets.moves import NO_CONTEXT, ContextConfig, TokenBatch
from convener.nets.scorer import LinearTokenScorer


class TokenVoteBatch(TokenBatch, VoteBatch, Protocol):
    """What of a batch matters here."""


class DWSNetwork(nn.Module):
    """Scores by token, a field over them, and one matrix of emissions for each source."""

    def __init__(self, input_dim: int, num_sources: int, crf: CRF, context: ContextConfig = NO_CONTEXT) -> None:
        super().__init__()
        num_labels = len(crf.start_transitions)
        self.scorer, self.crf = LinearTokenScorer(input_dim, num_labels, context), crf
        self.emission_logits = nn.Parameter(torch.zeros(num_sources, num_labels, num_labels))

    def potentials(self, batch: TokenBatch, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """Scores (N, L) and moves (L, L) of p(z | features)."""
        return self.crf.potentials(self.scorer(batch, generator), batch.offsets)

    def vote_log_evidence(self, batch: TokenVoteBatch) -> Tensor:
        """Log emissions of what was said, summed over sources that did not abstain.  -> (N, L)"""
        log_emission = self.emission_logits.log_softmax(2).transpose(1, 2)
        return constant_log_evidence(torch.cat([torch.zeros_like(log_emission[:, :1]), log_emission], 1), batch)

    def mean_emission(self, tokens: Tensor) -> Tensor:
        """The emissions, whatever the tokens.  -> (K, L, L)"""
        return self.emission_logits.detach().double().softmax(2)

    def log_initial(self) -> Tensor:
        """What is before a sentence in the chain that field and votes make together.  -> (L,)"""
        return log_initial_o(self.crf.transitions.detach())

    def transition_logits(self, batch: TokenBatch, generator: Generator | None = None) -> Tensor:
        """Moves of that chain.  -> (N, L, L)"""
        return self._chain_potentials(batch, generator).transition

    def log_evidence(self, batch: TokenVoteBatch, generator: Generator | None = None) -> Tensor:
        """Evidence of that chain: what features and votes say of each token.  -> (N, L)"""
        return self._chain_potentials(batch, generator).log_evidence + self.vote_log_evidence(batch)

    def _chain_potentials(self, batch: TokenBatch, generator: Generator | None) -> ChainPotentials:
        scores, transitions = self.potentials(batch, generator)
        return crf_to_chain(scores, transitions.expand(len(scores), -1, -1), batch.offsets)
