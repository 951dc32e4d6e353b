"""What chain models share: parameters from counts, and inference with constant moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.kernels.chain import posterior
from convener.kernels.coarse import widened
from convener.kernels.compiled import Array
from convener.kernels.decode import span_marginals, viterbi

BEGINS_OUTSIDE = 1 - 1e-4
"""Probability that the hidden label before a sentence is O."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Chain:
    """Parameters of a chain, as counts or normalised.

    moves (L, L); emissions (K, L, L) [source, truth, said]; mass (L,) how often each label is
    true; silence (K,) the weight of each source's O as evidence.
    """

    moves: Floats
    emissions: Floats
    mass: Floats
    silence: Floats

    @classmethod
    def of(cls, params: Mapping[str, NDArray[Any]]) -> Chain:
        """The chain in a model's parameters."""
        return cls(params["moves"], params["emissions"], params["mass"], params["silence"])

    def params(self) -> dict[str, NDArray[Any]]:
        """As a model's parameters."""
        return dict(vars(self))

    def log_emissions(self, allowed: NDArray[np.bool_]) -> Floats:
        """Logarithms of the emissions of all that is said, those of O weighted.

        allowed (S, L), see `kernels.coarse` -> (K, L, S)
        """
        logs = log_of(widened(self.emissions, allowed))
        logs[:, :, 0] *= self.silence[:, None]
        return logs

    def normalised(self, allowed: NDArray[np.bool_]) -> Chain:
        """Counts as probabilities; one count is added for every allowed move."""
        moves = np.where(allowed, self.moves + 1, 0.0)
        emissions = self.emissions / self.emissions.sum(axis=2, keepdims=True)
        return replace(self, moves=moves / moves.sum(axis=1, keepdims=True), emissions=emissions)


class Decoded(NamedTuple):
    """Labels (N,), marginals (N, L), and the posterior probability of each span found."""

    labels: NDArray[np.int16]
    marginals: NDArray[np.float32]
    scores: NDArray[np.float32]

    @classmethod
    def joined(cls, parts: Iterable[Decoded], labels: int) -> Decoded:
        """Consecutive parts of a dataset with so many labels as one."""
        none = np.zeros(0, np.float32)
        nothing = cls(np.zeros(0, np.int16), np.zeros((0, labels), np.float32), none)
        return cls(*(np.concatenate(arrays) for arrays in zip(nothing, *parts, strict=True)))


def decoded(
    trans: Array,
    log_like: NDArray[np.float32],
    data: Dataset,
    threads: int,
    begin: Array | None = None,
) -> Decoded:
    """Best legal paths, marginals and span probabilities; trans as `kernels.chain` takes it.

    begin (L,): log-probabilities of the hidden label before a sentence, O unless given.
    """
    tags = data.fine_tags
    begin = log_begin(len(tags)) if begin is None else begin
    chain = (begin, trans, log_like, data.offsets)
    marginals = posterior(*chain, threads=threads).marginals
    path = viterbi(*chain, legal=tags.legal, legal_start=tags.legal_start, threads=threads)
    labels, _ = tags.repair(path.labels, data.offsets)
    spans = tags.spans(labels, data.offsets)
    scores = span_marginals(
        *chain,
        sentence=spans.sentence,
        start=spans.start,
        end=spans.end,
        type=spans.type,
        marginals=marginals,
        threads=threads,
    )
    marginals /= marginals.sum(axis=1, keepdims=True)
    return Decoded(labels, marginals, np.clip(scores, 0, 1).astype(np.float32))


def log_begin(size: int) -> Floats:
    """Log-probabilities of the hidden label before a sentence: almost surely O.  -> (L,)"""
    begin = np.full(size, (1 - BEGINS_OUTSIDE) / (size - 1))
    begin[0] = BEGINS_OUTSIDE
    return log_of(begin)


def log_of(probabilities: Floats) -> Floats:
    """Logarithms, -inf where a probability is 0."""
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(probabilities)
    return logs
