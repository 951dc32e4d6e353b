"""Starting values and priors of the segment model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from convener.inference.voting import odds
from convener.models.initialization import count_single_source_tokens
from convener.models.majority_vote import DEFAULT_PRECISION
from convener.models.segment.observations import EXACT, SHORT, Floats, SpanObservations, sum_by
from convener.models.segment.sources import SourceCounts

SURE = 0.95
"""Initial probability of a candidate with full support."""
HALF_SUPPORT = 0.5
"""Support of a candidate by a mark inside it, of a labeling function: it may know only a part of the name."""
FALSE_LONE_MARKS, LONE_MARKS = 1.0, 10.0
"""Pseudo-counts of lone marks: false ones, and all."""
MEAN_RATE, OUTCOME = 0.5, 0.05
"""Pseudo-counts of true spans of each type: at the mean detection rate of the source, and for each outcome (detected or
missed)."""
OWN_TYPE, OTHER_TYPES, EVERY_TYPE = 2.0, 0.2, 1e-4
"""Pseudo-counts of detections of each type: named correctly, with the types as the source uses them, and with each
type."""
BOUNDARY = np.array([8.0, 2.0, 1.0, 0.2])
"""Pseudo-counts of detections by boundary: exact, too short, too long, crossing."""
WORKER_BOUNDARY = np.array([8.0, 1.5, 1.5, 0.2])
"""The same for workers: they add a word as often as they leave one out. Otherwise a tie of two bounds would always go
to the longer span."""
EXTRA_MARK, NO_EXTRA_MARK = 1.0, 20.0
"""Pseudo-counts of extra marks on a span, and of spans without one."""
FALSE_SHARE, FALSE_MARKS = 0.02, 0.003
"""Pseudo-counts of false marks of a labeling function, in one token: as a share of its marks, and as a number for each
type."""
SPANS = 0.1
"""Pseudo-count of true spans of each type, in one token."""
CROWD, CROWD_BOUNDARY = 1.0, 5.0
"""Pseudo-counts at the rates of the crowd (all workers): true spans or marks, and detections by boundary."""
UNKNOWN_TYPE = 0.02
"""Detection rate of a type that a worker does not know."""
ADJACENT = 50.0
"""Pseudo-count of marks of each type, for the rate at which a span begins where another one ends."""


def marked_together(observed: SpanObservations) -> Iterator[tuple[int, NDArray[np.bool_]]]:
    """Each type that is marked, and which sources mark each union of overlapping marks of this type.  -> (U, K)

    Only labeling functions count.
    """
    marks = observed.marks
    for kind in range(observed.num_types):
        selected = np.flatnonzero((marks.type == kind) & ~observed.is_worker[marks.source])
        if not len(selected):
            continue
        reach = np.maximum.accumulate(marks.end[selected])
        begins = np.append(True, marks.start[selected][1:] >= reach[:-1])
        marked = np.zeros((int(begins.sum()), observed.num_sources), bool)
        marked[np.cumsum(begins) - 1, marks.source[selected]] = True
        yield kind, marked


def lone_false_share(observed: SpanObservations) -> float:
    """Estimated share f of the lone marks of labeling functions that are false.

    f = (observed - expected) / observed number of lone marks, with pseudo-counts. Expected is their number if all marks
    were correct and the sources independent. Near duplicates count as one source; marks of one type that overlap
    support each other.
    """
    lone, expected = 0, 0.0
    for _, marked in marked_together(observed):
        single, chance = count_single_source_tokens(marked[:, marked.any(axis=0)])
        lone, expected = lone + single, expected + chance
    return (max(lone - expected, 0.0) + FALSE_LONE_MARKS) / (lone + LONE_MARKS)


def knowledge(observed: SpanObservations, mark_counts: Floats) -> Floats:
    """How much a source is presumed to know each type.

    It is its rate of marks divided by the mark-weighted mean rate of all sources, at most 1.

    mark_counts (K, E) -> (K, E) in [0, 1]
    """
    rate = mark_counts / np.maximum(observed.exposure, 1)[:, None]
    typical = (mark_counts * rate).sum(axis=0) / np.maximum(mark_counts.sum(axis=0), 1)
    known: Floats = np.minimum(rate / np.maximum(typical, 1e-12), 1)
    return known


def initial_posterior(observed: SpanObservations, known: Floats, error_rate: Floats) -> Floats:
    """Share of support of each candidate, scaled such that no mark is covered more than once.  -> (n,)

    Share = support / total. The support counts exact marks of the same type and, to HALF_SUPPORT, marks inside the
    candidate. The total counts sources that mark anything on the candidate, and workers that read it and know its type
    (known (K, E)). Known precisions weight the sources. The lone mark of a labeling function is false with probability
    error_rate (K,).
    """
    n, main_marks, marks = len(observed.candidates), observed.main_marks, observed.marks
    source, kind = marks.source[main_marks.mark], observed.candidates.type.astype(np.int64)
    weight = odds(np.where(np.isnan(observed.precision), DEFAULT_PRECISION, observed.precision).clip(0.01, 0.99))
    weight /= odds(np.array(DEFAULT_PRECISION))
    same_type = marks.type[main_marks.mark] == kind[main_marks.candidate]
    exact = sum_by(main_marks.candidate, weight[source] * (same_type & (main_marks.boundary == EXACT)), n)
    inside = same_type & (main_marks.boundary == SHORT) & ~observed.is_worker[source]
    support = np.where(exact > 0, exact + HALF_SUPPORT * sum_by(main_marks.candidate, weight[source] * inside, n), 0)
    expected = np.where(observed.is_worker[:, None], weight[:, None] * known, 0.0)
    total = sum_by(main_marks.candidate, weight[source] - expected[source, kind[main_marks.candidate]], n)
    total += (observed.read_by.astype(np.float64) @ expected)[observed.read_by_index, kind]
    share = SURE * support / np.maximum(total, 1e-9)
    num_sources = np.bincount(main_marks.candidate, minlength=n)
    num_workers = np.bincount(main_marks.candidate, observed.is_worker[source], n)
    lone_error = sum_by(main_marks.candidate, error_rate[source], n)
    share = np.where((num_sources == 1) & (num_workers == 0), np.minimum(share, 1 - lone_error), share)
    candidate, mark = observed.overlaps()
    mass = sum_by(mark, share[candidate], len(marks))
    largest = np.zeros(n)
    np.maximum.at(largest, candidate, mass[mark])
    return share / np.maximum(largest, 1)


def prior_counts(observed: SpanObservations, counts: SourceCounts, mark_counts: Floats, known: Floats) -> SourceCounts:
    """Weak prior counts, from the counts of each source and of the crowd.

    mark_counts, known (K, E). A worker has few marks, so the rates of all workers, the crowd, are the prior of each,
    and so are the types and bounds of the marks of all sources. If the precision is known, the false share is
    1 - precision.
    """
    num_types, is_worker = observed.num_types, observed.is_worker
    of_worker, precision = is_worker[:, None], observed.precision[:, None]
    mean_rate = np.where(
        of_worker,
        known * _pooled_rate(known * counts.detected, known * counts.missed, is_worker) + (1 - known) * UNKNOWN_TYPE,
        _rate(counts.detected.sum(axis=1), counts.missed.sum(axis=1))[:, None],
    )
    weight, outcome = np.where(of_worker, CROWD, MEAN_RATE), OUTCOME * np.where(of_worker, known, 1.0)
    use = (mark_counts + 1e-6) / (mark_counts + 1e-6).sum(axis=1, keepdims=True)
    pooled_types = counts.types.sum(axis=0) + OWN_TYPE * np.eye(num_types) + OTHER_TYPES / num_types
    pooled_types /= pooled_types.sum(axis=1, keepdims=True)
    types = np.where(
        mark_counts[:, :, None] > 0,
        OWN_TYPE * np.eye(num_types) + OTHER_TYPES * use[:, None],
        (OWN_TYPE + OTHER_TYPES) * use[:, None],
    )
    pooled_boundary = counts.boundary.sum(axis=0) + WORKER_BOUNDARY
    true_marks = np.maximum(mark_counts - counts.false, 0)
    pooled_false = np.where(np.isnan(precision), _pooled_rate(counts.false, true_marks, is_worker), 1 - precision)
    crowd_false = np.where(mark_counts > 0, CROWD * pooled_false, FALSE_MARKS)
    false_share = np.where(np.isnan(precision), FALSE_SHARE, 1 - precision)
    # Number of tokens in which the source makes CROWD marks.
    crowd_exposure = np.where(mark_counts > 0, CROWD * counts.exposure / np.maximum(mark_counts, 1), 0.0)
    return SourceCounts(
        spans=np.full(num_types, SPANS),
        tokens=np.ones(1),
        detected=weight * mean_rate + outcome,
        missed=weight * (1 - mean_rate) + outcome,
        types=types + EVERY_TYPE + np.where(of_worker[:, :, None], CROWD * pooled_types, 0.0),
        boundary=np.where(
            of_worker, WORKER_BOUNDARY + CROWD_BOUNDARY * pooled_boundary / pooled_boundary.sum(), BOUNDARY
        ),
        extra_marks=np.tile([EXTRA_MARK, NO_EXTRA_MARK], (len(is_worker), 1)),
        false=np.where(of_worker, crowd_false, false_share * mark_counts + FALSE_MARKS),
        exposure=1 + np.where(of_worker, crowd_exposure, 0.0),
    )


def _pooled_rate(yes: Floats, no: Floats, is_worker: NDArray[np.bool_]) -> Floats:
    """Geometric mean of the rate of each source over all types and that of the crowd for each type.  -> (K, E)"""
    own = _rate(yes.sum(axis=1), no.sum(axis=1))
    return np.sqrt(np.outer(own, _rate(yes[is_worker].sum(axis=0), no[is_worker].sum(axis=0))))


def _rate(yes: Floats, no: Floats) -> Floats:
    rate: Floats = (yes + 0.5) / (yes + no + 1)
    return rate


def adjacency(observed: SpanObservations, mark_counts: Floats, counts: SourceCounts) -> Floats:
    """Log-weight of two spans of one type that touch: their rate relative to that of all spans, at most 0.  -> (E,)

    The rate is that at which a mark begins where another one of its source and type ends. It is not re-estimated:
    expected true spans carry no more information about it than the marks.
    """
    marks, num_types = observed.marks, observed.num_types
    # Marks of one source are disjoint, so that the mark that ends where another one begins is the one before it.
    by_source = np.argsort(marks.source.astype(np.int16), kind="stable")
    source, kind = marks.source[by_source], marks.type[by_source]
    touches = (source[1:] == source[:-1]) & (kind[1:] == kind[:-1])
    touches &= marks.start[by_source[1:]] == marks.end[by_source[:-1]]
    adjacent, total = np.bincount(kind[1:][touches], minlength=num_types), mark_counts.sum(axis=0)
    overall = (adjacent.sum() + 0.5) / (total.sum() + ADJACENT)
    rate = (adjacent + ADJACENT * overall) / (total + ADJACENT)
    weight: Floats = np.minimum(0, np.log(rate * counts.tokens / counts.spans))
    return weight
