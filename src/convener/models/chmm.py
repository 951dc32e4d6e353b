"""Conditional hidden Markov model: transitions and emissions are predicted from each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Generator, Tensor
from torch.nn import functional

from convener.config import check_min, init_with
from convener.data.dataset import Dataset
from convener.models.initialization import network_sizes
from convener.models.neural_chain import (
    InitialMatrices,
    NeuralChainConfig,
    StagedChainModel,
    chain_loss,
    initialize_chain,
)
from convener.neural.batch import Batch, PackedDataset
from convener.neural.training import Stage, parameter_groups
from convener.neural.transition import NO_CONTEXT, ContextConfig, TransitionNetwork, zero_linear

CHUNK_PARAMETERS = 1 << 24
"""Number of emission parameters that are computed together; tokens are processed in chunks."""


class CHMMNetwork(TransitionNetwork):
    """A network with emissions for every token: L x L per source."""

    def __init__(self, input_dim: int, num_sources: int, num_labels: int, context: ContextConfig = NO_CONTEXT) -> None:
        super().__init__(input_dim, num_sources, num_labels, context)
        self.emission_layer = zero_linear(input_dim, num_sources * num_labels * num_labels)

    @property
    def chunk_size(self) -> int:
        """Number of tokens whose emissions are computed together."""
        return max(1, CHUNK_PARAMETERS // max(1, self.emission_layer.out_features))

    def set_emission(self, log_emission: Tensor) -> None:
        """Set the initial emissions.  (K, L, L) [source, true label, vote]"""
        self.emission_layer.bias.copy_(log_emission.reshape(-1))

    def emission_logits(self, tokens: Tensor) -> Tensor:
        """Logits of the emissions.  (n, D) -> (n, K, L, L) [token, source, true label, vote]"""
        logits: Tensor = self.emission_layer(tokens)
        return logits.view(-1, self.num_sources, self.num_labels, self.num_labels)

    def log_evidence(self, batch: Batch, generator: Generator | None = None) -> Tensor:
        """Log evidence of the votes; the generator is not used.  -> (N, L)"""
        splits = (torch.split(x, self.chunk_size) for x in (batch.tokens, batch.votes))
        chunks = zip(*splits, strict=True)
        return torch.cat([self._chunk_log_evidence(x, votes, batch.allowed) for x, votes in chunks])

    def _chunk_log_evidence(self, tokens: Tensor, votes: Tensor, allowed: Tensor) -> Tensor:
        """Log-emissions of the votes, summed over the sources that do not abstain."""
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
        """Emissions averaged over tokens; those of the biases if there are none.  -> (K, L, L)"""
        with torch.no_grad():
            if not len(tokens):
                shape = self.num_sources, self.num_labels, self.num_labels
                return self.emission_layer.bias.view(shape).softmax(2).double()
            chunks = torch.split(tokens, self.chunk_size)
            total = sum(self.emission_logits(chunk).softmax(3).sum(0, dtype=torch.float64) for chunk in chunks)
        return torch.as_tensor(total) / len(tokens)


def constant_log_evidence(log_emission: Tensor, batch: Batch) -> Tensor:
    """Log-emissions of the votes, summed over the sources that do not abstain.  -> (N, L)

    log_emission (K, 1 + L, L), the same for every token, by vote, with abstain first.
    """
    num_labels = log_emission.shape[2]
    coarse = [log_emission[:, 1:][:, allowed] for allowed in batch.allowed[num_labels:]]
    columns = [log_emission, *(group.logsumexp(1, keepdim=True) for group in coarse)]
    row_offsets = torch.arange(len(log_emission)) * (len(batch.allowed) + 1)
    table = torch.cat(columns, 1).reshape(-1, num_labels)
    return functional.embedding_bag(row_offsets + 1 + batch.votes, table, mode="sum")


@dataclass(frozen=True, kw_only=True)
class CHMMConfig(NeuralChainConfig):
    """Settings of CHMM."""

    tau: float = 0.0
    """Weight of the posterior entropy in the objective log p(x) - tau H(z|x), at least 0: 0 is maximum likelihood, 1
    the published objective."""
    init: Literal["votes", "paper"] = "votes"
    """Initial matrices: estimated from the votes, or Psi* and Phi* of the paper."""
    emission_learning_rate: float = 1e-5
    """Learning rate of the emissions; at least 0; 0 fixes them. Maximum likelihood alone drives them to high
    precision and low recall, so they change slowly."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "tau", "emission_learning_rate")


class CHMM(StagedChainModel):
    """Conditional hidden Markov model: transitions and emissions depend on the features of each token.

    Psi[t] = softmax(Linear(e[t])), L x L; Phi[t,k,i,:] = softmax(Linear(e[t])), K x L x L;
    log phi[t,l] = sum of log Phi[t,k,l,x_k(t)] over the sources that did not abstain. Gradient
    ascent on log p(x) - tau H(z|x) from initial matrices, which the biases hold exactly. Li et
    al. 2021, "BERTifying the Hidden Markov Model for Multi-Source Weakly Supervised Named Entity
    Recognition".

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> CHMM(encoder="hashing", max_epochs=3).fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = CHMMConfig
    config: CHMMConfig
    summary = "neural transitions and emissions by token (ACL 2021)"

    @init_with(CHMMConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _initialize(self, net: CHMMNetwork, train: Dataset) -> None:
        """Set the initial matrices, of the paper or from the labels of a simple vote, exactly."""
        from_data = InitialMatrices.from_paper if self.config.init == "paper" else InitialMatrices.from_votes
        from_data(train).initialize(net)

    def _stages(self, net: CHMMNetwork, packed: PackedDataset) -> list[Stage]:
        """One stage that trains all parameters."""
        loss = chain_loss(net, self.config.tau, sample=False)
        rate = self.config.emission_learning_rate
        return [self._stage("chain", loss, packed, parameter_groups(net), emission_layer=rate)]

    def _build_network(self, data: Dataset) -> CHMMNetwork:
        """An untrained network for these sources and labels."""
        return initialize_chain(CHMMNetwork(*network_sizes(data), self.config), data)
