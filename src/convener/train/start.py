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
from convener.insides import DIAGNOSTICS_PREFIX
from convener.kernels import priors
from convener.nets.chmm import CHMMNetwork, FixedEmissionNetwork
from convener.nets.moves import ILLEGAL_LOGIT, TransitionNetwork
from convener.train.chain import Floats
from convener.train.heard import WeightedLabels, emission_counts, mean_transition_counts

N = TypeVar("N", bound=TransitionNetwork)
MIN_PROBABILITY = 1e-6
"""Probabilities below this start as this."""
INITIAL_O_LOGIT = 9.2
"""Logit of O before a sentence: a probability of 0.9999 against one other label."""
NEGATIVE_VOTE_PRECISION = 0.95
"""How often a vote like "not PER" is presumed right: no count of what is said can tell."""


class InitialMatrices(NamedTuple):
    """Starting matrices: moves Psi* (L, L) and emissions Phi* (K, L, L) [source, truth, said]."""

    transition: Floats
    emission: Floats

    def initialize(self, net: CHMMNetwork | FixedEmissionNetwork) -> None:
        """Have the network start exactly here: its weights are zero, its biases are set."""
        with torch.no_grad():
            net.transition_layer.bias.copy_(floored_log(self.transition).reshape(-1))
            net.set_emission(floored_log(self.emission))


def initial_transition(config: Any, data: Dataset, weighted_labels: WeightedLabels) -> Floats:
    """Moves to start from, as the settings have it; `labels` are those of a simple vote."""
    if config.start == "paper":
        return paper_transition(data, legal=config.legal)
    return transition_from_votes(data, weighted_labels)


def initial_emission(config: Any, data: Dataset, weighted_labels: WeightedLabels) -> Floats:
    """Emissions to start from, as the settings have it.  -> (K, L, L)"""
    if config.start == "paper":
        return paper_emission(data)
    return emission_from_votes(data, weighted_labels, default_precision=config.precision)


def paper_transition(data: Dataset, *, legal: bool) -> Floats:
    """Psi* as in the paper.  -> (L, L)"""
    data = data.without_coarse()
    allowed = data.tags.legal_transitions if legal else np.ones_like(data.tags.legal_transitions)
    return priors.paper_transition_matrix(data.votes, data.offsets, allowed)


def paper_emission(data: Dataset) -> Floats:
    """Phi* as in the paper.  -> (K, L, L)"""
    labels = range(len(data.fine_tags))
    vote_counts = np.stack([(data.votes == label).sum(axis=0) for label in labels], axis=1)
    return priors.paper_emission_matrix(vote_counts.astype(np.float64))


def transition_from_votes(data: Dataset, weighted_labels: WeightedLabels) -> Floats:
    """Moves between the labels of a simple vote, one more for each legal one.  -> (L, L)"""
    return normalize_rows(mean_transition_counts(data, weighted_labels) + data.fine_tags.legal_transitions)


def emission_from_votes(data: Dataset, weighted_labels: WeightedLabels, *, default_precision: float) -> Floats:
    """What each source says where a simple vote has these labels.  -> (K, L, L)

    Such a vote holds all that sources say, so by its count none is ever wrong: instead,
    (1 - precision) of a source's marks are presumed to be where the truth is O; its own precision
    where that is known.
    """
    counts = emission_counts(data, weighted_labels, default_precision=default_precision)
    emission = normalize_rows(priors.smoothed_emission_counts(counts, false_votes=0.0))
    vote_frequencies = counts.sum(axis=1)
    vote_frequencies /= np.maximum(vote_frequencies.sum(axis=1, keepdims=True), 1)
    emission[:, 0] = (1 - data.prior_precision_or(default_precision))[:, None] * vote_frequencies
    emission[:, 0, 0] = 1 - emission[:, 0, 1:].sum(axis=1)
    return emission


def emission_from_gold(data: Dataset, *, smoothing: float) -> Floats:
    """What each source says where gold is known; so many votes more, spread as it speaks."""
    if data.gold is None:
        raise DataError("true emissions need gold, and there is none")
    counts = emission_counts(data, [(1.0, data.gold)], default_precision=NEGATIVE_VOTE_PRECISION)
    return normalize_rows(priors.smoothed_emission_counts(counts, false_votes=0.0, smoothing=smoothing))


def network_sizes(data: Dataset) -> tuple[int, int, int]:
    """Width of features, number of sources, number of labels: what a network must know."""
    input_dim = 0 if data.features is None else data.features.dim
    return input_dim, len(data.sources), len(data.fine_tags)


def initialize_chain(net: N, data: Dataset, *, legal: bool, uniform_initial: bool = False) -> N:
    """The network, to begin outside of entities or anywhere, without illegal moves if so set."""
    with torch.no_grad():
        net.initial_logits[0] = 0.0 if uniform_initial else INITIAL_O_LOGIT
        if legal:
            illegal_logits = np.where(data.fine_tags.legal_transitions, 0.0, ILLEGAL_LOGIT).reshape(-1)
            net.illegal_logits.copy_(torch.from_numpy(illegal_logits))
    return net


def weights_to_arrays(net: nn.Module) -> dict[str, NDArray[Any]]:
    """All weights and buffers, as a model's parameters."""
    return {name: tensor.numpy() for name, tensor in net.state_dict().items()}


def load_weights(net: nn.Module, params: Mapping[str, NDArray[Any]]) -> None:
    """Put a model's parameters back; what is kept beside them to look at is no weight."""
    weights = {
        name: torch.from_numpy(array)
        for name, array in params.items()
        if name != "emissions" and not name.startswith(DIAGNOSTICS_PREFIX)
    }
    net.load_state_dict(weights)


def floored_log(matrix: Floats) -> Tensor:
    """Logarithms to start from, none of them too low."""
    return torch.from_numpy(np.log(np.maximum(matrix, MIN_PROBABILITY)))


def normalize_rows(counts: Floats) -> Floats:
    """Rows that sum to one."""
    rows: Floats = counts / counts.sum(axis=-1, keepdims=True)
    return rows
