"""How Sparse-CHMM is trained: its starting point and its stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor
from torch.nn import functional

from convener.data import ABSTAIN, Dataset
from convener.kernels import expansion, priors
from convener.kernels.wxor import Disagreement, disagreement
from convener.nets.sparse import SparseNet
from convener.train.heard import Fillings, said_counts, with_source
from convener.train.loop import Stage
from convener.train.neural import Reading, chain_loss
from convener.train.packing import Batch, Packing, sentence_features
from convener.train.start import (
    LEAST,
    logs,
    paper_emissions,
    paper_moves,
    prepared,
    shares,
    sizes,
    vote_moves,
)

PLAN = {"1": (1,), "1-2": (1, 2), "1-3": (1, 3), "1-2-3": (1, 2, 3), "1-23": (1, 23)}
PRETRAINING_EPOCHS, PRETRAINING_RATE = 5, 5e-4
"""Of the paper's pre-training by squared error."""
BLEND = 0.2
"""Share of the starting emissions in what the addon prior is pre-trained on."""
SMALL = -4.0
"""Logit of the addon prior's scales at first: to be raised where the emissions ask for it."""
MAJORITY = "majority-vote"
FREE = ("initial", "transition", "around")


def with_majority(data: Dataset, labels: NDArray[np.int16]) -> Dataset:
    """The data with these labels as the votes of one more source."""
    return with_source(data, MAJORITY, labels, "O")


def without_last(votes: NDArray[np.int16]) -> NDArray[np.int16]:
    """Votes with the last source silenced.  -> (N, K)"""
    votes = votes.copy()
    votes[:, -1] = ABSTAIN
    return votes


class Start:
    """Starting matrices: moves (L, L) and, by source, scores (K, C) and emissions (K, L, L)."""

    def __init__(
        self, config: Any, data: Dataset, labels: Fillings, columns: int, base: float
    ) -> None:
        size = len(data.fine_tags)
        if config.start == "paper":
            self.moves = paper_moves(data, legal=config.legal)
            self.emissions = paper_emissions(data)
            scores = np.einsum("kii->ki", self.emissions)
        else:
            counts = said_counts(data, labels, precision=config.precision)
            self.moves = vote_moves(data, labels)
            smooth = priors.smoothed_emissions(
                counts, false_votes=1 - config.precision, precision=data.presumed(np.nan)
            )
            self.emissions = shares(smooth)
            precision = data.presumed(config.precision)
            scores = priors.vote_scores(counts, counts.sum(axis=1), precision=precision)
        # An emission is its prior, diluted: ask for the prior that gives the wanted one.
        whole = config.expand + size * base
        wanted = np.clip((scores * whole - base) / config.expand, LEAST, 1 - LEAST)
        if columns != size:
            both = (wanted[:, 1::2] + wanted[:, 2::2]) / 2
            wanted = np.concatenate([wanted[:, :1], both], axis=1)
        self.scores = wanted

    def give(self, net: SparseNet) -> None:
        """Set the network's biases, so that with zero weights it starts here."""
        prior = net.prior
        logits = expansion.logits_for(
            torch.from_numpy(self.scores).float(),
            steepness=prior.steepness,
            root=prior.root,
            softmax=prior.softmax,
        )
        with torch.no_grad():
            net.transition.bias.copy_(logs(self.moves).reshape(-1))
            net.reliability.bias.copy_(logits.reshape(-1))
            net.expansion.bias.fill_(SMALL)


