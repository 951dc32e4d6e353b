"""Observations computed by block, and the relations of marks and candidates, equal their plain formulations."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import convener as cv
from convener.data.spans import Spans
from convener.models.segment import observations
from convener.models.segment.marks import Marks, near_duplicate_of, worker_mask
from convener.models.segment.observations import SpanObservations, distinct_rows
from convener.models.segment.prior import adjacency, initial_posterior, knowledge, prior_counts
from convener.models.segment.sources import expected_counts
from tests.generators import ANYTHING, datasets


def observe(data: cv.Dataset, similarity: float = 0.7) -> SpanObservations:
    marks = Marks.from_dataset(data)
    return SpanObservations.from_dataset(data, marks, near_duplicate_of(marks, worker_mask(data), similarity))


def arrays(value: Any) -> Iterator[NDArray[Any]]:
    if dataclasses.is_dataclass(value):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, list | tuple):
        for each in value:
            yield from arrays(each)
    elif value is not None:
        yield np.asarray(value)


@given(datasets(kind=ANYTHING, gold=False), st.integers(1, 12))
def test_blocks_of_any_size_give_the_same_observations(data: cv.Dataset, size: int) -> None:
    data = data.without_coarse()
    whole = list(arrays(observe(data)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observations, "BLOCK_TOKENS", size)
        by_block = list(arrays(observe(data)))
    for one, other in zip(whole, by_block, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@given(datasets(kind=ANYTHING, gold=False))
def test_pairs_are_disjoint_candidates_that_share_a_mark_or_touch(data: cv.Dataset) -> None:
    found = observe(data.without_coarse())
    start, end, kind = found.lattice.start, found.lattice.end, found.candidates.type
    marks, disjoint = found.marks, end[:, None] <= start
    overlaps = (start[:, None] < marks.end) & (marks.start < end[:, None])
    shared = disjoint & (overlaps.astype(int) @ overlaps.T.astype(int) > 0)
    touching = (end[:, None] == start) & (kind[:, None] == kind)
    assert {tuple(pair) for pair in found.lattice.pairs.tolist()} == set(
        zip(*np.nonzero(shared | touching), strict=True)
    )
    np.testing.assert_array_equal(found.adjacent, touching[tuple(found.lattice.pairs.T)])
    expected = {
        (i, j, m) for i, j in zip(*np.nonzero(disjoint), strict=True) for m in np.flatnonzero(overlaps[i] & overlaps[j])
    }
    assert {(*found.lattice.pairs[p].tolist(), m) for p, m in found.shared.tolist()} == expected
    assert len(found.shared) == len(expected)


@given(datasets(kind=ANYTHING, gold=False))
def test_adjacency_counts_marks_that_begin_where_another_one_ends(data: cv.Dataset) -> None:
    found = observe(data.without_coarse())
    marks = found.marks
    mark_counts = marks.counts(found.num_sources, found.num_types)
    ends = set(zip(marks.source.tolist(), marks.type.tolist(), marks.end.tolist(), strict=True))
    keys = zip(marks.source.tolist(), marks.type.tolist(), marks.start.tolist(), strict=True)
    touches = np.array([key in ends for key in keys], bool)
    adjacent, total = np.bincount(marks.type[touches], minlength=found.num_types), mark_counts.sum(axis=0)
    known = knowledge(found, mark_counts)
    posterior = initial_posterior(found, known, np.full(found.num_sources, 0.1))
    counts = expected_counts(found, posterior, found.covered(posterior))
    counts = counts.add(prior_counts(found, counts, mark_counts, known))
    overall = (adjacent.sum() + 0.5) / (total.sum() + 50)
    rate = (adjacent + 50 * overall) / (total + 50)
    expected = np.minimum(0, np.log(rate * counts.tokens / counts.spans))
    np.testing.assert_array_equal(adjacency(found, mark_counts, counts), expected)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=20))
def test_distinct_rows_are_those_of_unique(values: list[tuple[int, int]]) -> None:
    rows = np.array(values, np.uint8).reshape(-1, 2)
    patterns, index = distinct_rows(rows)
    expected, expected_index = np.unique(rows, axis=0, return_inverse=True)
    np.testing.assert_array_equal(patterns, expected)
    np.testing.assert_array_equal(index, expected_index.reshape(-1))


def test_a_dataset_without_sentences_has_no_candidates() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]], {"s": [[(0, 1, "X")]]})[:0]
    found = observe(data)
    assert len(found.candidates) == len(found.lattice) == 0
    assert isinstance(found.candidates, Spans)
