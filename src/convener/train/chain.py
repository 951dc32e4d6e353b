"""What chain models share: parameters from counts, and inference with constant moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.kernels.chain import forward_backward
from convener.kernels.coarse import coarse_emission
from convener.kernels.compiled import Array
from convener.kernels.decode import span_posteriors, viterbi

P_INITIAL_O = 1 - 1e-4
"""Probability that the hidden label before a sentence is O."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HMMParams:
    """Parameters of a chain, as counts or normalised.

    moves (L, L); emissions (K, L, L) [source, truth, said]; mass (L,) how often each label is
    true; silence (K,) the weight of each source's O as evidence.
    """

    transition: Floats
    emission: Floats
    label_counts: Floats
    unmarked_weight: Floats

    @classmethod
    def from_arrays(cls, params: Mapping[str, NDArray[Any]]) -> HMMParams:
        """The chain in a model's parameters."""
        return cls(params["moves"], params["emissions"], params["mass"], params["silence"])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """As a model's parameters."""
        return {
            "moves": self.transition,
            "emissions": self.emission,
            "mass": self.label_counts,
            "silence": self.unmarked_weight,
        }

    def log_emission(self, allowed: NDArray[np.bool_]) -> Floats:
        """Logarithms of the emissions of all that is said, those of O weighted.

        allowed (S, L), see `kernels.coarse` -> (K, L, S)
        """
        log_emission = safe_log(coarse_emission(self.emission, allowed))
        log_emission[:, :, 0] *= self.unmarked_weight[:, None]
        return log_emission

    def normalize(self, allowed_transitions: NDArray[np.bool_]) -> HMMParams:
        """Counts as probabilities; one count is added for every allowed move."""
        transition = np.where(allowed_transitions, self.transition + 1, 0.0)
        emission = self.emission / self.emission.sum(axis=2, keepdims=True)
        return replace(self, transition=transition / transition.sum(axis=1, keepdims=True), emission=emission)


class DecodeResult(NamedTuple):
    """Labels (N,), marginals (N, L), and the posterior probability of each span found."""

    labels: NDArray[np.int16]
    probabilities: NDArray[np.float32]
    span_scores: NDArray[np.float32]

    @classmethod
    def concat(cls, parts: Iterable[DecodeResult], num_labels: int) -> DecodeResult:
        """Consecutive parts of a dataset with so many labels as one."""
        empty_scores = np.zeros(0, np.float32)
        empty = cls(np.zeros(0, np.int16), np.zeros((0, num_labels), np.float32), empty_scores)
        return cls(*(np.concatenate(arrays) for arrays in zip(empty, *parts, strict=True)))


def decode(
    transition: Array,
    log_evidence: NDArray[np.float32],
    data: Dataset,
    threads: int,
    log_initial: Array | None = None,
) -> DecodeResult:
    """Best legal paths, marginals and span probabilities; trans as `kernels.chain` takes it.

    begin (L,): log-probabilities of the hidden label before a sentence, O unless given.
    """
    tags = data.fine_tags
    log_initial = default_log_initial(len(tags)) if log_initial is None else log_initial
    potentials = (log_initial, transition, log_evidence, data.offsets)
    marginals = forward_backward(*potentials, num_threads=threads).marginals
    path = viterbi(
        *potentials,
        legal_transitions=tags.legal_transitions,
        legal_first=tags.legal_first,
        num_threads=threads,
    )
    labels, _ = tags.repair(path.labels, data.offsets)
    spans = tags.spans(labels, data.offsets)
    span_scores = span_posteriors(
        *potentials,
        sentence=spans.sentence,
        start=spans.start,
        end=spans.end,
        type=spans.type,
        marginals=marginals,
        num_threads=threads,
    )
    marginals /= marginals.sum(axis=1, keepdims=True)
    return DecodeResult(labels, marginals, np.clip(span_scores, 0, 1).astype(np.float32))


def default_log_initial(num_labels: int) -> Floats:
    """Log-probabilities of the hidden label before a sentence: almost surely O.  -> (L,)"""
    probabilities = np.full(num_labels, (1 - P_INITIAL_O) / (num_labels - 1))
    probabilities[0] = P_INITIAL_O
    return safe_log(probabilities)


def safe_log(probabilities: Floats) -> Floats:
    """Logarithms, -inf where a probability is 0."""
    with np.errstate(divide="ignore"):
        logs: Floats = np.log(probabilities)
    return logs
