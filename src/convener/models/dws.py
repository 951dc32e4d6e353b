"""Deep weak supervision: a conditional random field over the truth, learned from the votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from convener.data import Dataset
from convener.models.majority_vote import start_labels
from convener.models.neural import ChainConfig, StagedChain, WeakConfig
from convener.nets.dws import DWSNet
from convener.settings import at_least, shares
from convener.train.field import new_field, set_moves, votes_loss
from convener.train.heard import fillings
from convener.train.loop import Stage
from convener.train.neural import Unexplained
from convener.train.packing import Batch, Packing
from convener.train.start import Start, first_emissions, first_moves, logs, sizes


@dataclass(frozen=True, kw_only=True)
class DWSConfig(WeakConfig):
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
        at_least(self, 0, "emission_lr")
        shares(self, "precision")

    def rates(self) -> dict[str, float]:
        """Learning rates of parts that have their own."""
        return {"crf": self.initial_lr, "emission": self.emission_lr}


class DWS(StagedChain):
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

    Config: ClassVar[type[ChainConfig]] = DWSConfig
    summary = "a neural CRF over the truth, learned with the sources' emissions (ACL 2021)"

    def new_net(self, data: Dataset) -> DWSNet:
        """A network for these sources and labels, as it is before it knows anything."""
        width, sources, _ = sizes(data)
        crf = new_field(data, legal=self.config.legal)
        return DWSNet(width, sources, crf, self.config.look())

    def begin(self, net: DWSNet, train: Dataset) -> None:
        """Start as a Markov chain of starting matrices, whatever the features."""
        start = self.starting(train)
        set_moves(net.crf, start.moves)
        with torch.no_grad():
            net.emission.copy_(logs(start.emissions))

    def starting(self, train: Dataset) -> Start:
        """The starting matrices, those of the paper of CHMM or by the labels of a simple vote."""
        config, labels = self.config, fillings(train, start_labels(train.fine()))
        moves = first_moves(config, train, labels)
        return Start(moves, first_emissions(config, train, labels))

    def stages(self, net: DWSNet, packing: Packing) -> list[Stage]:
        """One, that trains everything."""

        def loss(batch: Batch, generator: Generator) -> Tensor:
            return votes_loss(net, batch, generator, self.config.tau)

        return [self.stage("field", loss, packing, ("scorer", "crf", "emission"))]

    def unexplained(self, net: DWSNet) -> Unexplained:
        """How badly held-out votes are explained, given the features."""
        return lambda batch: votes_loss(net, batch, None, 0.0)
