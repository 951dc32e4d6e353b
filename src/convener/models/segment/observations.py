"""Candidate spans, main marks and overlaps of a dataset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.ragged import chunk_bounds, concat_ranges
from convener.data.spans import Spans
from convener.inference.span_lattice import SpanLattice, component_order
from convener.inference.voting import argmax_last, type_runs_to_bio
from convener.models.segment.marks import (
    Ints,
    Marks,
    first_of_run,
    merge_near_duplicates,
    span_positions,
    token_positions,
    worker_mask,
)

Floats = NDArray[np.float64]
BLOCK_TOKENS = 1 << 16
"""Number of tokens that are processed at a time."""
EXACT, SHORT, LONG, CROSSING = range(4)
"""How a mark lies on a candidate: the same bounds, inside it, containing it, or neither."""


def sum_by(index: Ints, weights: Floats, size: int) -> Floats:
    """Sums of weights by index.  -> (size,)"""
    return np.asarray(np.bincount(index, weights, size), np.float64)


def distinct_rows(rows: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], Ints]:
    """The distinct rows in their order, and which of them each row is.  (n, c) -> (G, c), (n,)

    Only the first row of each run of equal rows is sorted.
    """
    first = np.ones(len(rows), bool)
    first[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    patterns, index = np.unique(rows[first], axis=0, return_inverse=True)
    return patterns, index.reshape(-1)[np.cumsum(first) - 1]


class MainMarks(NamedTuple):
    """The main mark of each source on each candidate that it overlaps: the largest overlap, then the leftmost.

    candidate, mark (h,); boundary (h,) EXACT to CROSSING; num_alike (h,) sources whose main mark on the candidate has
    the same wrong bounds, 1 if the bounds are right.
    """

    candidate: Ints
    mark: Ints
    boundary: Ints
    num_alike: Floats


@dataclass(frozen=True, eq=False)
class SpanObservations:
    """Candidate spans of a dataset and the marks of the sources on them.

    candidates    (n,) spans in the order of the lattice: all distinct marks, and the runs of the vote by type
    lattice       which candidates exclude each other
    marks         (m,) of the originals, with those of their near duplicates
    main_marks    of each source on each candidate
    extra_marks   (x, 2) candidate and mark: the other marks of a source on a candidate
    shared        (s, 2) pair of the lattice and mark: marks that overlap both candidates
    adjacent      (P,) which pairs of the lattice touch and have the same type
    read_by       (G, K) sets of sources that read a candidate: all of its tokens, or they mark one of them
    read_by_index (n,) the set of each candidate
    exposure      (K,) number of tokens that each source read
    is_worker     (K,) sources whose unmarked tokens are votes for O
    precision     (K,) prior precision of each source; NaN if unknown
    duplicate_of  (K,) the source that each source is a near duplicate of, or its own index
    num_tokens, num_types
    """

    candidates: Spans
    lattice: SpanLattice
    marks: Marks
    main_marks: MainMarks
    extra_marks: Ints
    shared: Ints
    adjacent: NDArray[np.bool_]
    read_by: NDArray[np.bool_]
    read_by_index: Ints
    exposure: Floats
    is_worker: NDArray[np.bool_]
    precision: Floats
    duplicate_of: Ints
    num_tokens: int
    num_types: int

    @classmethod
    def from_dataset(cls, data: Dataset, all_marks: Marks, duplicate_of: Ints) -> Self:
        """Find candidates and relate them to the marks; duplicate_of (K,) as of `near_duplicate_of`."""
        marks = merge_near_duplicates(all_marks, duplicate_of)
        is_worker, is_original = worker_mask(data), duplicate_of == np.arange(len(duplicate_of))
        found = _Relations.concat(_Relations.by_block(data, marks, is_worker, is_original))
        patterns, read_by_index = distinct_rows(found.read_by)
        return cls(
            candidates=Spans.from_array(found.spans),
            lattice=SpanLattice(found.start, found.end, np.append(found.components, len(found.start)), found.pairs),
            marks=marks,
            main_marks=found.main_marks,
            extra_marks=found.extra_marks,
            shared=found.shared,
            adjacent=found.adjacent,
            read_by=np.unpackbits(patterns, axis=1, count=len(duplicate_of)).astype(bool),
            read_by_index=read_by_index,
            exposure=np.count_nonzero(data.votes >= 0, axis=0).astype(np.float64),
            is_worker=is_worker,
            precision=data.prior_precision_or(np.nan),
            duplicate_of=duplicate_of,
            num_tokens=len(data.tokens),
            num_types=len(data.tags.types),
        )

    @property
    def num_sources(self) -> int:
        """Number of sources, near duplicates included."""
        return len(self.is_worker)

    def overlaps(self) -> tuple[Ints, Ints]:
        """All candidates and marks that overlap, as two columns of indices."""
        candidate = np.concatenate([self.main_marks.candidate, self.extra_marks[:, 0]])
        return candidate, np.concatenate([self.main_marks.mark, self.extra_marks[:, 1]])

    def covered(self, posterior: Floats, pair_posterior: Floats | None = None) -> Floats:
        """Probability that a true span overlaps each mark, from posteriors of candidates (n,) and pairs (P,).  -> (m,)

        A mark that overlaps two consecutive spans counts for both of them, and once less for the pair.
        """
        num_marks = len(self.marks)
        candidate, mark = self.overlaps()
        covered = sum_by(mark, posterior[candidate], num_marks)
        if pair_posterior is not None:
            covered -= sum_by(self.shared[:, 1], pair_posterior[self.shared[:, 0]], num_marks)
        return np.clip(covered, 0, 1)

    def present(self, posterior: Floats) -> Floats:
        """Expected number of true spans of each type that each source read, from posteriors (n,).  -> (K, E)"""
        cells = self.read_by_index * self.num_types + self.candidates.type
        by_set = sum_by(cells, posterior, len(self.read_by) * self.num_types).reshape(-1, self.num_types)
        present: Floats = self.read_by.T.astype(np.float64) @ by_set
        return present


class _Relations(NamedTuple):
    """Candidates of some sentences and the marks on them, as in `SpanObservations`.

    spans (n, 4) sentence, start, end and type; start, end (n,) positions; components (C,) first candidate of each;
    read_by (n, K / 8) bits.
    """

    spans: Ints
    start: Ints
    end: Ints
    components: Ints
    main_marks: MainMarks
    extra_marks: Ints
    pairs: Ints
    shared: Ints
    adjacent: NDArray[np.bool_]
    read_by: NDArray[np.uint8]

    @classmethod
    def by_block(
        cls, data: Dataset, marks: Marks, is_worker: NDArray[np.bool_], is_original: NDArray[np.bool_]
    ) -> Iterator[_Relations]:
        """The relations of each block of sentences. Small arrays stay in the processor's cache while they are sorted.

        is_worker, is_original (K,): workers, and sources that are no near duplicates.
        """
        num_candidates, num_pairs = 0, 0
        for begin, end in list(pairwise(chunk_bounds(data.offsets, BLOCK_TOKENS).tolist())) or [(0, 0)]:
            position = int(data.offsets[begin] - data.offsets[0]) + begin
            block = data.slice_sentences(begin, end)
            first, stop = np.searchsorted(marks.start, [position, position + len(block.tokens) + len(block)]).tolist()
            found = cls._of_block(block, marks.slice(first, stop, position), is_worker, is_original)
            main_marks = found.main_marks
            yield found._replace(
                spans=found.spans + np.array([begin, 0, 0, 0]),
                start=found.start + position,
                end=found.end + position,
                components=found.components + num_candidates,
                main_marks=main_marks._replace(
                    candidate=main_marks.candidate + num_candidates, mark=main_marks.mark + first
                ),
                extra_marks=found.extra_marks + np.array([num_candidates, first]),
                pairs=found.pairs + num_candidates,
                shared=found.shared + np.array([num_pairs, first]),
            )
            num_candidates, num_pairs = num_candidates + len(found.start), num_pairs + len(found.pairs)

    @classmethod
    def _of_block(
        cls, data: Dataset, marks: Marks, is_worker: NDArray[np.bool_], is_original: NDArray[np.bool_]
    ) -> Self:
        majority = data.tags.spans(majority_labels(data, marks, is_worker & is_original), data.offsets)
        spans, start, end, offsets = _candidates(data, marks, majority)
        candidate, mark = _overlaps(start, end, marks)
        main_marks, extra_marks = _main_and_extra_marks(start, end, marks, candidate, mark)
        pairs, shared, adjacent = _pairs(start, end, spans[:, 3], marks, candidate, mark)
        read_by = _read_by(data, spans, is_original)
        read_by[main_marks.candidate, marks.source[main_marks.mark]] = True
        bits = np.packbits(read_by, axis=1)
        return cls(spans, start, end, offsets[:-1], main_marks, extra_marks, pairs, shared, adjacent, bits)

    @staticmethod
    def concat(blocks: Iterable[_Relations]) -> _Relations:
        """Join blocks, in order."""
        columns = dict(zip(_Relations._fields, zip(*blocks, strict=True), strict=True))
        main_marks = MainMarks(*(np.concatenate(each) for each in zip(*columns.pop("main_marks"), strict=True)))
        return _Relations(main_marks=main_marks, **{name: np.concatenate(each) for name, each in columns.items()})


def majority_labels(data: Dataset, marks: Marks, is_worker: NDArray[np.bool_]) -> NDArray[np.int16]:
    """Majority vote by type.  -> (N,)

    is_worker (K,): sources that vote O where they mark nothing.
    """
    num_types = len(data.tags.types)
    size = (len(data.tokens) + len(data) + 1) * num_types
    begins = np.bincount(marks.start * num_types + marks.type, minlength=size)
    ends = np.bincount(marks.end * num_types + marks.type, minlength=size)
    counts = np.zeros((len(data.tokens), num_types + 1), np.int64)
    counts[:, 1:] = np.cumsum((begins - ends).reshape(-1, num_types), axis=0)[token_positions(data)]
    counts[:, 0] = np.count_nonzero(data.votes[:, is_worker] == 0, axis=1)
    return type_runs_to_bio(argmax_last(counts), data.offsets)


def _candidates(data: Dataset, marks: Marks, majority: Spans) -> tuple[Ints, Ints, Ints, Ints]:
    """Distinct spans (n, 4) in the order of a lattice, their positions, and the component offsets."""
    run_start, run_end = span_positions(majority, data)
    start, end = np.concatenate([marks.start, run_start]), np.concatenate([marks.end, run_end])
    kind = np.concatenate([marks.type, majority.type.astype(np.int64)])
    by_position = np.lexsort((kind, end, start))
    start, end, kind = start[by_position], end[by_position], kind[by_position]
    distinct = first_of_run(start, end, kind)
    start, end, kind = start[distinct], end[distinct], kind[distinct]
    order, offsets = component_order(start, end)
    start, end, kind = start[order], end[order], kind[order]
    sentence_start = data.offsets - data.offsets[0] + np.arange(len(data) + 1)
    sentence = np.searchsorted(sentence_start, start, side="right") - 1
    table = np.stack([sentence, start - sentence_start[sentence], end - sentence_start[sentence], kind], axis=1)
    return table.astype(np.int64), start, end, offsets


def _overlaps(start: Ints, end: Ints, marks: Marks) -> tuple[Ints, Ints]:
    """All pairs of a candidate and a mark that overlap.  start, end (n,) of the candidates -> two arrays of indices"""
    # Either the mark begins inside the candidate, or the candidate begins inside the mark, after its first token.
    first, stop = np.searchsorted(marks.start, start), np.searchsorted(marks.start, end)
    candidate, mark = np.repeat(np.arange(len(start)), stop - first), concat_ranges(first, stop - first)
    by_start = np.argsort(start, kind="stable")
    first = np.searchsorted(start[by_start], marks.start, side="right")
    stop = np.searchsorted(start[by_start], marks.end)
    inside = by_start[concat_ranges(first, stop - first)]
    containing = np.repeat(np.arange(len(marks.start)), stop - first)
    return np.concatenate([candidate, inside]), np.concatenate([mark, containing])


def _main_and_extra_marks(start: Ints, end: Ints, marks: Marks, candidate: Ints, mark: Ints) -> tuple[MainMarks, Ints]:
    """Separate overlapping pairs into main and extra marks."""
    overlap = np.minimum(end[candidate], marks.end[mark]) - np.maximum(start[candidate], marks.start[mark])
    order = np.lexsort((marks.start[mark], -overlap, marks.source[mark], candidate))
    candidate, mark = candidate[order], mark[order]
    is_main = first_of_run(candidate, marks.source[mark])
    extra_marks = np.stack([candidate[~is_main], mark[~is_main]], axis=1)
    candidate, mark = candidate[is_main], mark[is_main]
    starts_in, ends_in = marks.start[mark] - start[candidate], end[candidate] - marks.end[mark]
    boundary = np.select(
        [(starts_in == 0) & (ends_in == 0), (starts_in >= 0) & (ends_in >= 0), (starts_in <= 0) & (ends_in <= 0)],
        [EXACT, SHORT, LONG],
        CROSSING,
    )
    order = np.lexsort((marks.end[mark], marks.start[mark], candidate))
    group = np.empty(len(order), np.int64)
    first = first_of_run(candidate[order], marks.start[mark[order]], marks.end[mark[order]])
    group[order] = np.cumsum(first) - 1
    num_alike = np.where(boundary == EXACT, 1, np.bincount(group)[group] if len(group) else 1)
    return MainMarks(candidate, mark, boundary, num_alike.astype(np.float64)), extra_marks


def _pairs(
    start: Ints, end: Ints, kind: Ints, marks: Marks, candidate: Ints, mark: Ints
) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Pairs of candidates that share a mark or touch with the same type; shared marks; which pairs touch.

    candidate, mark: all overlapping pairs.  -> pairs (P, 2), shared (s, 2), adjacent (P,)
    """
    n = len(start)
    # All pairs of candidates that overlap the same mark. Candidates that contain it exclude all others.
    is_part = (start[candidate] > marks.start[mark]) | (end[candidate] < marks.end[mark])
    mark, candidate = mark[is_part], candidate[is_part]
    by_mark = np.argsort(mark, kind="stable")
    mark, candidate = mark[by_mark], candidate[by_mark]
    first, stop = np.searchsorted(mark, mark), np.searchsorted(mark, mark, side="right")
    one = np.repeat(candidate, stop - first)
    other, shared_mark = candidate[concat_ranges(first, stop - first)], np.repeat(mark, stop - first)
    in_order = end[one] <= start[other]
    one, other, shared_mark = one[in_order], other[in_order], shared_mark[in_order]
    # Candidates of the same type that begin where another one ends.
    num_types = int(kind.max(initial=0)) + 1
    end_key, start_key = end * num_types + kind, start * num_types + kind
    by_start = np.argsort(start_key, kind="stable")
    first = np.searchsorted(start_key[by_start], end_key)
    stop = np.searchsorted(start_key[by_start], end_key, side="right")
    before, after = np.repeat(np.arange(n), stop - first), by_start[concat_ranges(first, stop - first)]
    keys, index = np.unique(np.concatenate([other, after]) * n + np.concatenate([one, before]), return_inverse=True)
    adjacent = np.zeros(len(keys), bool)
    adjacent[index[len(one) :]] = True
    pairs = np.stack([keys % max(n, 1), keys // max(n, 1)], axis=1)
    return pairs, np.stack([index[: len(one)], shared_mark], axis=1), adjacent


def _read_by(data: Dataset, spans: Ints, is_original: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which sources abstain on no token of each candidate (n, 4); near duplicates are set to False.  -> (n, K)"""
    read_by = np.repeat(is_original[None], len(spans), axis=0)
    length = spans[:, 2] - spans[:, 1]
    tokens = concat_ranges(data.offsets[spans[:, 0]] - data.offsets[0] + spans[:, 1], length)
    bounds = np.cumsum(length) - length
    for source in np.flatnonzero(is_original):
        abstains = data.votes[:, source] < 0
        if abstains.any() and len(tokens):
            read_by[:, source] &= ~np.logical_or.reduceat(abstains[tokens], bounds)
    return read_by
