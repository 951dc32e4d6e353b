"""What models hear of votes that may be coarse: marks, labels to start from, counts by them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset, Silence
from convener.kernels import coarse
from convener.kernels.evidence import SparseVotes, expected_emission_counts, sparsify_votes
from convener.kernels.priors import transition_counts

Floats = NDArray[np.float64]
Labels = NDArray[np.int16]
WeightedLabels = list[tuple[float, Labels]]
"""Labels of all tokens, several times with weights that sum to one."""


def entity_votes(data: Dataset) -> NDArray[np.bool_]:
    """Which votes say that there is an entity: not O, nor what may be O.  -> (N, K)"""
    if not data.coarse:
        return data.votes > 0
    is_entity = np.append(~data.allowed_labels()[:, 0], False)  # the last for those who abstain
    return is_entity[data.votes]


def voted_types(data: Dataset) -> NDArray[np.bool_]:
    """Types that some source says; all that a coarse label allows if it says none of them.

    -> (E,)
    """
    votes, num_labels = data.votes, len(data.fine_tags)
    voted = np.zeros(len(data.fine_tags.types), bool)
    voted[(votes[(votes > 0) & (votes < num_labels)] - 1) // 2] = True
    allowed_types = data.allowed_labels()[:, 1::2] | data.allowed_labels()[:, 2::2]
    coarse_types = [allowed_types[symbol] for symbol in np.unique(votes[entity_votes(data) & (votes >= num_labels)])]
    for allowed in coarse_types:
        if not (allowed & voted).any():
            voted = voted | allowed
    return voted


def complete_coarse_spans(data: Dataset, labels: Labels) -> WeightedLabels:
    """Labels of a simple vote with something for spans that only coarse votes mark."""
    if not data.coarse:
        return [(1.0, labels)]
    symbols, num_labels = np.zeros(len(labels), np.int16), len(data.fine_tags)
    for column, marked in zip(data.votes.T, entity_votes(data).T, strict=True):
        np.copyto(symbols, column, where=marked & (column >= num_labels) & (symbols == 0))
    return coarse.complete_coarse_spans(labels, symbols, data.allowed_labels(), data.offsets)


def mean_transition_counts(data: Dataset, weighted_labels: WeightedLabels) -> Floats:
    """How often each label follows each other one.  -> (L, L)"""
    num_labels = len(data.fine_tags)
    return sum(
        (weight * transition_counts(labels, data.offsets, num_labels) for weight, labels in weighted_labels),
        start=np.zeros((num_labels, num_labels)),
    )


def mean_label_probabilities(data: Dataset, weighted_labels: WeightedLabels) -> NDArray[np.float32]:
    """How probable each label is at each token.  -> (N, L)"""
    one_hot = np.eye(len(data.fine_tags), dtype=np.float32)
    probabilities = one_hot[weighted_labels[0][1]] * np.float32(weighted_labels[0][0])
    for weight, labels in weighted_labels[1:]:
        probabilities[np.arange(len(probabilities)), labels] += np.float32(weight)
    return probabilities


def emission_counts(
    data: Dataset,
    weighted_labels: WeightedLabels,
    *,
    default_precision: float,
    unmarked_weight: Floats | None = None,
    votes: SparseVotes | None = None,
) -> Floats:
    """How often each source says what where these labels hold, coarse votes settled.

    precision of sources of which nobody says it; silence (K,) the weight of each source's O.
    -> (K, L, L)
    """
    allowed, probabilities = data.allowed_labels(), mean_label_probabilities(data, weighted_labels)
    votes = sparsify_votes(data.votes) if votes is None else votes
    counts = expected_emission_counts(votes, probabilities, num_symbols=len(allowed))
    if unmarked_weight is not None:
        counts[:, :, 0] *= unmarked_weight[:, None]
    label_counts = probabilities.sum(axis=0, dtype=np.float64)
    return coarse.assign_coarse_counts(counts, label_counts, allowed, data.prior_precision_or(default_precision))


def add_source(data: Dataset, name: str, labels: NDArray[np.int16], silence: Silence) -> Dataset:
    """The data with these labels as the votes of one more source, the last."""
    votes = np.concatenate([data.votes, labels[:, None]], axis=1)
    return data.with_sources((*data.sources, name), votes, (*data.silence, silence))
