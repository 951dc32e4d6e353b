"""The networks of CHMM: transitions by token, and emissions by token or fixed."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Generator, Tensor
from torch.nn import functional

from convener.nets.moves import NO_CONTEXT, ContextConfig, TransitionNetwork, zero_linear

CHUNK_PARAMETERS = 1 << 24
"""Emission parameters that are computed together: tokens are taken in pieces."""


class VoteBatch(Protocol):
    """What sources say, and what that allows."""

    @property
    def votes(self) -> Tensor: ...
    @property
    def allowed(self) -> Tensor: ...


class TokenVoteBatch(VoteBatch, Protocol):
    """What of a batch matters here."""

    @property
    def tokens(self) -> Tensor: ...


class CHMMNetwork(TransitionNetwork):
    """Every token has its own emissions: L x L for each source."""

    def __init__(self, input_dim: int, num_sources: int, num_labels: int, context: ContextConfig = NO_CONTEXT) -> None:
        super().__init__(input_dim, num_sources, num_labels, context)
        self.emission_layer = zero_linear(input_dim, num_sources * num_labels * num_labels)

    @property
    def chunk_size(self) -> int:
        """Tokens whose emissions are computed together."""
        return max(1, CHUNK_PARAMETERS // max(1, self.emission_layer.out_features))

    def set_emission(self, log_emission: Tensor) -> None:
        """Start from these emissions.  (K, L, L) [source, latent, said]"""
        self.emission_layer.bias.copy_(log_emission.reshape(-1))

    def emission_logits(self, tokens: Tensor) -> Tensor:
        """Logits of the emissions.  (n, D) -> (n, K, L, L) [token, source, latent, said]"""
        logits: Tensor = self.emission_layer(tokens)
        return logits.view(-1, self.num_sources, self.num_labels, self.num_labels)

    def log_evidence(self, batch: TokenVoteBatch, generator: Generator | None = None) -> Tensor:
        """Log evidence; nothing is drawn.  -> (N, L)"""
        splits = (torch.split(x, self.chunk_size) for x in (batch.tokens, batch.votes))
        chunks = zip(*splits, strict=True)
        return torch.cat([self._chunk_log_evidence(x, votes, batch.allowed) for x, votes in chunks])

    def _chunk_log_evidence(self, tokens: Tensor, votes: Tensor, allowed: Tensor) -> Tensor:
        """Log emissions of what was said, summed over the sources that did not abstain."""
        logits = self.emission_logits(tokens)
        fine_votes = votes.clamp(0, self.num_labels - 1).long()
        vote_logits = logits.gather(3, fine_votes[:, :, None, None].expand(-1, -1, self.num_labels, 1)).squeeze(3)
        coarse = (votes >= self.num_labels).nonzero(as_tuple=True)
        if len(coarse[0]):
            allowed_labels = allowed[votes[coarse].long()][:, None]
            vote_logits = vote_logits.index_put(
                coarse, logits[coarse].masked_fill(~allowed_labels, -torch.inf).logsumexp(2)
            )
        vote_logits = vote_logits - logits.logsumexp(3)
        return vote_logits.where((votes >= 0)[:, :, None], vote_logits.new_zeros(())).sum(1)

    def mean_emission(self, tokens: Tensor) -> Tensor:
        """Emissions averaged over tokens, of the biases alone if there are none.  -> (K, L, L)"""
        with torch.no_grad():
            if not len(tokens):
                shape = self.num_sources, self.num_labels, self.num_labels
                return self.emission_layer.bias.view(shape).softmax(2).double()
            chunks = torch.split(tokens, self.chunk_size)
            total = sum(self.emission_logits(chunk).softmax(3).sum(0, dtype=torch.float64) for chunk in chunks)
        return torch.as_tensor(total) / len(tokens)


class FixedEmissionNetwork(TransitionNetwork):
    """Emissions that are known: the same for every token, and not trained."""

    def __init__(self, input_dim: int, num_sources: int, num_labels: int, context: ContextConfig = NO_CONTEXT) -> None:
        super().__init__(input_dim, num_sources, num_labels, context)
        # By what was said, abstain first, which is no evidence: its row stays zero.
        self.register_buffer("log_emission", torch.zeros(num_sources, num_labels + 1, num_labels))
        self.log_emission: Tensor

    def set_emission(self, log_emission: Tensor) -> None:
        """Take these emissions.  (K, L, L) [source, latent, said]"""
        self.log_emission[:, 1:] = log_emission.log_softmax(2).transpose(1, 2)

    def log_evidence(self, batch: TokenVoteBatch, generator: Generator | None = None) -> Tensor:
        """Log evidence; nothing is drawn.  -> (N, L)"""
        return constant_log_evidence(self.log_emission, batch)

    def mean_emission(self, tokens: Tensor) -> Tensor:
        """The emissions it has, whatever the tokens.  -> (K, L, L)"""
        return self.log_emission[:, 1:].transpose(1, 2).double().exp()


def constant_log_evidence(log_emission: Tensor, batch: VoteBatch) -> Tensor:
    """Log emissions of what was said, summed over the sources that did not abstain.  -> (N, L)

    log_said (K, 1 + L, L), the same for every token, by what was said, abstain first.
    """
    num_labels = log_emission.shape[2]
    coarse = [log_emission[:, 1:][:, allowed] for allowed in batch.allowed[num_labels:]]
    columns = [log_emission, *(group.logsumexp(1, keepdim=True) for group in coarse)]
    row_offsets = torch.arange(len(log_emission)) * (len(batch.allowed) + 1)
    table = torch.cat(columns, 1).reshape(-1, num_labels)
    return functional.embedding_bag(row_offsets + 1 + batch.votes, table, mode="sum")