class Stages:
    """The stages of one fit: values for `train.loop.run`."""

    def __init__(
        self, config: Any, net: SparseNet, start: Start, train: Dataset, valid: Dataset
    ) -> None:
        self.config, self.net, self.start = config, net, start
        self.train, self.valid = train, valid
        reading = Reading(edge=config.edge, clash=config.clash)
        self.packing = Packing.of(train, reading.given(train), seed=config.seed)
        self.alone = self.packing
        if config.use_mv:
            self.alone = self.packing.with_votes(without_last(self.packing.votes))

    def all(self) -> list[Stage]:
        """As the settings have it."""
        chosen = [self._pretraining()] if self.config.pretraining else []
        for number in PLAN[self.config.stages]:
            if number == 1:
                trains = (*FREE, "reliability")
                chosen.append(self._stage("reliability", trains, smooth=self.config.smooth))
            elif number == 3:
                chosen.append(self._stage("transition", FREE, packing=self.alone))
            else:
                chosen += self._expansion(merged=number == 23)
        return chosen

    def _stage(self, name: str, trains: tuple[str, ...], **others: Any) -> Stage:
        config = self.config
        default: dict[str, Any] = {
            "loss": chain_loss(self.net, config.tau, sample=config.dirichlet),
            "packing": self.packing,
            "lr": config.lr,
            "epochs": config.epochs,
            "patience": config.patience,
            "rates": {"initial": config.initial_lr},
            "before": self._turn if name == "transition" else None,
        }
        return Stage(name=name, trains=trains, **(default | others))

    def _expansion(self, *, merged: bool) -> list[Stage]:
        """Stage 2: the table of weighted XOR, scales near the emissions so far, then the scales."""
        config, net = self.config, self.net

        def before() -> None:
            self._turn()
            mean = net.mean_emissions(self.packing.sentences)
            first = torch.from_numpy(self.start.emissions).float()
            net.target.copy_(BLEND * first + (1 - BLEND) * mean)
            net.wxor.copy_(torch.from_numpy(self._table()))

        def near(batch: Batch, _: Generator) -> Tensor:
            found = net.emissions(batch.sentences)
            return functional.mse_loss(found, net.target.expand_as(found))

        scales = ("initial", "expansion")
        return [
            self._stage(
                "addon prior, start",
                ("expansion",),
                loss=near,
                lr=PRETRAINING_RATE,
                epochs=PRETRAINING_EPOCHS,
                patience=PRETRAINING_EPOCHS,
                smooth=PRETRAINING_EPOCHS + 1,
                before=before,
            ),
            self._stage(
                "addon prior",
                (*scales, *FREE) if merged else scales,
                lr=config.expansion_lr,
                patience=max(1, config.patience // 4),
            ),
        ]

    def _turn(self) -> None:
        """The turning point of later stages."""
        if self.config.later_turn is not None:
            self.net.turn.fill_(self.config.later_turn / self.net.labels)

    def _table(self) -> NDArray[np.float64]:
        """Weighted XOR over the sentences that the settings name."""
        chosen = {"both": (self.train, self.valid), "train": (self.train,), "valid": (self.valid,)}
        total: Disagreement | None = None
        for data in (data.fine() for data in chosen[self.config.wxor]):
            with torch.no_grad():
                scores = self.net.scores(sentence_features(data))
            found = disagreement(
                data.votes, data.offsets, scores.numpy(), published=self.config.published_wxor
            )
            total = found if total is None else total + found
        return np.zeros(tuple(self.net.wxor.shape)) if total is None else total.table()

    def _pretraining(self) -> Stage:
        """The paper's way to the starting matrices."""
        moves = torch.from_numpy(self.start.moves).float()
        emissions = torch.from_numpy(self.start.emissions).float()

        def loss(batch: Batch, _: Generator) -> Tensor:
            psi = self.net.moves(batch).softmax(-1)
            phi = self.net.emissions(batch.sentences)
            return functional.mse_loss(psi, moves.expand_as(psi)) + functional.mse_loss(
                phi, emissions.expand_as(phi)
            )

        return self._stage(
            "pre-training",
            ("transition", "reliability"),
            loss=loss,
            lr=PRETRAINING_RATE,
            epochs=PRETRAINING_EPOCHS,
            patience=PRETRAINING_EPOCHS,
            smooth=PRETRAINING_EPOCHS + 1,
        )


def new_net(config: Any, data: Dataset, columns: int) -> SparseNet:
    """A network for these sources and labels, as it is before it knows anything."""
    net = SparseNet(
        *sizes(data), columns, config.prior(), config.turn / len(data.fine_tags), config.look()
    )
    return prepared(net, data, legal=config.legal, uniform=config.uniform_start)
