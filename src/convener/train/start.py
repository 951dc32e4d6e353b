"""Where chains with a network start: matrices, weights, and what is held out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from convener.data import Dataset
from convener.errors import DataError
from convener.insides import SEEN
from convener.kernels import priors
from convener.nets.chmm import CHMMNet, FixedNet
from convener.nets.moves import NEVER, MovesNet
from convener.train.chain import Floats
from convener.train.heard import Fillings, mean_moves, said_counts

N = TypeVar("N", bound=MovesNet)
LEAST = 1e-6
"""Probabilities below this start as this."""
OUTSIDE = 9.2
"""Logit of O before a sentence: a probability of 0.9999 against one other label."""
RIGHT = 0.95
"""How often a vote like "not PER" is presumed right: no count of what is said can tell."""


class Start(NamedTuple):
    """Starting matrices: moves Psi* (L, L) and emissions Phi* (K, L, L) [source, truth, said]."""

    moves: Floats
    emissions: Floats

    def give(self, net: CHMMNet | FixedNet) -> None:
        """Have the network start exactly here: its weights are zero, its biases are set."""
        with torch.no_grad():
            net.transition.bias.copy_(logs(self.moves).reshape(-1))
            net.set_emissions(logs(self.emissions))


def first_moves(config: Any, data: Dataset, labels: Fillings) -> Floats:
    """Moves to start from, as the settings have it; `labels` are those of a simple vote."""
    if config.start == "paper":
        return paper_moves(data, legal=config.legal)
    return vote_moves(data, labels)


def first_emissions(config: Any, data: Dataset, labels: Fillings) -> Floats:
    """Emissions to start from, as the settings have it.  -> (K, L, L)"""
    if config.start == "paper":
        return paper_emissions(data)
    return vote_emissions(data, labels, precision=config.precision)


def paper_moves(data: Dataset, *, legal: bool) -> Floats:
    """Psi* as in the paper.  -> (L, L)"""
    data = data.fine()
    allowed = data.tags.legal if legal else np.ones_like(data.tags.legal)
    return priors.paper_moves(data.votes, data.offsets, allowed)


def paper_emissions(data: Dataset) -> Floats:
    """Phi* as in the paper.  -> (K, L, L)"""
    labels = range(len(data.fine_tags))
    usual = np.stack([(data.votes == label).sum(axis=0) for label in labels], axis=1)
    return priors.paper_emissions(usual.astype(np.float64))


def vote_moves(data: Dataset, labels: Fillings) -> Floats:
    """Moves between the labels of a simple vote, one more for each legal one.  -> (L, L)"""
    return shares(mean_moves(data, labels) + data.fine_tags.legal)


def vote_emissions(data: Dataset, labels: Fillings, *, precision: float) -> Floats:
    """What each source says where a simple vote has these labels.  -> (K, L, L)

    Such a vote holds all that sources say, so by its count none is ever wrong: instead,
    (1 - precision) of a source's marks are presumed to be where the truth is O; its own precision
    where that is known.
    """
    counts = said_counts(data, labels, precision=precision)
    emissions = shares(priors.smoothed_emissions(counts, false_votes=0.0))
    usual = counts.sum(axis=1)
    usual /= np.maximum(usual.sum(axis=1, keepdims=True), 1)
    emissions[:, 0] = (1 - data.presumed(precision))[:, None] * usual
    emissions[:, 0, 0] = 1 - emissions[:, 0, 1:].sum(axis=1)
    return emissions


def true_emissions(data: Dataset, *, smoothing: float) -> Floats:
    """What each source says where gold is known; so many votes more, spread as it speaks."""
    if data.gold is None:
        raise DataError("true emissions need gold, and there is none")
    counts = said_counts(data, [(1.0, data.gold)], precision=RIGHT)
    return shares(priors.smoothed_emissions(counts, false_votes=0.0, floor=smoothing))


def sizes(data: Dataset) -> tuple[int, int, int]:
    """Width of features, number of sources, number of labels: what a network must know."""
    width = 0 if data.features is None else data.features.width
    return width, len(data.sources), len(data.fine_tags)


def prepared(net: N, data: Dataset, *, legal: bool, uniform: bool = False) -> N:
    """The network, to begin outside of entities or anywhere, without illegal moves if so set."""
    with torch.no_grad():
        net.initial[0] = 0.0 if uniform else OUTSIDE
        if legal:
            floor = np.where(data.fine_tags.legal, 0.0, NEVER).reshape(-1)
            net.floor.copy_(torch.from_numpy(floor))
    return net


def weights_of(net: nn.Module) -> dict[str, NDArray[Any]]:
    """All weights and buffers, as a model's parameters."""
    return {name: tensor.numpy() for name, tensor in net.state_dict().items()}


def load_weights(net: nn.Module, params: Mapping[str, NDArray[Any]]) -> None:
    """Put a model's parameters back; what is kept beside them to look at is no weight."""
    weights = {
        name: torch.from_numpy(array)
        for name, array in params.items()
        if name != "emissions" and not name.startswith(SEEN)
    }
    net.load_state_dict(weights)


def logs(matrix: Floats) -> Tensor:
    """Logarithms to start from, none of them too low."""
    return torch.from_numpy(np.log(np.maximum(matrix, LEAST)))


def shares(counts: Floats) -> Floats:
    """Rows that sum to one."""
    found: Floats = counts / counts.sum(axis=-1, keepdims=True)
    return found
