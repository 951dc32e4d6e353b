"""Marks: the spans that sources mark, and sources that are near copies of another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.alignment import resolve_overlaps
from convener.data.dataset import Dataset
from convener.data.spans import Spans
from convener.inference.span_lattice import component_order

Ints = NDArray[np.int64]


class Marks(NamedTuple):
    """Marks of all sources, sorted by position, length, type and source.

    start, end, type, source (m,). Positions count tokens of the dataset and one gap after each sentence, so spans of
    different sentences do not touch.
    """

    start: Ints
    end: Ints
    type: Ints
    source: Ints

    @classmethod
    def from_dataset(cls, data: Dataset) -> Marks:
        """All spans of all sources."""
        columns = []
        for source, votes in enumerate(data.votes.T):
            spans = data.tags.spans(votes, data.offsets)
            start, end = positions(spans, data.offsets)
            columns.append(np.stack([start, end, spans.type, np.full(len(spans), source)]))
        return cls.sorted_by_position(*np.concatenate([np.zeros((4, 0), np.int64), *columns], axis=1).astype(np.int64))

    @classmethod
    def sorted_by_position(cls, start: Ints, end: Ints, type: Ints, source: Ints) -> Marks:
        """Sort the columns."""
        order = np.lexsort((source, type, end, start))
        return cls(start[order], end[order], type[order], source[order])

    def counts(self, num_sources: int, num_types: int) -> NDArray[np.float64]:
        """Number of marks by source and type.  -> (K, E)"""
        cells = np.bincount(self.source * num_types + self.type, minlength=num_sources * num_types)
        return cells.reshape(num_sources, num_types).astype(np.float64)

    def span_ids(self) -> Ints:
        """Equal numbers for marks with equal bounds and type, in their order.  -> (m,)"""
        return first_of_run(self.start, self.end, self.type).cumsum() - 1


def positions(spans: Spans, offsets: Ints) -> tuple[Ints, Ints]:
    """Start and end of spans as positions of `Marks`.  -> (S,), (S,)"""
    base = offsets[spans.sentence] - offsets[0] + spans.sentence
    return base + spans.start, base + spans.end


def first_of_run(*keys: Ints) -> NDArray[np.bool_]:
    """Which rows of sorted columns differ from the row before.  -> (n,)"""
    first = np.ones(len(keys[0]), bool)
    first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return first


def votes_outside(data: Dataset) -> NDArray[np.bool_]:
    """Whether a token that a source leaves unmarked is its vote for O.  -> (K,)"""
    return ~data.quiet()


def family_heads(marks: Marks, can_join: NDArray[np.bool_], min_similarity: float) -> Ints:
    """The source that each source is a near copy of, or its own index.  -> (K,)

    Sources are considered in order of their number of marks. A source joins the first head for which the Jaccard
    similarity of both sets of marks is at least `min_similarity`. can_join (K,): sources that may be or have copies.
    """
    num_sources = len(can_join)
    span_ids = marks.span_ids()
    sizes = np.bincount(marks.source, minlength=num_sources)
    by_source = [span_ids[marks.source == source] for source in range(num_sources)]
    heads, found = np.arange(num_sources), list[int]()
    for source in np.argsort(-sizes, kind="stable").tolist():
        if not can_join[source] or not sizes[source]:
            continue
        for head in found:
            # The smaller set is at most the intersection, so most pairs need no comparison.
            if sizes[source] < min_similarity * sizes[head]:
                continue
            shared = len(np.intersect1d(by_source[source], by_source[head], assume_unique=True))
            if shared >= min_similarity * (sizes[source] + sizes[head] - shared):
                heads[source] = head
                break
        else:
            found.append(source)
    return heads


def fold_families(marks: Marks, heads: Ints) -> Marks:
    """Marks with one source per family: those of the head, and those of its copies that overlap none of them.

    Copies with more marks come first.  heads (K,) of `family_heads`
    """
    if (heads == np.arange(len(heads))).all():
        return marks
    sizes = np.bincount(marks.source, minlength=len(heads))
    rank = np.empty(len(heads), np.int64)
    rank[np.lexsort((-sizes, heads != np.arange(len(heads))))] = np.arange(len(heads))
    order = np.lexsort((marks.start, rank[marks.source]))
    source = heads[marks.source]
    by_component, offsets = component_order(marks.start, marks.end)
    component = np.empty(len(source), np.int64)
    component[by_component] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    first = np.minimum.reduceat(marks.start[by_component], offsets[:-1])[component]
    # Within one component and family, counted from the first token of the component.
    group = source * len(offsets) + component
    kept = np.flatnonzero(resolve_overlaps(group, marks.start - first, marks.end - first, order) < 0)
    return Marks.sorted_by_position(marks.start[kept], marks.end[kept], marks.type[kept], source[kept])
