"""The votes of a dataset as evidence in a lattice of segmentations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.inference.semi_markov import Arcs, SpanEvidence
from convener.models.segment.marks import Ints, Marks, token_positions
from convener.models.segment.observations import Floats, SpanObservations, distinct_rows, sum_by
from convener.models.segment.outputs import log_all_false
from convener.models.segment.prior import marked_together
from convener.models.segment.sources import SourceCounts, SourceParams, candidate_scores, expected_counts

PRESUMED_SPANS, PRESUMED_COVERAGE = 50.0, 0.8
"""Pseudo-count of spans of each type, and the share of them that some source marks."""
MIN_COVERAGE, MAX_COVERAGE = 0.5, 0.9


@dataclass(frozen=True, eq=False)
class VoteLattice:
    """The candidate spans of a dataset as arcs, and where spans may lie that no source marks.

    observed          the candidates and the marks on them
    order             (n,) candidates by last token
    arcs              the candidates in this order, with score 0
    overlaps          candidates and marks that overlap, and the share of the mark's tokens outside the candidate,
                      which stay false marks; 0 for a mark of a worker that no two disjoint candidates share
    num_sources       (n,) labeling functions in the cluster of overlapping marks on each candidate
    is_marked         (N,) tokens of marks
    is_boundary       (N,) other tokens next to a marked one
    group             (N,) which set of workers read a token
    workers_of_group  (G, K) those sets
    """

    observed: SpanObservations
    order: Ints
    arcs: Arcs
    overlaps: tuple[Ints, Ints, Floats]
    num_sources: Ints
    is_marked: NDArray[np.bool_]
    is_boundary: NDArray[np.bool_]
    group: Ints
    workers_of_group: NDArray[np.bool_]

    @classmethod
    def from_dataset(cls, data: Dataset, duplicate_of: Ints) -> Self:
        """Find the candidates; duplicate_of (K,) as of `segment.marks.near_duplicate_of`."""
        observed = SpanObservations.from_dataset(data, Marks.from_dataset(data), duplicate_of)
        spans, marks = observed.candidates, observed.marks
        first = data.offsets[spans.sentence] - data.offsets[0] + spans.start
        last = first + spans.end - spans.start - 1
        order = np.argsort(last, kind="stable")
        arc_offsets = np.searchsorted(last[order], np.arange(len(data.tokens) + 1))
        arcs = Arcs(arc_offsets, first[order], spans.type[order].astype(np.int64) + 1, np.zeros(len(order)))
        candidate, mark = observed.overlaps()
        lattice = observed.lattice
        covered = np.minimum(lattice.end[candidate], marks.end[mark])
        covered = covered - np.maximum(lattice.start[candidate], marks.start[mark])
        missing = 1 - covered / np.maximum(marks.end[mark] - marks.start[mark], 1)
        # A mark of a worker is true as a whole, unless two disjoint candidates share it.
        is_whole = observed.is_worker[marks.source]
        is_whole[observed.shared[:, 1]] = False
        missing[is_whole[mark]] = 0
        is_marked, is_boundary = _marked_tokens(data, marks)
        reads = np.where(observed.is_worker[None], data.votes >= 0, False)
        patterns, group = distinct_rows(np.packbits(reads, axis=1))
        return cls(
            observed=observed,
            order=order,
            arcs=arcs,
            overlaps=(candidate, mark, missing),
            num_sources=_sources_in_cluster(observed),
            is_marked=is_marked,
            is_boundary=is_boundary,
            group=group,
            workers_of_group=np.unpackbits(patterns, axis=1, count=observed.num_sources).astype(bool),
        )

    def candidate_posteriors(self, arc_posteriors: Floats) -> Floats:
        """Posteriors of the candidates from those of the arcs.  -> (n,)"""
        posteriors = np.empty_like(arc_posteriors)
        posteriors[self.order] = arc_posteriors
        return posteriors

    def source_counts(self, posteriors: Floats) -> SourceCounts:
        """Expected counts of the sources given posteriors of the candidates (n,)."""
        candidate, mark, missing = self.overlaps
        covered = sum_by(mark, (1 - missing) * posteriors[candidate], len(self.observed.marks))
        return expected_counts(self.observed, posteriors, np.clip(covered, 0, 1))


@dataclass(frozen=True, eq=False)
class EvidenceModel:
    """How votes become evidence, apart from the rates of the sources.

    is_worker         (K,) sources whose unmarked tokens are votes for O
    miss_weight       weight of a missed span, for labeling functions
    dependence_rate   the log-odds of a span that n labeling functions mark are divided by 1 + dependence_rate (n - 1)
    error_rate        (K,) f^2 for labeling functions: n marks on a span are all false with at least the product of
                      their rates, f^2n, since functions share errors
    log_unseen        (E,) log-probability that no labeling function marks a true span
    boundary_penalty  cost in nats of a token next to a mark, for spans that no source marks
    """

    is_worker: NDArray[np.bool_]
    miss_weight: float
    dependence_rate: float
    error_rate: Floats
    log_unseen: Floats
    boundary_penalty: float

    def evidence(self, lattice: VoteLattice, sources: SourceCounts) -> SpanEvidence:
        """Log-likelihood ratios: a span is true, or the marks on it are false."""
        params = SourceParams.from_counts(sources, self.is_worker)
        scores = self._candidate_scores(lattice, params)
        misses = lattice.workers_of_group.astype(np.float64) @ np.where(self.is_worker[:, None], params.miss, 0.0)
        open_token = np.where(lattice.is_boundary, -self.boundary_penalty, 0.0)
        open_token[lattice.is_marked] = -np.inf
        arcs = lattice.arcs._replace(score=scores[lattice.order])
        return SpanEvidence(open_token, lattice.group, self.log_unseen + misses, arcs)

    def _candidate_scores(self, lattice: VoteLattice, params: SourceParams) -> Floats:
        """Evidence of the candidates: discounted log-odds of the segment model, without its log-rate of spans.  -> (n,)

        The log-odds are discounted as a whole, with the log-rate of spans in them. If only the rest were discounted,
        many sources that agree would count less than the low rate of spans, and no span would be found.
        """
        observed, (candidate, mark, missing) = lattice.observed, lattice.overlaps
        log_false = params.false_rate[observed.marks.source, observed.marks.type]
        odds = candidate_scores(observed, params, np.where(self.is_worker, 1.0, self.miss_weight), log_false)
        odds += sum_by(candidate, missing * log_false[mark], len(odds))
        discount = 1 / (1 + self.dependence_rate * (lattice.num_sources - 1))
        odds = limit_odds(discount * odds, log_all_false(observed, self.error_rate), observed.lattice.offsets)
        evidence: Floats = odds - params.span_rate[observed.candidates.type]
        return evidence


def limit_odds(odds: Floats, log_false: Floats, offsets: Ints) -> Floats:
    """Limit the log-odds of each component of overlapping candidates, and keep their differences within it.  -> (n,)

    The largest log-odds of a component are at most those of 1 - p, where p is the smallest probability in it that all
    marks on a candidate are false.  odds, log_false (n,), offsets (C+1,)
    """
    if not len(odds):
        return odds
    limit = np.log(-np.expm1(log_false)) - log_false
    excess = np.maximum.reduceat(odds, offsets[:-1]) - np.maximum.reduceat(limit, offsets[:-1])
    limited: Floats = odds - np.repeat(np.maximum(excess, 0), np.diff(offsets))
    return limited


def log_unseen_probability(observed: SpanObservations) -> Floats:
    """Log-probability that no labeling function marks a true span of each type.  -> (E,)

    Chao's estimate of the spans that were missed, from those with one and with two sources; at most as many as were
    found. 0 without such sources.
    """
    coverage = np.zeros(observed.num_types)
    if observed.is_worker.all():
        return coverage
    coverage[:] = PRESUMED_COVERAGE
    for kind, marked in marked_together(observed):
        num_sources = marked.sum(axis=1)
        single, double = (num_sources == 1).sum(), (num_sources == 2).sum()
        missed = min(single * max(single - 1, 0) / (2 * (double + 1)), len(marked))
        presumed = PRESUMED_SPANS * PRESUMED_COVERAGE
        coverage[kind] = (len(marked) + presumed) / (len(marked) + missed + PRESUMED_SPANS)
    log_unseen: Floats = np.log1p(-np.clip(coverage, MIN_COVERAGE, MAX_COVERAGE))
    return log_unseen


def _marked_tokens(data: Dataset, marks: Marks) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tokens of marks, and other tokens next to them.  -> (N,), (N,)"""
    at_token = token_positions(data)
    size = int(at_token[-1]) + 3 if len(at_token) else 3
    depth = np.bincount(marks.start, minlength=size) - np.bincount(marks.end, minlength=size)
    # Positions have a gap after each sentence, so that neighbours are of the same sentence.
    is_marked = np.cumsum(depth) > 0
    next_to_marked = np.zeros(size, bool)
    next_to_marked[1:] |= is_marked[:-1]
    next_to_marked[:-1] |= is_marked[1:]
    return is_marked[at_token], (next_to_marked & ~is_marked)[at_token]


def _sources_in_cluster(observed: SpanObservations) -> Ints:
    """Number of sources in the largest cluster of overlapping marks that each candidate overlaps, at least 1.  -> (n,)

    Only labeling functions count.
    """
    marks, num_sources = observed.marks, observed.num_sources
    begins = np.ones(len(marks), bool)
    begins[1:] = marks.start[1:] >= np.maximum.accumulate(marks.end)[:-1]
    cluster = np.cumsum(begins) - 1
    pairs = np.unique((cluster * num_sources + marks.source)[~observed.is_worker[marks.source]])
    sizes = np.bincount(pairs // max(num_sources, 1), minlength=int(begins.sum()))
    largest = np.ones(len(observed.candidates), np.int64)
    candidate, mark = observed.overlaps()
    np.maximum.at(largest, candidate, sizes[cluster[mark]])
    return largest
