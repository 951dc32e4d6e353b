"""Conditional hidden Markov model: transitions and emissions read off each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from convener.data import Dataset
from convener.errors import ConfigError
from convener.models.base import Params, warn_of_silent_sources
from convener.models.majority_vote import start_labels
from convener.models.neural import ChainConfig, NeuralChain
from convener.nets.chmm import CHMMNet, FixedNet
from convener.settings import at_least
from convener.train.chain import Floats
from convener.train.heard import Fillings, fillings
from convener.train.holding import held_out
from convener.train.loop import Stage, run
from convener.train.neural import ChainNet, chain_loss
from convener.train.packing import Packing
from convener.train.start import (
    Start,
    load_weights,
    paper_emissions,
    paper_moves,
    prepared,
    sizes,
    vote_emissions,
    vote_moves,
    weights_of,
)


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
        if not 0 < self.precision <= 1:
            raise ConfigError(f"precision must be in (0, 1], got {self.precision}")

    def rates(self) -> dict[str, float]:
        """Learning rates of parts that have their own."""
        return super().rates() | {"emission": self.emission_lr}


class CHMM(NeuralChain):
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

    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """One stage from starting matrices, or on from an earlier fit."""
        config = self.config
        warn_of_silent_sources(train, self.name)
        torch.set_num_threads(config.threads)
        train, valid = held_out(train, valid, config.seed)
        net = self.new_net(train)
        if start is None:
            self.starting(train).give(net)
        else:
            load_weights(net, start)
        packing = Packing.of(train, self.reading.given(train), seed=config.seed)
        stage = Stage(
            name="chain",
            loss=chain_loss(net, config.tau, sample=False),
            packing=packing,
            trains=tuple({name.partition(".")[0] for name, _ in net.named_parameters()}),
            lr=config.lr,
            epochs=config.epochs,
            patience=config.patience,
            smooth=config.smooth,
            rates=config.rates(),
        )
        run(net, [stage], self.schedule(net, train, valid))
        return weights_of(net) | {"emissions": net.mean_emissions(packing.tokens).numpy()}

    def starting(self, train: Dataset) -> Start:
        """The starting matrices, the paper's or by the labels of a simple vote."""
        labels = fillings(train, start_labels(train.fine()))
        if self.config.start == "paper":
            moves = paper_moves(train, legal=self.config.legal)
        else:
            moves = vote_moves(train, labels)
        return Start(moves, self.first_emissions(train, labels))

    def first_emissions(self, train: Dataset, labels: Fillings) -> Floats:
        """Emissions to start from; `labels` are those of a simple vote.  -> (K, L, L)"""
        if self.config.start == "paper":
            return paper_emissions(train)
        return vote_emissions(train, labels, precision=self.config.precision)

    def new_net(self, data: Dataset) -> CHMMNet | FixedNet:
        """A network for these sources and labels, as it is before it knows anything."""
        return prepared(CHMMNet(*sizes(data), self.config.look()), data, legal=self.config.legal)

    def restored(self, params: Params, data: Dataset) -> tuple[ChainNet, Dataset]:
        """The network, and data with the sources it knows."""
        net = self.new_net(data)
        load_weights(net, params)
        return net, data
