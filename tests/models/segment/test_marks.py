"""Marks of sources, and near duplicates."""

from __future__ import annotations

import numpy as np
from hypothesis import given

import convener as cv
from convener.inference.voting import majority_vote_io
from convener.models.segment.marks import (
    Marks,
    merge_near_duplicates,
    near_duplicate_of,
    span_positions,
    token_positions,
)
from convener.models.segment.observations import SpanObservations, majority_labels
from tests.generators import ANYTHING, datasets

ROWS = list[tuple[int, int, int, int]]


def rows(marks: Marks) -> ROWS:
    columns = (marks.start, marks.end, marks.type, marks.source)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(datasets(kind=ANYTHING, gold=False))
def test_marks_are_the_spans_of_the_votes(data: cv.Dataset) -> None:
    data = data.without_coarse()
    expected: ROWS = []
    for source, votes in enumerate(data.votes.T):
        spans = data.tags.spans(votes, data.offsets)
        start, end = span_positions(spans, data)
        expected += zip(start.tolist(), end.tolist(), spans.type.tolist(), [source] * len(spans), strict=True)
    assert rows(Marks.from_dataset(data)) == sorted(expected)


@given(datasets(kind=ANYTHING, gold=False))
def test_positions_leave_a_gap_between_sentences(data: cv.Dataset) -> None:
    at = token_positions(data)
    sentence = data.sentence_of_token()
    assert (np.diff(at) == 1 + np.diff(sentence)).all()


@given(datasets(kind=ANYTHING, gold=False))
def test_without_near_duplicates_majority_labels_equal_majority_vote(data: cv.Dataset) -> None:
    data = data.without_coarse()
    legal = [data.tags.repair(np.maximum(column, 0), data.offsets)[0] for column in data.votes.T]
    labels = majority_labels(data, Marks.from_dataset(data), ~data.unmarked_is_abstain())
    votes = np.stack([np.zeros(len(data.tokens), np.int16), *legal], axis=1)[:, 1:]
    votes = np.where(data.votes < 0, np.int16(-1), votes)
    informative = (votes > 0) | ((votes == 0) & ~data.unmarked_is_abstain())
    expected = majority_vote_io(votes, informative, data.offsets, len(data.tags.types))
    np.testing.assert_array_equal(labels, expected)


def with_duplicates(shares: dict[str, float], seed: int = 0) -> cv.Dataset:
    """One source with 200 marks, near duplicates with shares of them, and an independent source."""
    rng = np.random.default_rng(seed)
    spans = [[(0, 2, "X")] if rng.random() < 0.5 else [(1, 2, "X")] for _ in range(200)]
    votes = {"original": spans}
    votes |= {name: [span if rng.random() < share else [] for span in spans] for name, share in shares.items()}
    votes["other"] = [[(int(rng.integers(3)), 3, "X")] for _ in spans]
    return cv.Dataset.from_spans(["X"], [["a", "b", "c"]] * 200, votes)


def test_near_duplicates_belong_to_the_source_with_most_marks() -> None:
    data = with_duplicates({"near": 0.8, "half": 0.5})
    marks, nobody = Marks.from_dataset(data), np.zeros(4, bool)
    assert near_duplicate_of(marks, nobody, 0.7).tolist() == [0, 0, 2, 3]
    assert near_duplicate_of(marks, nobody, 0.4).tolist() == [0, 0, 0, 3]
    assert near_duplicate_of(marks, np.array([False, True, False, False]), 0.7).tolist() == [0, 1, 2, 3]


def test_merged_marks_are_those_of_the_original_and_those_of_near_duplicates_beside_them() -> None:
    words = [["a", "b", "c", "d"]] * 2
    data = cv.Dataset.from_spans(
        ["X"],
        words,
        {
            "subset": [[(0, 1, "X")], []],
            "original": [[(0, 2, "X")], [(0, 1, "X")]],
            "other": [[(1, 2, "X")], []],
            "more": [[(1, 3, "X"), (3, 4, "X")], [(2, 3, "X")]],
        },
    )
    merged = merge_near_duplicates(Marks.from_dataset(data), np.array([1, 1, 2, 1]))
    assert rows(merged) == [(0, 2, 0, 1), (1, 2, 0, 2), (3, 4, 0, 1), (5, 6, 0, 1), (7, 8, 0, 1)]


def test_near_duplicates_read_nothing() -> None:
    data = with_duplicates({"near": 0.9})
    observed = SpanObservations.from_dataset(data, Marks.from_dataset(data), np.array([0, 0, 2]))
    assert not observed.read_by[:, 1].any()
    assert observed.read_by[:, [0, 2]].all()
