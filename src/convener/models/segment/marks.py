"""Marks: the spans that sources mark, and sources that are near copies of another."""

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


def votes_outside(data: Dataset) -> NDArray[np.bool_]:
    """Workers: sources for which an unmarked token is a vote for O.  -> (K,)"""
    return ~data.unmarked_is_abstain()


def family_heads(marks: Marks, can_join: NDArray[np.bool_], min_similarity: float) -> Ints:
    """The source that each source is a near copy of, or its own index.  -> (K,)

    Sources are considered in order of their number of marks. A source joins the first head for which the Jaccard
    similarity of both sets of marks is at least `min_similarity`. can_join (K,): sources that may be or have copies.
    """
    num_sources = len(can_join)
    span_ids = np.cumsum(first_of_run(marks.start, marks.end, marks.type))
    by_source = [span_ids[marks.source == source] for source in range(num_sources)]
    sizes = np.array([len(ids) for ids in by_source])
    result, heads = np.arange(num_sources), list[int]()
    for source in np.argsort(-sizes, kind="stable").tolist():
        if not can_join[source] or not sizes[source]:
            continue
        for head in heads:
            if sizes[source] < min_similarity * sizes[head]:
                continue
            shared = len(np.intersect1d(by_source[source], by_source[head], assume_unique=True))
            if shared >= min_similarity * (sizes[source] + sizes[head] - shared):
                result[source] = head
                break
        else:
            heads.append(source)
    return result


def fold_families(marks: Marks, heads: Ints) -> Marks:
    """Marks with one source per family: those of the head, and those of its copies that overlap none of them.

    Copies with more marks come first.  heads (K,) of `family_heads`
    """
    is_copy = heads != np.arange(len(heads))
    if not is_copy.any():
        return marks
    rank = np.empty(len(heads), np.int64)
    rank[np.lexsort((-np.bincount(marks.source, minlength=len(heads)), is_copy))] = np.arange(len(heads))
    by_component, offsets = component_order(marks.start, marks.end)
    component = np.empty(len(marks), np.int64)
    component[by_component] = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    # Within a component and family, positions count from the first one of the component.
    first = np.minimum.reduceat(marks.start[by_component], offsets[:-1])[component] if len(marks) else marks.start
    family = heads[marks.source]
    order = np.lexsort((marks.start, rank[marks.source]))
    winner = resolve_overlaps(family * len(offsets) + component, marks.start - first, marks.end - first, order)
    kept = winner < 0
    return Marks.sorted_by_position(marks.start[kept], marks.end[kept], marks.type[kept], family[kept])
