"""What label models share whose chain has a network."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from convener import insides
from convener.data import Dataset
from convener.errors import ConfigError
from convener.models.base import (
    FeatureConfig,
    Inference,
    LabelModel,
    Params,
    warn_of_silent_sources,
)
from convener.nets.moves import Look
from convener.settings import at_least, shares
from convener.tables import PERCENT, Table
from convener.tags import TagSet
from convener.train.holding import held_out
from convener.train.journal import journal_of
from convener.train.loop import Schedule, Stage, curves, run
from convener.train.neural import (
    ChainNet,
    Judge,
    Loss,
    Reading,
    Unexplained,
    chain_loss,
    infer_all,
)
from convener.train.packing import Packing
from convener.train.start import load_weights, weights_of


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
    context: int = 0
    """Neighbours on either side of a token that its move depends on, too; 0 is the paper's."""
    dropout: float = 0.0
    """Share of a token's features that a training step leaves out, all else rescaled."""
    legal: bool = True
    """Forbid moves that BIO does not allow."""
    silence: float = 1.0
    """Weight of an O in inference, for sources whose silence is O; 1 is the paper's model. See
    `train.neural.Reading`."""
    edge: float = 0.0
    """Nats by which a token beside a mark, but itself not marked by anyone, is less likely part
    of an entity, and a span less likely to begin behind another of its type where some source's
    span goes on; 0 is the paper's model."""
    clash: float = 0.0
    """Nats by which a marked token is less likely of a type that no source names there, and any
    token of one that some source denies; 0 is the paper's model."""
    doubt: float = 0.0
    """Nats against an entity that begins where no source marks anything, in inference; 0 is the
    paper's model."""
    trust: float = 1.0
    """Probability that the sources are as the model pictures them, their mistakes independent above
    all: what it thinks an entity is one with so much less probability. 1 is the paper's model."""
    threads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "epochs", "patience", "smooth", "batch", "threads")
        at_least(self, 0, "tau", "lr", "initial_lr", "decay", "silence", "edge", "doubt", "clash")
        at_least(self, 0, "context")
        shares(self, "trust")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout must be in [0, 1), got {self.dropout}")

    def look(self) -> Look:
        """What of the features moves depend on."""
        return Look(context=self.context, dropout=self.dropout)

    def rates(self) -> dict[str, float]:
        """Learning rates of parts that have their own."""
        return {"initial": self.initial_lr}


@dataclass(frozen=True, kw_only=True)
class WeakConfig(ChainConfig):
    """Settings that serve weak sources best, with what we added: `docs/research-notes.md`."""

    epochs: int = 20
    patience: int = 5
    context: int = 2
    dropout: float = 0.5
    silence: float = 0.0
    edge: float = 5.0
    clash: float = 5.0
    doubt: float = 0.4
    trust: float = 0.92


class NeuralChain(LabelModel):
    """A chain whose moves a network reads off each token.

    A model of the kind has its own `learn`, which trains by `schedule`, and `restored`. Beside the
    weights it keeps `emissions`, averaged over train.  (K, L, L) [source, truth, said]
    """

    Config: ClassVar[type[ChainConfig]] = ChainConfig
    needs_features = True
    hears_coarse = True
    uses_valid_gold = True

    @abstractmethod
    def restored(self, params: Params, data: Dataset) -> tuple[ChainNet, Dataset]:
        """The network, and data with the sources it knows."""

    def schedule(self, net: Any, train: Dataset, valid: Dataset) -> Schedule:
        """How all stages are trained, and by what they are judged."""
        config = self.config
        return Schedule(
            name=self.name,
            seed=config.seed,
            batch=config.batch,
            decay=config.decay,
            score=self.judge(net, valid) if len(valid.tokens) else None,
            journal=journal_of(self.journal, config, train, valid),
        )

    def judge(self, net: Any, valid: Dataset) -> Callable[[], float]:
        """How good the network is on held-out data; higher is better."""
        return Judge(net, valid, self.reading, self.unexplained(net))

    def unexplained(self, net: Any) -> Unexplained:
        """How badly held-out votes are explained: by that a fit without gold is judged."""
        loss = chain_loss(net, 0.0, sample=False)
        return lambda batch: loss(batch, torch.Generator())

    def infer(self, params: Params, data: Dataset) -> Inference:
        """Best paths, marginals, and exact probabilities of the spans found."""
        net, data = self.restored(params, data)
        found = infer_all(net, data, self.reading, threads=self.config.threads)
        trust = np.float32(self.config.trust)
        probabilities = found.marginals * trust
        probabilities[:, 0] += 1 - trust
        return Inference(found.labels, probabilities, found.scores * trust)

    def emissions(self) -> Table:
        """What each source says where the truth is known, averaged over train."""
        fitted = self.fitted
        tags = TagSet(fitted.types).names
        rows = [
            (source, truth, *fitted.params["emissions"][k, i].tolist())
            for k, source in enumerate(fitted.heard)
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
        config = self.config
        return Reading(config.silence, config.edge, config.clash, config.doubt)


class StagedChain(NeuralChain):
    """One that says what its network is, where it begins, and by what stages it is trained."""

    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """All stages from where the votes let them begin, or on from an earlier fit."""
        config = self.config
        warn_of_silent_sources(train, self.name)
        torch.set_num_threads(config.threads)
        train, valid = held_out(train, valid, config.seed)
        net = self.new_net(train)
        if start is None:
            self.begin(net, train)
        else:
            load_weights(net, start)
        packing = self.packed(train)
        before = insides.start(net.mean_emissions(packing.tokens).numpy())
        history = run(net, self.stages(net, packing), self.schedule(net, train, valid))
        emissions = net.mean_emissions(packing.tokens).numpy()
        return weights_of(net) | {"emissions": emissions} | before | curves(history)

    @abstractmethod
    def new_net(self, data: Dataset) -> Any:
        """A network for these sources and labels, as it is before it knows anything."""

    @abstractmethod
    def begin(self, net: Any, train: Dataset) -> None:
        """Give a network its start."""

    @abstractmethod
    def stages(self, net: Any, packing: Packing) -> list[Stage]:
        """How the network is trained."""

    def packed(self, train: Dataset) -> Packing:
        """The sentences to train on, shuffled, with what is known of them beforehand."""
        return Packing.of(train, self.reading.given(train), seed=self.config.seed)

    def restored(self, params: Params, data: Dataset) -> tuple[Any, Dataset]:
        """The network, and data with the sources it knows."""
        net = self.new_net(data)
        load_weights(net, params)
        return net, data

    def stage(self, name: str, loss: Loss, packing: Packing, trains: Iterable[str]) -> Stage:
        """A stretch of training, as the settings have it."""
        config = self.config
        return Stage(
            name=name,
            loss=loss,
            packing=packing,
            trains=tuple(trains),
            lr=config.lr,
            epochs=config.epochs,
            patience=config.patience,
            smooth=config.smooth,
            rates=config.rates(),
        )
