"""The network of ConNet: one field for all sources, seen through a matrix of each."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Generator, Tensor, nn

from convener.nets.chmm import VoteBatch, constant_log_evidence
from convener.nets.crf import CRF, ChainPotentials, add_start_scores, crf_to_chain, log_initial_o
from convener.nets.moves import NO_CONTEXT, ContextConfig, TokenBatch, zero_linear
from convener.nets.scorer import LinearTokenScorer


class SentenceBatch(TokenBatch, Protocol):
    """What of a batch a field depends on."""

    @property
    def sentences(self) -> Tensor: ...


class SentenceVoteBatch(SentenceBatch, VoteBatch, Protocol):
    """What of a batch labels depend on."""


class ConNetNetwork(nn.Module):
    """Scores by token and a field over them; a matrix for each source, and attention to them.

    The matrices start as the identity, and attention at every source alike. Emissions, where votes
    are heard in the end, are fixed.
    """

    def __init__(
        self,
        input_dim: int,
        num_sources: int,
        crf: CRF,
        context: ContextConfig = NO_CONTEXT,
        *,
        use_votes: bool = True,
    ) -> None:
        super().__init__()
        num_labels = len(crf.start_transitions)
        self.use_votes = use_votes
        self.scorer, self.crf = LinearTokenScorer(input_dim, num_labels, context), crf
        self.source_matrices = nn.Parameter(torch.eye(num_labels).repeat(num_sources, 1, 1))
        self.attention = zero_linear(input_dim, num_sources)
        # By what was said, abstain first, which is no evidence: its row stays zero.
        self.register_buffer("log_emission", torch.zeros(num_sources, num_labels + 1, num_labels))
        self.log_emission: Tensor

    def set_emission(self, log_emission: Tensor) -> None:
        """Take these emissions.  (K, L, L) [source, latent, said]"""
        self.log_emission[:, 1:] = log_emission.log_softmax(2).transpose(1, 2)

    def mean_emission(self, tokens: Tensor) -> Tensor:
        """The emissions it was given, whatever the tokens.  -> (K, L, L)"""
        return self.log_emission[:, 1:].transpose(1, 2).double().exp()

    def potentials_through(self, scores: Tensor, matrix: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """The field through a matrix (L, L), or through one for each sentence (M, L, L).

        scores (N, L) of the tokens -> scores (N, L), and moves (L, L) or (N, L, L)
        """
        start = self.crf.start_transitions @ matrix + self.crf.illegal_start_logits
        transitions = self.crf.transitions @ matrix + self.crf.illegal_logits
        if matrix.ndim == 3:
            sentence = torch.repeat_interleave(offsets.diff())
            scores = torch.bmm(scores[:, None], matrix[sentence]).squeeze(1)
            return add_start_scores(scores, start, offsets), transitions[sentence]
        return add_start_scores(scores @ matrix, start, offsets), transitions

    def consensus_potentials(self, batch: SentenceBatch, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """The field through the matrices of all sources, each as much as the sentence asks."""
        attention_weights = self.attention(batch.sentences).softmax(1)
        matrices = torch.einsum("mk,kij->mij", attention_weights, self.source_matrices)
        return self.potentials_through(self.scorer(batch, generator), matrices, batch.offsets)

    def log_initial(self) -> Tensor:
        """What is before a sentence in the chain that consensus and votes make.  -> (L,)"""
        return log_initial_o(self.crf.transitions.detach())

    def transition_logits(self, batch: SentenceBatch, generator: Generator | None = None) -> Tensor:
        """Moves of that chain.  -> (N, L, L)"""
        return self._chain_potentials(batch, generator).transition

    def log_evidence(self, batch: SentenceVoteBatch, generator: Generator | None = None) -> Tensor:
        """Evidence of that chain: what features say of each token and, if heard, votes."""
        feature_evidence = self._chain_potentials(batch, generator).log_evidence
        return (
            feature_evidence + constant_log_evidence(self.log_emission, batch) if self.use_votes else feature_evidence
        )

    def _chain_potentials(self, batch: SentenceBatch, generator: Generator | None) -> ChainPotentials:
        return crf_to_chain(*self.consensus_potentials(batch, generator), batch.offsets)
