"""Reference of semi-Markov inference: enumeration of all segmentations of a sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.inference.semi_markov import Arcs, SegmentPotentials, SpanEvidence

Floats = NDArray[np.float64]


class Segment(NamedTuple):
    """One segment: tokens start to end (exclusive); arc is its index, or None for a token O or an open span."""

    start: int
    end: int
    state: int
    arc: int | None


class Enumeration(NamedTuple):
    """All segmentations of one sentence (S of them) and their scores (S,)."""

    segmentations: list[tuple[Segment, ...]]
    scores: Floats

    @property
    def log_partition(self) -> float:
        return float(np.logaddexp.reduce(self.scores))

    @property
    def probabilities(self) -> Floats:
        return np.exp(self.scores - self.log_partition)


def sentence_potentials(potentials: SegmentPotentials, begin: int, end: int) -> SegmentPotentials:
    """The potentials of the tokens begin to end."""
    return potentials._replace(labels=potentials.labels[begin:end], evidence=potentials.evidence.tokens(begin, end))


def enumerate_segmentations(potentials: SegmentPotentials) -> Enumeration:
    """All segmentations of one sentence; exponential in its length."""
    num_tokens, num_types = len(potentials.labels), len(potentials.second)
    arcs_by_start: dict[int, list[Segment]] = defaultdict(list)
    for last in range(num_tokens):
        for k in range(potentials.evidence.arcs.offsets[last], potentials.evidence.arcs.offsets[last + 1]):
            start = int(potentials.evidence.arcs.start[k])
            arcs_by_start[start].append(Segment(start, last + 1, int(potentials.evidence.arcs.state[k]), k))

    def complete(position: int) -> Iterator[tuple[Segment, ...]]:
        if position == num_tokens:
            yield ()
            return
        segments = [Segment(position, position + 1, 0, None), *arcs_by_start[position]]
        for end in range(position + 1, num_tokens + 1):
            if np.isfinite(potentials.evidence.open_token[position:end]).all():
                segments += [Segment(position, end, state, None) for state in range(1, num_types + 1)]
        for segment in segments:
            for rest in complete(segment.end):
                yield (segment, *rest)

    found = list(complete(0))
    return Enumeration(found, np.array([segmentation_score(potentials, item) for item in found]))


def segmentation_score(potentials: SegmentPotentials, segmentation: tuple[Segment, ...]) -> float:
    """The score of one segmentation."""
    total, previous = 0.0, 0
    for segment in segmentation:
        total += potentials.transition[previous, segment.state]
        previous = segment.state
        labels = segment_labels(segment)
        total += sum(potentials.labels[segment.start + i, label] for i, label in enumerate(labels))
        length = segment.end - segment.start
        if segment.state == 0:
            total += (length - 1) * potentials.transition[0, 0]
        elif length > 1:
            total += potentials.second[segment.state - 1] + (length - 2) * potentials.further[segment.state - 1]
        if segment.arc is not None:
            total += potentials.evidence.arcs.score[segment.arc]
        elif segment.state > 0:
            group = potentials.evidence.open_group[segment.start]
            total += potentials.evidence.open_begin[group, segment.state - 1]
            total += potentials.evidence.open_token[segment.start : segment.end].sum()
    return total


def segment_labels(segment: Segment) -> list[int]:
    """BIO labels of the tokens of a segment."""
    length = segment.end - segment.start
    if segment.state == 0:
        return [0] * length
    return [2 * segment.state - 1, *[2 * segment.state] * (length - 1)]


def random_potentials(
    rng: np.random.Generator, lengths: list[int], num_types: int, scale: float = 1.0
) -> tuple[SegmentPotentials, NDArray[np.int64]]:
    """Potentials with random scores, some arcs per sentence, and some tokens closed to open spans."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    num_tokens = int(offsets[-1])
    rows = set()
    for n, length in zip(offsets[:-1].tolist(), lengths, strict=True):
        for _ in range(int(rng.integers(0, 4)) if length else 0):
            start = int(rng.integers(0, length))
            end = int(rng.integers(start + 1, min(length, start + 3) + 1))
            rows.add((n + end - 1, n + start, int(rng.integers(0, num_types + 1))))
    table = np.array(sorted(rows), np.int64).reshape(-1, 3)
    arc_offsets = np.searchsorted(table[:, 0], np.arange(num_tokens + 1)).astype(np.int64)
    arcs = Arcs(arc_offsets, table[:, 1], table[:, 2], scale * rng.normal(size=len(table)))
    open_token = np.where(rng.random(num_tokens) < 0.4, -np.inf, scale * rng.normal(size=num_tokens))
    potentials = SegmentPotentials(
        labels=scale * rng.normal(size=(num_tokens, 2 * num_types + 1)),
        transition=scale * rng.normal(size=(num_types + 1, num_types + 1)),
        second=scale * rng.normal(size=num_types),
        further=scale * rng.normal(size=num_types),
        evidence=SpanEvidence(
            open_token, rng.integers(0, 2, num_tokens), scale * rng.normal(size=(2, num_types)), arcs
        ),
    )
    return potentials, offsets
