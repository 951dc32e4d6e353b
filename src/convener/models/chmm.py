"""Conditional hidden Markov model: transitions and emissions read off each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from convener.data import Dataset
from convener.models.majority_vote import initial_labels
from convener.models.neural import NeuralChainConfig, StagedChainModel
from convener.nets.chmm import CHMMNetwork, FixedEmissionNetwork
from convener.settings import check_fraction, check_min
from convener.train.chain import Floats
from convener.train.heard import WeightedLabels, complete_coarse_spans
from convener.train.loop import Stage
from convener.train.neural import chain_loss
from convener.train.packing import PackedDataset
from convener.train.start import (
    InitialMatrices,
    initial_emission,
    initial_transition,
    initialize_chain,
    network_sizes,
)


@dataclass(frozen=True, kw_only=True)
class CHMMConfig(NeuralChainConfig):
    """Settings of CHMM."""

    emission_lr: float = 1e-5
    """Learning rate of the emissions. Likelihood alone drives them to high precision and low
    recall: they change slowly."""
    precision: float = 0.9
    """Share of a source's marks that are presumed right where the start is estimated and the
    source's own precision is not known."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "emission_lr")
        check_fraction(self, "precision")

    def learning_rates(self) -> dict[str, float]:
        """Learning rates of parts that have their own."""
        return super().learning_rates() | {"emission_layer": self.emission_lr}


class CHMM(StagedChainModel):
    """A chain whose moves and whose sources' reliabilities are read off each token.

    Psi[t] = softmax(Linear(e[t])), L x L; Phi[t,k,i,:] = softmax(Linear(e[t])), K x L x L;
    log phi[t,l] = sum of log Phi[t,k,l,x_k(t)] over the sources that did not abstain. Gradient
    ascent on log p(x) - tau H(z|x) from starting matrices, which the biases hold exactly. Li et
    al. 2021, "BERTifying the Hidden Markov Model for Multi-Source Weakly Supervised Named Entity
    Recognition".

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> CHMM(encoder="hashing", epochs=3).fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config: ClassVar[type[NeuralChainConfig]] = CHMMConfig
    summary = "neural transitions and emissions by token (ACL 2021)"

    def _initialize(self, net: CHMMNetwork | FixedEmissionNetwork, train: Dataset) -> None:
        """Start exactly from the starting matrices."""
        self._initial_matrices(train).initialize(net)

    def _stages(self, net: CHMMNetwork | FixedEmissionNetwork, packed: PackedDataset) -> list[Stage]:
        """One, that trains everything."""
        loss = chain_loss(net, self.config.tau, sample=False)
        trained = {name.partition(".")[0] for name, _ in net.named_parameters()}
        return [self._stage("chain", loss, packed, trained)]

    def _initial_matrices(self, train: Dataset) -> InitialMatrices:
        """The starting matrices, the paper's or by the labels of a simple vote."""
        weighted_labels = complete_coarse_spans(train, initial_labels(train.without_coarse()))
        return InitialMatrices(
            initial_transition(self.config, train, weighted_labels),
            self._initial_emission(train, weighted_labels),
        )

    def _initial_emission(self, train: Dataset, weighted_labels: WeightedLabels) -> Floats:
        """Emissions to start from; `labels` are those of a simple vote.  -> (K, L, L)"""
        return initial_emission(self.config, train, weighted_labels)

    def _build_network(self, data: Dataset) -> CHMMNetwork | FixedEmissionNetwork:
        """A network for these sources and labels, as it is before it knows anything."""
        return initialize_chain(
            CHMMNetwork(*network_sizes(data), self.config.context_config()), data, legal=self.config.legal
        )
