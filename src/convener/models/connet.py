"""ConNet: one tagger seen through a matrix of each source, and attention to the sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Generator, Tensor

from convener.data import ABSTAIN, Dataset
from convener.errors import ConfigError
from convener.models.majority_vote import start_labels
from convener.models.neural import ChainConfig, StagedChain, WeakConfig
from convener.nets.connet import ViewsNet
from convener.settings import shares
from convener.train.field import labels_loss, new_field, set_moves
from convener.train.heard import fillings
from convener.train.loop import Stage
from convener.train.neural import Reading, marked
from convener.train.packing import Batch, Packing
from convener.train.sparse import with_majority
from convener.train.start import first_emissions, first_moves, logs, sizes


@dataclass(frozen=True, kw_only=True)
class ConNetConfig(WeakConfig):
    """Settings of ConNet."""

    initial_lr: float = 1e-2
    """Learning rate of first labels and moves, which are the same for all tokens."""
    doubt: float = 0.0
    partial: bool = True
    """Leave the O of a source whose silence is O open where another source marks something: it
    may not have known. Otherwise it is a label to be learned, as in the paper."""
    thaw: bool = False
    """Train everything in the aggregation phase, not attention alone."""
    hear: bool = True
    """Let a sentence's votes count when it is labelled. Otherwise the features alone decide, as
    in the paper."""
    precision: float = 0.9
    """Share of a source's marks that are presumed right where its own precision is not known: what
    votes are worth as evidence."""

    def __post_init__(self) -> None:
        super().__post_init__()
        shares(self, "precision")
        if self.tau:
            raise ConfigError(f"tau must be 0: connet learns labels, not votes, got {self.tau}")

    def rates(self) -> dict[str, float]:
        """Learning rates of parts that have their own."""
        return {"crf": self.initial_lr}


class ConNet(StagedChain):
    """A tagger for all sources, which sees each through a matrix, and weighs them by sentence.

    The field of source k has scores U A_k and moves M A_k, with U[t] = Linear(e[t] and its
    neighbours) and A_k = I at first. Decoupling: ascent on sum_k log p_k(labels of k | e).
    Aggregation: the consensus has A* = sum_k q_k A_k with q = softmax(Linear(e0)), e0 the
    sentence, and q is trained on labels of a simple vote. Labels are the best path of the
    consensus, here times the emissions of the votes (`hear`). Lan et al. 2020, "Learning to
    Contextually Aggregate Multi-Source Supervision for Sequence Labeling".

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> ConNet(encoder="hashing", epochs=3).fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config: ClassVar[type[ChainConfig]] = ConNetConfig
    summary = "one neural CRF seen through a matrix of each source, and attention (ACL 2020)"

    def new_net(self, data: Dataset) -> ViewsNet:
        """A network for these sources and labels, as it is before it knows anything."""
        config, (width, sources, _) = self.config, sizes(data)
        crf = new_field(data, legal=config.legal)
        return ViewsNet(width, sources, crf, config.look(), hears=config.hear)

    def begin(self, net: ViewsNet, train: Dataset) -> None:
        """Start as a Markov chain with moves of a simple vote; emissions are its, too."""
        labels = fillings(train, start_labels(train.fine()))
        set_moves(net.crf, first_moves(self.config, train, labels))
        net.set_emissions(logs(first_emissions(self.config, train, labels)).float())

    def packed(self, train: Dataset) -> Packing:
        """The sentences to train on, with the labels of sources and, last, the consensus."""
        return Packing.of(self._told(train), seed=self.config.seed)

    def stages(self, net: ViewsNet, packing: Packing) -> list[Stage]:
        """Decoupling, then aggregation."""
        tagger = ("scorer", "crf", "views")

        def decoupling(batch: Batch, generator: Generator | None) -> Tensor:
            return sources_loss(net, batch, generator)

        def aggregation(batch: Batch, generator: Generator | None) -> Tensor:
            return consensus_loss(net, batch, generator)

        later = (*tagger, "attention") if self.config.thaw else ("attention",)
        return [
            self.stage("decoupling", decoupling, packing, tagger),
            self.stage("aggregation", aggregation, packing, later),
        ]

    def judge(self, net: ViewsNet, valid: Dataset) -> Callable[[], float]:
        """Without gold by the labels of sources and consensus on held-out sentences."""
        if valid.gold is not None:
            return super().judge(net, valid)
        packing = Packing.of(self._told(valid))

        def score() -> float:
            total = 0.0
            with torch.no_grad():
                for batch in packing.batches(self.config.batch):
                    loss = sources_loss(net, batch, None) + consensus_loss(net, batch, None)
                    total -= float(loss) * len(batch.sentences)
            return total / len(valid.tokens)

        return score

    @property
    def reading(self) -> Reading:
        """How silence becomes evidence; not at all where votes are not heard."""
        return super().reading if self.config.hear else Reading()

    def _told(self, data: Dataset) -> Dataset:
        """The data with what sources are taken to say, and the consensus as the last source."""
        votes, seen = data.votes, marked(data)
        consensus = start_labels(data.fine())
        consensus[seen & ~marked(data.fine())] = ABSTAIN  # only coarse votes speak
        if self.config.partial:
            silent = (votes == 0) & data.quiet() & seen[:, None]
            votes = np.where(silent, np.int16(ABSTAIN), votes)
        told = data.with_sources(data.sources, votes, data.silence)
        return with_majority(told, consensus)


def sources_loss(net: ViewsNet, batch: Batch, generator: Generator | None) -> Tensor:
    """Minus the mean log-probability of each source's labels, summed over sources."""
    scores = net.scorer(batch, generator)
    fields = (net.seen(scores, view, batch.offsets) for view in net.views)
    losses = [labels_loss(*field, batch.votes[:, k], batch) for k, field in enumerate(fields)]
    return torch.stack(losses).sum()


def consensus_loss(net: ViewsNet, batch: Batch, generator: Generator | None) -> Tensor:
    """Minus the mean log-probability of the consensus, the last column of the votes."""
    return labels_loss(*net.consensus(batch, generator), batch.votes[:, -1], batch)
