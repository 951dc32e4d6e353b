"""The segment model in plain Python: the weight of a set of spans, mark by mark, and an enumeration of all sets."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np

import convener as cv
from convener.models.segment.sources import ECHO, SourceParams

Span = tuple[int, int, int, int]
"""Sentence, start, end, type."""


def marks_of(data: cv.Dataset, source: int) -> list[Span]:
    return [tuple(span) for span in data.tags.spans(data.votes[:, source], data.offsets)]


def overlap(one: Span, other: Span) -> int:
    return min(one[2], other[2]) - max(one[1], other[1]) if one[0] == other[0] else 0


def boundary(span: Span, mark: Span) -> int:
    """0 exact, 1 too short, 2 too long, 3 crossing."""
    (_, a, b, _), (_, x, y, _) = span, mark
    if (x, y) == (a, b):
        return 0
    if a <= x and y <= b:
        return 1
    return 2 if x <= a and b <= y else 3


def has_read(data: cv.Dataset, source: int, span: Span) -> bool:
    """Whether the source votes on all tokens of the span, or marks one of them."""
    first = int(data.offsets[span[0]])
    votes = data.votes[first + span[1] : first + span[2], source]
    return bool((votes >= 0).all() or (votes > 0).any())


def log_weight(
    data: cv.Dataset, spans: list[Span], params: SourceParams, miss_weight: np.ndarray, adjacency: np.ndarray
) -> float:
    """Log-likelihood of all votes given the true spans, plus the log-prior of the spans."""
    total = 0.0
    num_sources, num_types = len(data.sources), len(data.tags.types)
    all_marks = [marks_of(data, source) for source in range(num_sources)]
    for source in range(num_sources):
        exposure = int((data.votes[:, source] >= 0).sum())
        for kind in range(num_types):
            total -= exposure * float(np.exp(params.false_rate[source, kind]))
        for mark in all_marks[source]:
            if not any(overlap(span, mark) > 0 for span in spans):
                total += params.false_rate[source, mark[3]]
    total -= len(data.tokens) * float(np.exp(params.span_rate).sum())
    for span in spans:
        kind = span[3]
        total += params.span_rate[kind]
        mains = []
        for source in range(num_sources):
            touching = [mark for mark in all_marks[source] if overlap(span, mark) > 0]
            if not touching:
                if has_read(data, source, span):
                    total += miss_weight[source] * params.miss[source, kind]
                continue
            main = max(touching, key=lambda mark: (overlap(span, mark), -mark[1]))
            mains.append((source, main))
            total += params.detect[source, kind] + params.extra_mark[source, 1] + params.type[source, kind, main[3]]
            total += (len(touching) - 1) * params.extra_mark[source, 0]
        for source, main in mains:
            number = boundary(span, main)
            alike = 1 if number == 0 else sum(main[1:3] == other[1:3] for _, other in mains)
            total += params.boundary[source, number] / alike + (1 - 1 / alike) * np.log(ECHO)
    for one, other in pairwise(sorted(spans)):
        if one[0] == other[0] and one[2] == other[1] and one[3] == other[3]:
            total += adjacency[one[3]]
    return total


def disjoint_sets(candidates: list[Span]) -> list[list[Span]]:
    subsets = (list(subset) for size in range(len(candidates) + 1) for subset in combinations(candidates, size))
    return [subset for subset in subsets if all(overlap(a, b) <= 0 for a, b in combinations(subset, 2))]
