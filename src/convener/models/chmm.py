"""Conditional hidden Markov model: transitions and emissions read off each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from convener.data import Dataset
from convener.models.majority_vote import start_labels
from convener.models.neural import ChainConfig, StagedChain
from convener.nets.chmm import CHMMNet, FixedNet
from convener.settings import at_least, shares
from convener.train.chain import Floats
from convener.train.heard import Fillings, fillings
from convener.train.loop import Stage
from convener.train.neural import chain_loss
from convener.train.packing import Packing
from convener.train.start import Start, first_emissions, first_moves, prepared, sizes


@dataclass(frozen=True, kw_only=True)
class CHMMConfig(ChainConfig):
    """Settings of CHMM."""

    emission_lr: float = 1e-5
    """Learning rate of the emissions. Likelihood alone drives them to high precision and low
    recall: they change slowly."""
    precision: float = 0.9
    """Share of a source's marks that are presumed right where the start is estimated and the
    source's own precision is not known."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "emission_lr")
        shares(self, "precision")

    def rates(self) -> dict[str, float]:
        """Learning rates of parts that have their own."""
        return super().rates() | {"emission": self.emission_lr}


class CHMM(StagedChain):
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

    Config: ClassVar[type[ChainConfig]] = CHMMConfig
    summary = "neural transitions and emissions by token (ACL 2021)"

    def begin(self, net: CHMMNet | FixedNet, train: Dataset) -> None:
        """Start exactly from the starting matrices."""
        self.starting(train).give(net)

    def stages(self, net: CHMMNet | FixedNet, packing: Packing) -> list[Stage]:
        """One, that trains everything."""
        loss = chain_loss(net, self.config.tau, sample=False)
        parts = {name.partition(".")[0] for name, _ in net.named_parameters()}
        return [self.stage("chain", loss, packing, parts)]

    def starting(self, train: Dataset) -> Start:
        """The starting matrices, the paper's or by the labels of a simple vote."""
        labels = fillings(train, start_labels(train.fine()))
        return Start(first_moves(self.config, train, labels), self.first_emissions(train, labels))

    def first_emissions(self, train: Dataset, labels: Fillings) -> Floats:
        """Emissions to start from; `labels` are those of a simple vote.  -> (K, L, L)"""
        return first_emissions(self.config, train, labels)

    def new_net(self, data: Dataset) -> CHMMNet | FixedNet:
        """A network for these sources and labels, as it is before it knows anything."""
        return prepared(CHMMNet(*sizes(data), self.config.look()), data, legal=self.config.legal)
