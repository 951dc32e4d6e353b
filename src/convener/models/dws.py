"""Deep weak supervision: a conditional random field over the true labels, trained on the votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Generator, Tensor, nn

from convener.config import check_fraction, check_min
from convener.data.dataset import Dataset
from convener.inference.autograd import chain_objective
from convener.models.chmm import VoteBatch, constant_log_evidence
from convener.models.initialization import complete_coarse_spans, initial_emission, initial_transition, network_sizes
from convener.models.majority_vote import initial_labels
from convener.models.neural_chain import (
    HeldOutLoss,
    InitialMatrices,
    NeuralChainConfig,
    StagedChainModel,
    WeakSupervisionConfig,
)
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
from convener.neural.training import Stage
from convener.neural.transition import NO_CONTEXT, ContextConfig, TokenBatch, floored_log


def votes_loss(net: DWSNetwork, batch: Batch, generator: Generator | None, tau: float) -> Tensor:
    """Loss: mean over sentences of -(log p(votes | features) - tau H(z | votes, features)).

    log p(votes | features) is log Z of the CRF with the evidence of the votes, minus log Z without it.
    """
    scores, transitions = net.potentials(batch, generator)
    scores_with_votes = scores + net.vote_log_evidence(batch) + batch.log_evidence_offset
    value, _ = chain_objective(*crf_to_chain(scores_with_votes, transitions, batch.offsets), batch.offsets, tau=tau)
    return (log_partition(scores, transitions, batch.offsets) - value).mean()


class TokenVoteBatch(TokenBatch, VoteBatch, Protocol):
    """The part of a batch that `DWSNetwork` uses."""


class DWSNetwork(nn.Module):
    """A CRF over token scores, and one emission matrix per source."""

    def __init__(self, input_dim: int, num_sources: int, crf: CRF, context: ContextConfig = NO_CONTEXT) -> None:
        super().__init__()
        num_labels = len(crf.start_transitions)
        self.scorer, self.crf = LinearTokenScorer(input_dim, num_labels, context), crf
        self.emission_logits = nn.Parameter(torch.zeros(num_sources, num_labels, num_labels))

    def potentials(self, batch: TokenBatch, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """Scores (N, L) and transitions (L, L) of p(z | features)."""
        return self.crf.potentials(self.scorer(batch, generator), batch.offsets)

    def vote_log_evidence(self, batch: TokenVoteBatch) -> Tensor:
        """Log-emissions of the votes, summed over the sources that do not abstain.  -> (N, L)"""
        log_emission = self.emission_logits.log_softmax(2).transpose(1, 2)
        return constant_log_evidence(torch.cat([torch.zeros_like(log_emission[:, :1]), log_emission], 1), batch)

    def mean_emission(self, tokens: Tensor) -> Tensor:
        """The emissions, the same for all tokens.  -> (K, L, L)"""
        return self.emission_logits.detach().double().softmax(2)

    def log_initial(self) -> Tensor:
        """Log-probabilities of z0 in the chain of CRF and votes.  -> (L,)"""
        return log_initial_o(self.crf.transitions.detach())

    def transition_logits(self, batch: TokenBatch, generator: Generator | None = None) -> Tensor:
        """Transition logits of the chain of CRF and votes.  -> (N, L, L)"""
        return self._chain_potentials(batch, generator).transition

    def log_evidence(self, batch: TokenVoteBatch, generator: Generator | None = None) -> Tensor:
        """Log evidence of the chain from features and votes.  -> (N, L)"""
        return self._chain_potentials(batch, generator).log_evidence + self.vote_log_evidence(batch)

    def _chain_potentials(self, batch: TokenBatch, generator: Generator | None) -> ChainPotentials:
        scores, transitions = self.potentials(batch, generator)
        return crf_to_chain(scores, transitions.expand(len(scores), -1, -1), batch.offsets)


@dataclass(frozen=True, kw_only=True)
class DWSConfig(WeakSupervisionConfig):
    """Settings of DWS."""

    initial_lr: float = 1e-2
    """Learning rate of the start and transition scores of the CRF."""
    emission_lr: float = 1e-3
    """Learning rate of the emissions."""
    precision: float = 0.9
    """Assumed precision of sources whose own is not known, for the initial matrices; in (0, 1]."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "emission_lr")
        check_fraction(self, "precision")

    def learning_rates(self) -> dict[str, float]:
        """Learning rates of parameters that have their own."""
        return {"crf": self.initial_lr, "emission_logits": self.emission_lr}


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
    >>> DWS(encoder="hashing", epochs=3).fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config: ClassVar[type[NeuralChainConfig]] = DWSConfig
    summary = "a neural CRF over the true labels, trained with the emissions of the sources (ACL 2021)"

    def _build_network(self, data: Dataset) -> DWSNetwork:
        """An untrained network for these sources and labels."""
        input_dim, num_sources, _ = network_sizes(data)
        crf = build_crf(data, legal=self.config.legal)
        return DWSNetwork(input_dim, num_sources, crf, self.config.context_config())

    def _initialize(self, net: DWSNetwork, train: Dataset) -> None:
        """Start as a Markov chain with the initial matrices, independent of the features."""
        initial = self._initial_matrices(train)
        set_transitions(net.crf, initial.transition)
        with torch.no_grad():
            net.emission_logits.copy_(floored_log(initial.emission))

    def _initial_matrices(self, train: Dataset) -> InitialMatrices:
        """Initial matrices of the CHMM paper, or from the labels of a simple vote."""
        config, weighted_labels = (
            self.config,
            complete_coarse_spans(train, initial_labels(train.without_coarse())),
        )
        transition = initial_transition(config, train, weighted_labels)
        return InitialMatrices(transition, initial_emission(config, train, weighted_labels))

    def _stages(self, net: DWSNetwork, packed: PackedDataset) -> list[Stage]:
        """One stage that trains all parameters."""

        def loss(batch: Batch, generator: Generator) -> Tensor:
            return votes_loss(net, batch, generator, self.config.tau)

        return [self._stage("field", loss, packed, ("scorer", "crf", "emission_logits"))]

    def _held_out_loss(self, net: DWSNetwork) -> HeldOutLoss:
        """Negative log-likelihood of held-out votes given the features."""
        return lambda batch: votes_loss(net, batch, None, 0.0)
