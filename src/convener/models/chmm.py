"""Conditional hidden Markov model: transitions and emissions read off each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import ConfigError
from convener.kernels import vote
from convener.kernels.confusion import emission_reliability
from convener.models.base import (
    FeatureConfig,
    Inference,
    LabelModel,
    Params,
    Reliability,
    warn_of_silent_sources,
)
from convener.models.majority_vote import simple_labels
from convener.nets.chmm import CHMMNet, FixedNet
from convener.settings import at_least
from convener.tables import PERCENT, Table
from convener.train.chain import Floats
from convener.train.chmm import (
    Start,
    held_out,
    load_weights,
    paper_emissions,
    paper_moves,
    prepared,
    sizes,
    vote_emissions,
    vote_moves,
    weights_of,
)
from convener.train.journal import journal_of
from convener.train.loop import Schedule, Stage, run
from convener.train.neural import ChainNet, Judge, Reading, chain_loss, infer_all
from convener.train.packing import Packing


@dataclass(frozen=True, kw_only=True)
class ChainConfig(FeatureConfig):
    """Settings of every chain with a network."""

    tau: float = 0.0
    """Objective log p(x) - tau H(z|x): 0 is plain likelihood, 1 the published objective."""
    epochs: int = 10
    """At most so many epochs a stage."""
    patience: int = 10
    """Epochs without a better score before a stage ends."""
    smooth: int = 1
    """Epochs over which scores are averaged before they are compared."""
    lr: float = 1e-3
    initial_lr: float = 1e-2
    """Learning rate of p(z0)."""
    decay: float = 1e-5
    batch: int = 64
    start: Literal["votes", "paper"] = "votes"
    """Starting matrices: estimated from the votes, or the paper's."""
    legal: bool = True
    """Forbid moves that BIO does not allow."""
    silence: float = 1.0
    """Weight of an O in inference, for sources whose silence is O; 1 is the paper's model. See
    `train.neural.Reading`."""
    edge: float = 0.0
    """Nats by which a token beside a mark, but itself not marked by anyone, is less likely part
    of an entity; 0 is the paper's model."""
    threads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "epochs", "patience", "smooth", "batch", "threads")
        at_least(self, 0, "tau", "lr", "initial_lr", "decay", "silence", "edge")

    def rates(self) -> dict[str, float]:
        """Learning rates of parts that have their own."""
        return {"initial": self.initial_lr}


@dataclass(frozen=True, kw_only=True)
class CHMMConfig(ChainConfig):
    """Settings of CHMM."""

    emission_lr: float = 1e-5
    """Learning rate of the emissions. Likelihood alone drives them to high precision and low
    recall: they change slowly."""
    precision: float = 0.9
    """Share of a source's marks that are presumed right, where the start is estimated."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "emission_lr")
        if not 0 < self.precision <= 1:
            raise ConfigError(f"precision must be in (0, 1], got {self.precision}")

    def rates(self) -> dict[str, float]:
        """Learning rates of parts that have their own."""
        return super().rates() | {"emission": self.emission_lr}


class CHMM(LabelModel):
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
    needs_features = True
    uses_valid_gold = True

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
        packing = Packing.of(train, given=self.reading.given(train), seed=config.seed)
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
        schedule = Schedule(
            name=self.name,
            seed=config.seed,
            batch=config.batch,
            decay=config.decay,
            score=Judge(net, valid, self.reading) if len(valid.tokens) else None,
            journal=journal_of(self.journal, config, train, valid),
        )
        run(net, [stage], schedule)
        return weights_of(net) | {"emissions": net.mean_emissions(packing.tokens).numpy()}

    def infer(self, params: Params, data: Dataset) -> Inference:
        """Best paths, marginals, and exact probabilities of the spans found."""
        net, data = self.restored(params, data)
        return Inference(*infer_all(net, data, self.reading, threads=self.config.threads))

    def reliability_of(self, params: Params, train: Dataset) -> Reliability:
        """As the emissions have it, averaged over train."""
        mass = self.infer(params, train).probabilities.sum(axis=0, dtype=np.float64)
        emissions = params["emissions"][: len(train.sources)]
        return Reliability(*emission_reliability(emissions, mass))

    def emissions(self) -> Table:
        """What each source says where the truth is known, averaged over train."""
        fitted = self.fitted
        tags = ["O", *(f"{prefix}-{kind}" for kind in fitted.types for prefix in "BI")]
        rows = [
            (source, truth, *fitted.params["emissions"][k, i].tolist())
            for k, source in enumerate(fitted.sources)
            for i, truth in enumerate(tags)
        ]
        return Table(
            title=f"Emissions of the sources, as estimated by {self.name}",
            columns=("source", "truth", *tags),
            rows=rows,
            formats=dict.fromkeys(tags, PERCENT),
            notes=("P(source says the column | the truth is the row)",),
        )

    @property
    def reading(self) -> Reading:
        """How silence becomes evidence."""
        return Reading(self.config.silence, self.config.edge)

    def starting(self, train: Dataset) -> Start:
        """The starting matrices, the paper's or by the labels of a simple vote."""
        if self.config.start == "paper":
            moves = paper_moves(train, legal=self.config.legal)
        else:
            moves = vote_moves(train, start_labels(train))
        return Start(moves, self.first_emissions(train))

    def first_emissions(self, train: Dataset) -> Floats:
        """Emissions to start from.  -> (K, L, L)"""
        if self.config.start == "paper":
            return paper_emissions(train)
        return vote_emissions(train, start_labels(train), precision=self.config.precision)

    def new_net(self, data: Dataset) -> CHMMNet | FixedNet:
        """A network for these sources and labels, as it is before it knows anything."""
        return prepared(CHMMNet(*sizes(data)), data, legal=self.config.legal)

    def restored(self, params: Params, data: Dataset) -> tuple[ChainNet, Dataset]:
        """The network, and data with the sources it knows."""
        net = self.new_net(data)
        load_weights(net, params)
        return net, data


def start_labels(train: Dataset) -> NDArray[np.int16]:
    """Labels of a simple vote to start from, with spans that begin where most do."""
    counts = vote.label_counts(train.votes, train.opinions(), len(train.tags))
    return vote.majority_begins(simple_labels(train), counts)
