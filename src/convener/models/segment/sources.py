"""How sources mark spans: expected counts, priors, log-probabilities, and scores of candidates."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from convener.inference.span_lattice import SpanPosterior, span_posterior
from convener.models.segment.observations import EXACT, SHORT, Floats, SpanObservations, sum_by

NUM_WRONG_BOUNDS = 3.0
"""A wrong boundary is spread evenly over this many positions."""
ECHO = 0.3
"""Assumed probability that a source repeats the wrong bounds of another one: equal errors are rarely coincidence."""


class SourceCounts(NamedTuple):
    """Counts of the sources: expected counts of spans, detections and false marks; also used as prior counts.

    spans        (E,) true spans
    tokens       (1,) tokens in which they lie
    detected     (K, E) true spans that a source marked
    missed       (K, E) true spans that it read and did not mark
    types        (K, E, E) detections [source, true type, marked type]
    boundary     (K, 4) detections by boundary, EXACT to CROSSING
    extra_marks  (K, 2) extra marks on a span, and main marks
    false        (K, E) marks that overlap no true span
    exposure     (K, E) tokens in which a source could mark that type
    """

    spans: Floats
    tokens: Floats
    detected: Floats
    missed: Floats
    types: Floats
    boundary: Floats
    extra_marks: Floats
    false: Floats
    exposure: Floats

    def add(self, other: SourceCounts) -> SourceCounts:
        """The sum of both counts."""
        return SourceCounts(*(mine + others for mine, others in zip(self, other, strict=True)))

    def scale(self, factor: float) -> SourceCounts:
        """All counts times a factor."""
        return SourceCounts(*(factor * counts for counts in self))

    def without_detections(self, sources: NDArray[np.bool_]) -> SourceCounts:
        """The counts without detected and missed spans of these sources (K,)."""
        kept = ~sources[:, None]
        return self._replace(detected=kept * self.detected, missed=kept * self.missed)


def expected_counts(observed: SpanObservations, posterior: Floats, covered: Floats) -> SourceCounts:
    """Expected counts given P(candidate is true) (n,) and P(a true span overlaps the mark) (m,)."""
    num_sources, num_types, main_marks = observed.num_sources, observed.num_types, observed.main_marks
    marks, kind = observed.marks, observed.candidates.type.astype(np.int64)
    source, weight = marks.source[main_marks.mark], posterior[main_marks.candidate]
    types = _sums(
        (source, kind[main_marks.candidate], marks.type[main_marks.mark]), weight, (num_sources, num_types, num_types)
    )
    detected = types.sum(axis=2)
    extra_source = marks.source[observed.extra_marks[:, 1]]
    extra_marks = sum_by(extra_source, posterior[observed.extra_marks[:, 0]], num_sources)
    return SourceCounts(
        spans=sum_by(kind, posterior, num_types),
        tokens=np.array([float(observed.num_tokens)]),
        detected=detected,
        missed=np.maximum(observed.present(posterior) - detected, 0),
        types=types,
        boundary=_sums((source, main_marks.boundary), weight / main_marks.num_alike, (num_sources, 4)),
        extra_marks=np.stack([extra_marks, detected.sum(axis=1)], axis=1),
        false=_sums((marks.source, marks.type), 1 - covered, (num_sources, num_types)),
        exposure=np.repeat(observed.exposure[:, None], num_types, axis=1),
    )


def _sums(index: tuple[NDArray[np.int64], ...], weights: Floats, shape: tuple[int, ...]) -> Floats:
    """Sums of weights by cell of an array."""
    flat = np.ravel_multi_index(index, shape) if len(weights) else np.zeros(0, np.int64)
    return sum_by(flat, weights, int(np.prod(shape))).reshape(shape)


class SourceParams(NamedTuple):
    """Log-probabilities of the model; the M step of `SourceCounts`.

    span_rate  (E,) true spans per token
    detect, miss  (K, E)
    type       (K, E, E) [source, true type, marked type]
    boundary   (K, 4) log-probability of each boundary kind, per position
    extra_mark (K, 2) of an extra mark, and of none
    false_rate (K, E) false marks per token
    """

    span_rate: Floats
    detect: Floats
    miss: Floats
    type: Floats
    boundary: Floats
    extra_mark: Floats
    false_rate: Floats

    @classmethod
    def from_counts(cls, counts: SourceCounts, is_worker: NDArray[np.bool_]) -> Self:
        """Maximize the expected log-likelihood.

        is_worker (K,): sources whose unmarked tokens are votes for O. The others share one rate of marks that are too
        long, and one of crossing marks: with a rate for each source, maximum likelihood would attribute every nested
        disagreement to the source with fewer marks.
        """
        boundary = counts.boundary / counts.boundary.sum(axis=1, keepdims=True)
        if not is_worker.all():
            shared = counts.boundary[~is_worker].sum(axis=0)
            shared /= shared.sum()
            inside = counts.boundary[:, [EXACT, SHORT]]
            inside = inside / inside.sum(axis=1, keepdims=True)
            tied = np.tile(shared, (len(is_worker), 1))
            tied[:, [EXACT, SHORT]] = inside * (shared[EXACT] + shared[SHORT])
            boundary = np.where(is_worker[:, None], boundary, tied)
        boundary[:, SHORT:] /= NUM_WRONG_BOUNDS
        return cls(
            span_rate=np.log(counts.spans / counts.tokens),
            detect=np.log(counts.detected / (counts.detected + counts.missed)),
            miss=np.log(counts.missed / (counts.detected + counts.missed)),
            type=np.log(counts.types / counts.types.sum(axis=2, keepdims=True)),
            boundary=np.log(boundary),
            extra_mark=np.log(counts.extra_marks / counts.extra_marks.sum(axis=1, keepdims=True)),
            false_rate=np.log(counts.false / counts.exposure),
        )

    def log_likelihood(self, counts: SourceCounts) -> float:
        """Log-likelihood of counts, complete or prior, up to a constant."""
        terms = [
            (counts.spans * self.span_rate).sum() - counts.tokens.sum() * np.exp(self.span_rate).sum(),
            (counts.detected * self.detect).sum(),
            (counts.missed * self.miss).sum(),
            (counts.types * self.type).sum(),
            (counts.boundary * self.boundary).sum(),
            (counts.extra_marks * self.extra_mark).sum(),
            (counts.false * self.false_rate).sum(),
            -(counts.exposure * np.exp(self.false_rate)).sum(),
        ]
        return float(sum(terms))


class EStep(NamedTuple):
    """Posterior of the candidates, P(a true span overlaps the mark), and the log-likelihood of the votes."""

    posterior: SpanPosterior
    covered: Floats
    log_likelihood: float


def e_step(
    observed: SpanObservations,
    params: SourceParams,
    miss_weight: Floats,
    adjacency: Floats,
    *,
    num_threads: int = 1,
) -> EStep:
    """Posterior over sets of disjoint candidates.

    miss_weight (K,): exponent of the probability of a miss; adjacency (E,): log-weight of two touching spans of a type.
    """
    marks, lattice = observed.marks, observed.lattice
    kind = observed.candidates.type.astype(np.int64)
    log_false = params.false_rate[marks.source, marks.type]
    result = span_posterior(
        lattice,
        candidate_scores(observed, params, miss_weight, log_false),
        sum_by(observed.shared[:, 0], log_false[observed.shared[:, 1]], len(lattice.pairs))
        + np.where(observed.adjacent, adjacency[kind[lattice.pairs[:, 1]]], 0.0),
        num_threads=num_threads,
    )
    # Log-likelihood of the configuration without spans, where all marks are false.
    baseline = log_false.sum() - observed.exposure @ np.exp(params.false_rate).sum(axis=1)
    baseline -= observed.num_tokens * np.exp(params.span_rate).sum()
    covered = observed.covered(result.spans, result.pairs)
    return EStep(result, covered, float(result.log_partition.sum() + baseline))


def candidate_scores(
    observed: SpanObservations, params: SourceParams, miss_weight: Floats, log_false: Floats
) -> Floats:
    """Log-odds that each candidate is a true span rather than that its marks are false.  -> (n,)

    log_false (m,): false-mark log-rate of the source and type of each mark.
    """
    marks, main_marks, extra_marks = observed.marks, observed.main_marks, observed.extra_marks
    kind, num_candidates = observed.candidates.type.astype(np.int64), len(observed.candidates)
    log_miss = miss_weight[:, None] * params.miss
    scores = params.span_rate[kind] + (observed.read_by.astype(np.float64) @ log_miss)[observed.read_by_index, kind]
    source, true_type = marks.source[main_marks.mark], kind[main_marks.candidate]
    main_scores = (params.detect - log_miss + params.extra_mark[:, 1:])[source, true_type]
    main_scores += params.type[source, true_type, marks.type[main_marks.mark]]
    num_alike = main_marks.num_alike
    main_scores += params.boundary[source, main_marks.boundary] / num_alike + (1 - 1 / num_alike) * np.log(ECHO)
    scores += sum_by(main_marks.candidate, main_scores - log_false[main_marks.mark], num_candidates)
    extra_scores = params.extra_mark[marks.source[extra_marks[:, 1]], 0] - log_false[extra_marks[:, 1]]
    return scores + sum_by(extra_marks[:, 0], extra_scores, num_candidates)
