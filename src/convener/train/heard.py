"""What models hear of votes that may be coarse: marks, labels to start from, counts by them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset, Silence
from convener.kernels import coarse
from convener.kernels.evidence import SparseVotes, expected_emissions, sparse_votes
from convener.kernels.priors import move_counts

Floats = NDArray[np.float64]
Labels = NDArray[np.int16]
Fillings = list[tuple[float, Labels]]
"""Labels of all tokens, several times with weights that sum to one."""


def marks(data: Dataset) -> NDArray[np.bool_]:
    """Which votes say that there is an entity: not O, nor what may be O.  -> (N, K)"""
    if not data.coarse:
        return data.votes > 0
    entity = np.append(~data.allowed()[:, 0], False)  # the last for those who abstain
    return entity[data.votes]


def spoken_types(data: Dataset) -> NDArray[np.bool_]:
    """Types that some source says; all that a coarse label allows if it says none of them.

    -> (E,)
    """
    votes, fine = data.votes, len(data.fine_tags)
    spoken = np.zeros(len(data.fine_tags.types), bool)
    spoken[(votes[(votes > 0) & (votes < fine)] - 1) // 2] = True
    kinds = data.allowed()[:, 1::2] | data.allowed()[:, 2::2]
    others = [kinds[symbol] for symbol in np.unique(votes[marks(data) & (votes >= fine)])]
    for allowed in others:
        if not (allowed & spoken).any():
            spoken = spoken | allowed
    return spoken


def fillings(data: Dataset, labels: Labels) -> Fillings:
    """Labels of a simple vote with something for spans that only coarse votes mark."""
    if not data.coarse:
        return [(1.0, labels)]
    symbols, fine = np.zeros(len(labels), np.int16), len(data.fine_tags)
    for column, marked in zip(data.votes.T, marks(data).T, strict=True):
        np.copyto(symbols, column, where=marked & (column >= fine) & (symbols == 0))
    return coarse.fillings(labels, symbols, data.allowed(), data.offsets)


def mean_moves(data: Dataset, labels: Fillings) -> Floats:
    """How often each label follows each other one.  -> (L, L)"""
    size = len(data.fine_tags)
    return sum(
        (weight * move_counts(some, data.offsets, size) for weight, some in labels),
        start=np.zeros((size, size)),
    )


def mean_labels(data: Dataset, labels: Fillings) -> NDArray[np.float32]:
    """How probable each label is at each token.  -> (N, L)"""
    single = np.eye(len(data.fine_tags), dtype=np.float32)
    found = single[labels[0][1]] * np.float32(labels[0][0])
    for weight, some in labels[1:]:
        found[np.arange(len(found)), some] += np.float32(weight)
    return found


def said_counts(
    data: Dataset,
    labels: Fillings,
    *,
    precision: float,
    silence: Floats | None = None,
    votes: SparseVotes | None = None,
) -> Floats:
    """How often each source says what where these labels hold, coarse votes settled.

    precision of sources of which nobody says it; silence (K,) the weight of each source's O.
    -> (K, L, L)
    """
    allowed, truth = data.allowed(), mean_labels(data, labels)
    votes = sparse_votes(data.votes) if votes is None else votes
    counts = expected_emissions(votes, truth, symbols=len(allowed))
    if silence is not None:
        counts[:, :, 0] *= silence[:, None]
    mass = truth.sum(axis=0, dtype=np.float64)
    return coarse.settled(counts, mass, allowed, data.presumed(precision))


def with_source(data: Dataset, name: str, labels: NDArray[np.int16], silence: Silence) -> Dataset:
    """The data with these labels as the votes of one more source, the last."""
    votes = np.concatenate([data.votes, labels[:, None]], axis=1)
    return data.with_sources((*data.sources, name), votes, (*data.silence, silence))
