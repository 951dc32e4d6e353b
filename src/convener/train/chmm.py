"""How CHMM is trained: its starting matrices, and what is held out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from convener.data import Dataset
from convener.kernels import priors
from convener.kernels.evidence import expected_emissions, sparse_votes
from convener.nets.chmm import CHMMNet, MovesNet
from convener.nets.sparse import NEVER
from convener.train.chain import Floats
from convener.train.sparse import LEAST, OUTSIDE

HELD_OUT = 0.1
"""Share of train that decides when to stop, where there is no valid."""


class Start(NamedTuple):
    """Starting matrices: moves Psi* (L, L) and emissions Phi* (K, L, L) [source, truth, said]."""

    moves: Floats
    emissions: Floats

    @classmethod
    def paper(cls, data: Dataset, *, legal: bool) -> Start:
        """As in the paper."""
        size = len(data.tags)
        allowed = data.tags.legal if legal else np.ones((size, size), bool)
        usual = np.stack([(data.votes == label).sum(axis=0) for label in range(size)], axis=1)
        return cls(
            priors.paper_moves(data.votes, data.offsets, allowed),
            priors.paper_emissions(usual.astype(np.float64)),
        )

    @classmethod
    def votes(cls, data: Dataset, labels: NDArray[np.int16], *, precision: float) -> Start:
        """Counted against the labels of a simple vote.

        Such a vote holds all that sources say, so by its count none is ever wrong: instead,
        (1 - precision) of a source's marks are presumed to be where the truth is O.
        """
        moves = priors.move_counts(labels, data.offsets, len(data.tags)) + data.tags.legal
        counts = true_counts(data, labels)
        emissions = priors.smoothed_emissions(counts, false_votes=0.0)
        emissions /= emissions.sum(axis=2, keepdims=True)
        usual = counts.sum(axis=1)
        usual /= np.maximum(usual.sum(axis=1, keepdims=True), 1)
        emissions[:, 0] = (1 - precision) * usual
        emissions[:, 0, 0] = 1 - emissions[:, 0, 1:].sum(axis=1)
        return cls(moves / moves.sum(axis=1, keepdims=True), emissions)

    def give(self, net: MovesNet) -> None:
        """Set the biases, so that with zero weights the network starts exactly here."""
        with torch.no_grad():
            net.transition.bias.copy_(_logs(self.moves))
            if isinstance(net, CHMMNet):
                net.emission.bias.copy_(_logs(self.emissions))


def true_counts(data: Dataset, labels: NDArray[np.int16]) -> Floats:
    """How often each source says what where these labels hold.  -> (K, L, L)"""
    truth = np.eye(len(data.tags), dtype=np.float32)[labels]
    return expected_emissions(sparse_votes(data.votes), truth)


def prepared(net: MovesNet, data: Dataset, *, legal: bool) -> None:
    """Begin outside of entities, and forbid moves that BIO does not allow if so set."""
    with torch.no_grad():
        net.initial[0] = OUTSIDE
        if legal:
            floor = np.where(data.tags.legal, 0.0, NEVER).reshape(-1)
            net.floor.copy_(torch.from_numpy(floor))


def held_out(train: Dataset, valid: Dataset | None, seed: int) -> tuple[Dataset, Dataset]:
    """What to train on, and what to judge by: valid, or else a tenth of train."""
    return train.split(1 - HELD_OUT, seed=seed) if valid is None else (train, valid)


def weights_of(net: torch.nn.Module) -> dict[str, NDArray[Any]]:
    """All weights and buffers, as a model's parameters."""
    return {name: tensor.numpy() for name, tensor in net.state_dict().items()}


def _logs(matrix: Floats) -> torch.Tensor:
    return torch.from_numpy(np.log(np.maximum(matrix, LEAST))).reshape(-1)
