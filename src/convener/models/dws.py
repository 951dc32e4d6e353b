"""Deep weak supervision: a conditional random field over the truth, learned from the votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Generator, Tensor, nn

from convener.config import check_fraction, check_min
from convener.data.dataset import Dataset
from convener.inference.autograd import chain_objective
from convener.models.chmm import VoteBatch, constant_log_evidence
from convener.models.initialization import (
    InitialMatrices,
    complete_coarse_spans,
    initial_emission,
    initial_transition,
    network_sizes,
)
from convener.models.majority_vote import initial_labels
from convener.models.neural_chain import HeldOutLoss, NeuralChainConfig, StagedChainModel, WeakSupervisionConfig
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
    """Minus the mean over sentences of log p(votes | features) - tau H(z | votes, features).

    The first is log Z of the field with the votes' evidence, less log Z without.
    """
    scores, transitions = net.potentials(batch, generator)
    scores_with_votes = scores + net.vote_log_evidence(batch) + batch.log_evidence_offset
    value, _ = chain_objective(*crf_to_chain(scores_with_votes, transitions, batch.offsets), batch.offsets, tau=tau)
    return (log_partition(scores, transitions, batch.offsets) - value).mean()


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


@dataclass(frozen=True, kw_only=True)
class DWSConfig(WeakSupervisionConfig):
    """Settings of DWS."""

    initial_lr: float = 1e-2
    """Learning rate of first labels and moves, which are the same for all tokens."""
    emission_lr: float = 1e-3
    """Learning rate of the emissions."""
    precision: float = 0.9
    """Share of a source's marks that are presumed right where the start is estimated and the
    source's own precision is not known."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "emission_lr")
        check_fraction(self, "precision")

    def learning_rates(self) -> dict[str, float]:
        """Learning rates of parts that have their own."""
        return {"crf": self.initial_lr, "emission_logits": self.emission_lr}


class DWS(StagedChainModel):
    """The truth is a neural conditional random field, and each source a noisy channel.

    p(z | e) = exp(sum_t U[t, z(t)] + M[z(t-1), z(t)]) / Z(e), where U[t] = Linear(e[t] and its
    neighbours); p(x | z) = prod_t prod_k Phi[k, z(t), x_k(t)], abstaining sources left out.
    Gradient ascent on the marginal likelihood of the votes, log p(x | e) = log Z(e, x) - log Z(e),
    with Z(e, x) the sum over z of both factors; labels are the best path of their product. After
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
    summary = "a neural CRF over the truth, learned with the sources' emissions (ACL 2021)"

    def _build_network(self, data: Dataset) -> DWSNetwork:
        """A network for these sources and labels, as it is before it knows anything."""
        input_dim, num_sources, _ = network_sizes(data)
        crf = build_crf(data, legal=self.config.legal)
        return DWSNetwork(input_dim, num_sources, crf, self.config.context_config())

    def _initialize(self, net: DWSNetwork, train: Dataset) -> None:
        """Start as a Markov chain of starting matrices, whatever the features."""
        initial = self._initial_matrices(train)
        set_transitions(net.crf, initial.transition)
        with torch.no_grad():
            net.emission_logits.copy_(floored_log(initial.emission))

    def _initial_matrices(self, train: Dataset) -> InitialMatrices:
        """The starting matrices, those of the paper of CHMM or by the labels of a simple vote."""
        config, weighted_labels = (
            self.config,
            complete_coarse_spans(train, initial_labels(train.without_coarse())),
        )
        transition = initial_transition(config, train, weighted_labels)
        return InitialMatrices(transition, initial_emission(config, train, weighted_labels))

    def _stages(self, net: DWSNetwork, packed: PackedDataset) -> list[Stage]:
        """One, that trains everything."""

        def loss(batch: Batch, generator: Generator) -> Tensor:
            return votes_loss(net, batch, generator, self.config.tau)

        return [self._stage("field", loss, packed, ("scorer", "crf", "emission_logits"))]

    def _held_out_loss(self, net: DWSNetwork) -> HeldOutLoss:
        """How badly held-out votes are explained, given the features."""
        return lambda batch: votes_loss(net, batch, None, 0.0)
