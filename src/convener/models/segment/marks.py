"""Marks: the spans that sources mark, and sources that are near duplicates of another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.data.alignment import resolve_overlaps
from convener.data.dataset import Dataset
from convener.data.spans import Spans
from convener.inference.span_lattice import component_order

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Marks:
    """Marks of all sources, sorted by start, end, type and source.

    start, end, type, source (m,). Positions count the tokens of the dataset, and one gap after each sentence: spans of
    different sentences do not touch.
    """

    start: Ints
    end: Ints
    type: Ints
    source: Ints

    @classmethod
    def from_dataset(cls, data: Dataset) -> Marks:
        """All spans of all sources; an I- that continues no span begins one."""
        source, token = np.nonzero(data.votes.T > 0)
        label = data.votes[token, source].astype(np.int64)
        at, kind = token_positions(data)[token], (label - 1) // 2
        begins = first_of_run(source, at - np.arange(len(at)), kind) | (label % 2 == 1)
        first = np.flatnonzero(begins)
        length = np.diff(np.append(first, len(at)))
        return cls.sorted_by_position(at[first], at[first] + length, kind[first], source[first])

    @classmethod
    def sorted_by_position(cls, start: Ints, end: Ints, type: Ints, source: Ints) -> Marks:
        """Sort the columns."""
        order = np.lexsort((source, type, end, start))
        return cls(start[order], end[order], type[order], source[order])

    def __len__(self) -> int:
        return len(self.start)

    def slice(self, first: int, stop: int, position: int) -> Marks:
        """The marks `first` to `stop` (exclusive), with positions that count from `position`."""
        part = slice(first, stop)
        return Marks(self.start[part] - position, self.end[part] - position, self.type[part], self.source[part])

    def counts(self, num_sources: int, num_types: int) -> NDArray[np.float64]:
        """Number of marks by source and type.  -> (K, E)"""
        cells = np.bincount(self.source * num_types + self.type, minlength=num_sources * num_types)
        return cells.reshape(num_sources, num_types).astype(np.float64)


def token_positions(data: Dataset) -> Ints:
    """Position of each token: its index plus that of its sentence.  -> (N,)"""
    return np.arange(len(data.tokens)) + data.sentence_of_token()


def span_positions(spans: Spans, data: Dataset) -> tuple[Ints, Ints]:
    """Start and end of spans as positions of `Marks`.  -> (S,), (S,)"""
    first = data.offsets[spans.sentence] - data.offsets[0] + spans.sentence
    return first + spans.start, first + spans.end


def first_of_run(*keys: Ints) -> NDArray[np.bool_]:
    """Which rows differ from the row before in any of the columns.  -> (n,)"""
    first = np.ones(len(keys[0]), bool)
    first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return first


def worker_mask(data: Dataset) -> NDArray[np.bool_]:
    """Which sources are workers: their unmarked tokens are votes for O.  -> (K,)"""
    return ~data.unmarked_is_abstain()


def near_duplicate_of(marks: Marks, is_worker: NDArray[np.bool_], min_similarity: float) -> Ints:
    """The source that each source is a near duplicate of, or its own index: such sources are the originals.  -> (K,)

    Sources are considered in order of their number of marks. A source is a near duplicate of the first original for
    which the Jaccard similarity of both sets of marks is at least `min_similarity`. Workers, is_worker (K,), neither
    are nor have near duplicates. Duplicates by the stricter rule of `data.votes` are dropped before a model is fitted.
    """
    num_sources = len(is_worker)
    span_ids = np.cumsum(first_of_run(marks.start, marks.end, marks.type))
    by_source = [span_ids[marks.source == source] for source in range(num_sources)]
    sizes = np.array([len(ids) for ids in by_source])
    result, originals = np.arange(num_sources), list[int]()
    for source in np.argsort(-sizes, kind="stable").tolist():
        if is_worker[source] or not sizes[source]:
            continue
        for original in originals:
            if sizes[source] < min_similarity * sizes[original]:
                continue
            shared = len(np.intersect1d(by_source[source], by_source[original], assume_unique=True))
            if shared >= min_similarity * (sizes[source] + sizes[original] - shared):
                result[source] = original
                break
        else:
            originals.append(source)
    return result


def merge_near_duplicates(marks: Marks, duplicate_of: Ints) -> Marks:
    """Marks of the originals: their own, and those of their near duplicates that overlap none of them.

    Near duplicates with more marks come first.  duplicate_of (K,) of `near_duplicate_of`
    """
    is_duplicate = duplicate_of != np.arange(len(duplicate_of))
    if not is_duplicate.any():
        return marks
    rank = np.empty(len(duplicate_of), np.int64)
    num_marks = np.bincount(marks.source, minlength=len(duplicate_of))
    rank[np.lexsort((-num_marks, is_duplicate))] = np.arange(len(duplicate_of))
    by_component, offsets = component_order(marks.start, marks.end)
    component = np.empty(len(marks), np.int64)
    component[by_component] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # Within a component and original, positions count from the first one of the component.
    first = np.minimum.reduceat(marks.start[by_component], offsets[:-1])[component] if len(marks) else marks.start
    original = duplicate_of[marks.source]
    order = np.lexsort((marks.start, rank[marks.source]))
    winner = resolve_overlaps(original * len(offsets) + component, marks.start - first, marks.end - first, order)
    kept = winner < 0
    return Marks.sorted_by_position(marks.start[kept], marks.end[kept], marks.type[kept], original[kept])
