"""Starting values and priors of the segment model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.models.segment.observations import EXACT, SHORT, Floats, SpanObservations
from convener.models.segment.sources import SourceCounts

SURE = 0.95
"""Probability of a candidate at the start that every source on it marks exactly."""
HALF_SUPPORT = 0.5
"""Support of a candidate by a mark inside it, of a source that marks only what it knows: it may have marked a part."""
DETECTION_WEIGHT, DETECTION_FLOOR = 0.5, 0.05
"""Prior spans of each type with the source's mean detection rate; and with each outcome."""
OWN_TYPE, OTHER_TYPES, EVERY_TYPE = 2.0, 0.2, 1e-4
"""Prior detections of each type: with the right type, as the source uses types, and with each type."""
BOUNDARY = np.array([8.0, 2.0, 1.0, 0.2])
"""Prior detections by boundary: exact, too short, too long, crossing."""
FURTHER, NOT_FURTHER = 1.0, 20.0
"""Prior number of further marks on a span, and of spans without one."""
FALSE_SHARE, FALSE_FLOOR = 0.02, 0.003
"""Share of the marks that are presumed false, and number of false marks of each type."""
SPAN_FLOOR = 0.1
"""Prior spans of each type."""
CROWD_WEIGHT, CROWD_BOUNDARY = 1.0, 5.0
"""Prior detections distributed as those of all sources whose unmarked tokens are votes."""
UNKNOWN_TYPE = 0.02
"""Prior detection rate of a type that such a source never marks."""
ADJACENT = 50.0
"""Prior marks for the rate at which a span begins where another of its type ends."""


def initial_posterior(observed: SpanObservations, mark_counts: Floats) -> Floats:
    """Share of support of each candidate, scaled such that no mark is covered more than once.  -> (n,)

    Support is exact marks of the same type, and to HALF_SUPPORT marks inside the candidate. Sources on the candidate
    count against it, as do those that looked, vote O where they mark nothing, and mark its type elsewhere.
    """
    n, hits, marks = len(observed.candidates), observed.hits, observed.marks
    source, kind = marks.source[hits.mark], observed.candidates.type.astype(np.int64)
    same_type = marks.type[hits.mark] == kind[hits.candidate]
    exact = np.bincount(hits.candidate, same_type & (hits.boundary == EXACT), n)
    inside = same_type & (hits.boundary == SHORT) & ~observed.outside[source]
    support = np.where(exact > 0, exact + HALF_SUPPORT * np.bincount(hits.candidate, inside, n), 0)
    might = observed.outside[:, None] & (mark_counts > 0)
    looked = (observed.looked.astype(np.float64) @ might)[observed.looked_index, kind]
    marked = np.bincount(hits.candidate, might[source, kind[hits.candidate]], n)
    share = support / np.maximum(np.bincount(hits.candidate, minlength=n) + looked - marked, 1)
    candidate = np.concatenate([hits.candidate, observed.pieces[:, 0]])
    mark = np.concatenate([hits.mark, observed.pieces[:, 1]])
    mass = np.bincount(mark, share[candidate], len(marks.start))
    largest = np.zeros(n)
    np.maximum.at(largest, candidate, mass[mark])
    return SURE * share / np.maximum(largest, 1)


def prior_counts(counts: SourceCounts, mark_counts: Floats, outside: NDArray[np.bool_]) -> SourceCounts:
    """Weak prior counts around what the given counts tell of each source and of the crowd.

    mark_counts (K, E); outside (K,): sources whose unmarked tokens are votes for O. These form a crowd, of which each
    has few marks: what is known of all of them is the prior of each.
    """
    num_types = len(counts.spans)
    detected, missed = counts.detected, counts.missed
    own_rate = _rate(detected.sum(axis=1), missed.sum(axis=1))[:, None]
    crowd_rate = _rate(detected[outside].sum(axis=0), missed[outside].sum(axis=0))
    names_type = mark_counts > 0
    rate = np.where(outside[:, None], np.where(names_type, np.sqrt(own_rate * crowd_rate), UNKNOWN_TYPE), own_rate)
    weight = np.where(outside, CROWD_WEIGHT, DETECTION_WEIGHT)[:, None]
    floor = np.where(outside[:, None] & ~names_type, 0.0, DETECTION_FLOOR)
    crowd = outside.astype(np.float64)
    use = (mark_counts + 1e-6) / (mark_counts + 1e-6).sum(axis=1, keepdims=True)
    pooled_type = counts.types.sum(axis=0) + OWN_TYPE * np.eye(num_types) + OTHER_TYPES / num_types
    pooled_type /= pooled_type.sum(axis=1, keepdims=True)
    type_prior = np.where(
        names_type[:, :, None],
        OWN_TYPE * np.eye(num_types) + OTHER_TYPES * use[:, None],
        (OWN_TYPE + OTHER_TYPES) * use[:, None],
    )
    pooled_boundary = counts.boundary.sum(axis=0) + BOUNDARY
    crowd_false = counts.false[outside].sum(axis=0) / np.maximum(mark_counts[outside].sum(axis=0), 1)
    return SourceCounts(
        spans=np.full(num_types, SPAN_FLOOR),
        tokens=np.array(0.0),
        missed=weight * (1 - rate) + floor,
        detected=weight * rate + floor,
        types=type_prior + EVERY_TYPE + crowd[:, None, None] * CROWD_WEIGHT * pooled_type,
        boundary=BOUNDARY + CROWD_BOUNDARY * crowd[:, None] * pooled_boundary / pooled_boundary.sum(),
        pieces=np.broadcast_to([FURTHER, NOT_FURTHER], (len(outside), 2)),
        false=FALSE_SHARE * mark_counts + FALSE_FLOOR + CROWD_WEIGHT * crowd[:, None] * crowd_false,
        exposure=np.zeros(mark_counts.shape),
    )


def _rate(detected: Floats, missed: Floats) -> Floats:
    rate: Floats = (detected + 0.5) / (detected + missed + 1)
    return rate
