"""Deep weak supervision: a conditional random field over the true labels, trained on the votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from convener.config import init_with
from convener.data.dataset import Dataset
from convener.models.chmm import constant_log_evidence
from convener.models.initialization import network_sizes
from convener.models.neural_chain import HeldOutLoss, InitialMatrices, StagedChainModel, WeakSupervisionConfig
from convener.neural.batch import Batch, PackedDataset
from convener.neural.crf import (
    CRF,
    ChainPotentials,
    build_crf,
    crf_to_chain,
    log_initial_o,
    log_partition,
    set_transitions,
)
from convener.neural.scorer import LinearTokenScorer
from convener.neural.training import Stage, parameter_groups
from convener.neural.transition import NO_CONTEXT, ContextConfig, floored_log


def votes_loss(net: DWSNetwork, batch: Batch, generator: Generator | None) -> Tensor:
    """Loss: mean over sentences of -log p(votes | features).

    log p(votes | features) is log Z of the CRF with the evidence of the votes, minus log Z without it.
    """
    scores, transitions = net.potentials(batch, generator)
    scores_with_votes = scores + net.vote_log_evidence(batch) + batch.log_evidence_offset
    log_z_with_votes = log_partition(scores_with_votes, transitions, batch.offsets)
    return (log_partition(scores, transitions, batch.offsets) - log_z_with_votes).mean()


class DWSNetwork(nn.Module):
    """A CRF over token scores, and one emission matrix per source."""

    def __init__(self, input_dim: int, num_sources: int, crf: CRF, context: ContextConfig = NO_CONTEXT) -> None:
        super().__init__()
        num_labels = len(crf.start_transitions)
        self.scorer, self.crf = LinearTokenScorer(input_dim, num_labels, context), crf
        self.emission_logits = nn.Parameter(torch.zeros(num_sources, num_labels, num_labels))

    def potentials(self, batch: Batch, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """Scores (N, L) and transitions (L, L) of p(z | features)."""
        return self.crf.potentials(self.scorer(batch, generator), batch.offsets)

    def vote_log_evidence(self, batch: Batch) -> Tensor:
        """Log-emissions of the votes, summed over the sources that do not abstain.  -> (N, L)"""
        log_emission = self.emission_logits.log_softmax(2).transpose(1, 2)
        return constant_log_evidence(torch.cat([torch.zeros_like(log_emission[:, :1]), log_emission], 1), batch)

    def mean_emission(self, tokens: Tensor) -> Tensor:
        """The emissions, the same for all tokens.  -> (K, L, L)"""
        return self.emission_logits.detach().double().softmax(2)

    def log_initial(self) -> Tensor:
        """Log-probabilities of z0 in the chain of CRF and votes.  -> (L,)"""
        return log_initial_o(self.crf.transitions.detach())

    def transition_logits(self, batch: Batch, generator: Generator | None = None) -> Tensor:
        """Transition logits of the chain of CRF and votes.  -> (N, L, L)"""
        return self._chain_potentials(batch, generator).transition

    def log_evidence(self, batch: Batch, generator: Generator | None = None) -> Tensor:
        """Log evidence of the chain from features and votes.  -> (N, L)"""
        return self._chain_potentials(batch, generator).log_evidence + self.vote_log_evidence(batch)

    def _chain_potentials(self, batch: Batch, generator: Generator | None) -> ChainPotentials:
        scores, transitions = self.potentials(batch, generator)
        return crf_to_chain(scores, transitions.expand(len(scores), -1, -1), batch.offsets)


@dataclass(frozen=True, kw_only=True)
class DWSConfig(WeakSupervisionConfig):
    """Settings of DWS."""


class DWS(StagedChainModel):
    """The true labels follow a neural conditional random field, and every source is a noisy observation of them.

    p(z | e) = exp(sum_t U[t, z(t)] + M[z(t-1), z(t)]) / Z(e), where U[t] = Linear(e[t] and its
    neighbours); p(x | z) = prod_t prod_k Phi[k, z(t), x_k(t)], abstaining sources left out.
    Gradient ascent on the marginal likelihood of the votes, log p(x | e) = log Z(e, x) - log Z(e),
    with Z(e, x) the sum over z of both factors; labels are the Viterbi path of their product. After
    Parker and Yu 2021, "Named Entity Recognition through Deep Representation Learning and Weak
    Supervision", of which there is no public code.

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> DWS(encoder="hashing", max_epochs=3).fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = DWSConfig
    config: DWSConfig
    summary = "a neural CRF over the true labels, trained with the emissions of the sources (ACL 2021)"

    @init_with(DWSConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _build_network(self, data: Dataset) -> DWSNetwork:
        """An untrained network for these sources and labels."""
        input_dim, num_sources, _ = network_sizes(data)
        return DWSNetwork(input_dim, num_sources, build_crf(data), self.config)

    def _initialize(self, net: DWSNetwork, train: Dataset) -> None:
        """Start as a Markov chain with matrices from the labels of a simple vote, independent of the features."""
        initial = InitialMatrices.from_votes(train)
        set_transitions(net.crf, initial.transition)
        with torch.no_grad():
            net.emission_logits.copy_(floored_log(initial.emission))

    def _stages(self, net: DWSNetwork, packed: PackedDataset) -> list[Stage]:
        """One stage that trains all parameters."""

        def loss(batch: Batch, generator: Generator) -> Tensor:
            return votes_loss(net, batch, generator)

        return [self._stage("field", loss, packed, parameter_groups(net))]

    def _held_out_loss(self, net: DWSNetwork) -> HeldOutLoss:
        """Negative log-likelihood of held-out votes given the features."""
        return lambda batch: votes_loss(net, batch, None)
