"""Deep weak supervision: a conditional random field over the truth, learned from the votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from convener.data import Dataset
from convener.models.majority_vote import initial_labels
from convener.models.neural import NeuralChainConfig, StagedChainModel, WeakSupervisionConfig
from convener.nets.dws import DWSNetwork
from convener.settings import check_fraction, check_min
from convener.train.field import build_crf, set_transitions, votes_loss
from convener.train.heard import complete_coarse_spans
from convener.train.loop import Stage
from convener.train.neural import HeldOutLoss
from convener.train.packing import Batch, PackedDataset
from convener.train.start import (
    InitialMatrices,
    floored_log,
    initial_emission,
    initial_transition,
    network_sizes,
)


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
