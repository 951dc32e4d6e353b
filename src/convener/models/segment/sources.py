"""How sources mark spans: expected counts, priors, log-probabilities, and scores of candidates."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from convener.inference.span_lattice import SpanPosterior, span_posterior
from convener.models.segment.observations import CROSSING, EXACT, LONG, SHORT, Floats, SpanObservations

NUM_WRONG_BOUNDS = 3.0
"""A mark with wrong bounds has this many places that it could be in as well."""
ECHO = 0.3
"""Probability that a source repeats the wrong bounds of another: sources that share wrong bounds are not independent.
"""
CLOSED_LONG, CLOSED_CROSSING = 0.01, 0.01 / 6
"""Share of detections that are too long, and crossing, of sources that mark only what they know. They cannot be
learned: of two nested marks the likelihood always blames the source with fewer marks."""


class SourceCounts(NamedTuple):
    """Expected counts of spans and of what the sources do with them; also used as prior counts.

    spans      (E,) true spans
    tokens     () tokens in which they lie
    missed     (K, E) true spans that a source looked at and did not mark
    detected   (K, E) true spans that a source marked
    types      (K, E, E) detections [source, true type, marked type]
    boundary   (K, 4) detections by boundary, EXACT to CROSSING
    pieces     (K, 2) further marks on a span, and main marks
    false      (K, E) marks that overlap no true span
    exposure   (K, E) tokens in which a source could mark that type
    """

    spans: Floats
    tokens: Floats
    missed: Floats
    detected: Floats
    types: Floats
    boundary: Floats
    pieces: Floats
    false: Floats
    exposure: Floats

    def add(self, other: SourceCounts) -> SourceCounts:
        """The sum of both counts."""
        return SourceCounts(*(mine + others for mine, others in zip(self, other, strict=True)))

    def scale(self, source_weights: Floats) -> SourceCounts:
        """Counts of each source times its weight (K,); spans and tokens times the mean weight."""
        mean = source_weights.mean()
        return SourceCounts(
            self.spans * mean,
            self.tokens * mean,
            *(counts * source_weights.reshape(-1, *[1] * (counts.ndim - 1)) for counts in self[2:]),
        )


def expected_counts(observed: SpanObservations, posterior: Floats, covered: Floats) -> SourceCounts:
    """Expected counts given P(candidate is true) (n,) and P(a true span overlaps the mark) (m,)."""
    num_sources, num_types, hits = observed.num_sources, observed.num_types, observed.hits
    marks, kind = observed.marks, observed.candidates.type.astype(np.int64)
    by_pattern = _sums((observed.looked_index, kind), posterior, (len(observed.looked), num_types))
    source, weight = marks.source[hits.mark], posterior[hits.candidate]
    types = _sums((source, kind[hits.candidate], marks.type[hits.mark]), weight, (num_sources, num_types, num_types))
    detected = types.sum(axis=2)
    piece_source = marks.source[observed.pieces[:, 1]]
    pieces = np.bincount(piece_source, posterior[observed.pieces[:, 0]], num_sources)
    return SourceCounts(
        spans=by_pattern.sum(axis=0),
        tokens=np.array(float(observed.num_tokens)),
        missed=np.maximum(observed.looked.T.astype(np.float64) @ by_pattern - detected, 0),
        detected=detected,
        types=types,
        boundary=_sums((source, hits.boundary), weight / hits.num_alike, (num_sources, 4)),
        pieces=np.stack([pieces, detected.sum(axis=1)], axis=1),
        false=_sums((marks.source, marks.type), 1 - covered, (num_sources, num_types)),
        exposure=np.repeat(observed.exposure[:, None], num_types, axis=1),
    )


def _sums(index: tuple[NDArray[np.int64], ...], weights: Floats, shape: tuple[int, ...]) -> Floats:
    """Sums of weights by cell of an array."""
    flat = np.ravel_multi_index(index, shape) if len(weights) else np.zeros(0, np.int64)
    return np.bincount(flat, weights, int(np.prod(shape))).reshape(shape)


class SourceParams(NamedTuple):
    """Log-probabilities of the model; the M step of `SourceCounts`.

    span_rate  (E,) true spans per token
    detect, miss  (K, E)
    type       (K, E, E) [source, true type, marked type]
    boundary   (K, 4) of one place with that boundary
    piece      (K, 2) of a further mark, and of none
    false_rate (K, E) false marks per token
    """

    span_rate: Floats
    detect: Floats
    miss: Floats
    type: Floats
    boundary: Floats
    piece: Floats
    false_rate: Floats

    @classmethod
    def from_counts(cls, counts: SourceCounts, outside: NDArray[np.bool_]) -> Self:
        """Maximize the expected log-likelihood.

        outside (K,): sources whose boundaries are learned completely.
        """
        boundary = counts.boundary / counts.boundary.sum(axis=1, keepdims=True)
        inside = counts.boundary[:, [EXACT, SHORT]]
        inside = inside / inside.sum(axis=1, keepdims=True)
        closed = np.empty_like(boundary)
        closed[:, [EXACT, SHORT]] = (1 - CLOSED_LONG - CLOSED_CROSSING) * inside
        closed[:, LONG], closed[:, CROSSING] = CLOSED_LONG, CLOSED_CROSSING
        boundary = np.where(outside[:, None], boundary, closed)
        boundary[:, SHORT:] /= NUM_WRONG_BOUNDS
        return cls(
            span_rate=np.log(counts.spans / counts.tokens),
            detect=np.log(counts.detected / (counts.detected + counts.missed)),
            miss=np.log(counts.missed / (counts.detected + counts.missed)),
            type=np.log(counts.types / counts.types.sum(axis=2, keepdims=True)),
            boundary=np.log(boundary),
            piece=np.log(counts.pieces / counts.pieces.sum(axis=1, keepdims=True)),
            false_rate=np.log(counts.false / counts.exposure),
        )

    def log_likelihood(self, counts: SourceCounts) -> float:
        """Log-likelihood of counts, complete or prior, up to a constant."""
        terms = [
            (counts.spans * self.span_rate).sum() - counts.tokens * np.exp(self.span_rate).sum(),
            (counts.detected * self.detect).sum(),
            (counts.missed * self.miss).sum(),
            (counts.types * self.type).sum(),
            (counts.boundary * self.boundary).sum(),
            (counts.pieces * self.piece).sum(),
            (counts.false * self.false_rate).sum(),
            -(counts.exposure * np.exp(self.false_rate)).sum(),
        ]
        return float(sum(terms))


class EStep(NamedTuple):
    """Posterior of the candidates, P(a true span overlaps the mark), and the log-likelihood of the votes."""

    lattice: SpanPosterior
    covered: Floats
    log_likelihood: float


def e_step(
    observed: SpanObservations, params: SourceParams, miss_weight: Floats, adjacency: Floats
) -> EStep:
    """Posterior over sets of disjoint candidates.

    miss_weight (K,); adjacency (E,): log-weight of two touching spans of one type.
    """
    marks, hits, kind = observed.marks, observed.hits, observed.candidates.type.astype(np.int64)
    n, pieces = len(kind), observed.pieces
    false = params.false_rate[marks.source, marks.type]
    miss = miss_weight[:, None] * params.miss
    score = params.span_rate[kind] + (observed.looked.astype(np.float64) @ miss)[observed.looked_index, kind]
    source, true_type = marks.source[hits.mark], kind[hits.candidate]
    boundary = params.boundary[source, hits.boundary] / hits.num_alike + (1 - 1 / hits.num_alike) * np.log(ECHO)
    hit = (params.detect - miss + params.piece[:, 1:])[source, true_type]
    hit = hit + params.type[source, true_type, marks.type[hits.mark]] + boundary - false[hits.mark]
    score = score + np.bincount(hits.candidate, hit, n)
    piece = params.piece[marks.source[pieces[:, 1]], 0] - false[pieces[:, 1]]
    score = score + np.bincount(pieces[:, 0], piece, n)
    pair_weight = np.bincount(observed.shared[:, 0], false[observed.shared[:, 1]], len(observed.adjacent))
    pair_weight = pair_weight + np.where(observed.adjacent, adjacency[kind[observed.lattice.pairs[:, 1]]], 0.0)
    result = span_posterior(observed.lattice, score, pair_weight)
    baseline = false.sum() - (observed.exposure * np.exp(params.false_rate).sum(axis=1)).sum()
    baseline -= observed.num_tokens * np.exp(params.span_rate).sum()
    return EStep(
        result,
        observed.per_mark(result.spans, result.pairs),
        float(result.log_partition.sum() + baseline),
    )
