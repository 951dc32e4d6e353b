"""Scores that the segment models report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener.models.segment.marks import Marks
from convener.models.segment.observations import SpanObservations
from convener.models.segment.outputs import calibrated_scores, highest_scores, reported_scores
from tests.conftest import crowd

PROBABILITIES = st.floats(0, 1)


def observe(data: cv.Dataset) -> SpanObservations:
    return SpanObservations.from_dataset(data, Marks.from_dataset(data), np.arange(len(data.sources)))


def exact_marks(data: cv.Dataset, span: tuple[int, int, int, int]) -> int:
    """Number of sources that mark exactly this span."""
    sentence, start, end, kind = span
    labels = [2 * kind + 1] + [2 * kind + 2] * (end - start - 1)
    first, stop = data.offsets[sentence] + start, data.offsets[sentence + 1]
    count = 0
    for column in data.votes.T:
        votes = column[first:stop].tolist()
        after = votes[len(labels)] if len(votes) > len(labels) else 0
        count += votes[: len(labels)] == labels and after != 2 * kind + 2
    return count


@given(PROBABILITIES, PROBABILITIES, st.integers(0, 6), st.integers(0, 6))
def test_more_probable_spans_with_more_marks_have_higher_scores(p: float, q: float, n: int, m: int) -> None:
    low, high = calibrated_scores(np.array([min(p, q), max(p, q)]), np.array([min(n, m), max(n, m)]))
    assert 0 < low <= high < 1


@pytest.mark.parametrize("seed", range(4))
def test_scores_of_labeling_functions_follow_from_probability_and_exact_marks(seed: int) -> None:
    data = crowd(seed, 30)
    data = data.with_sources(data.sources, data.votes, ("abstain",) * len(data.sources))
    observed = observe(data)
    probability = np.random.default_rng(seed).random(len(observed.candidates))
    counts = np.array([exact_marks(data, tuple(span)) for span in observed.candidates])
    expected = calibrated_scores(probability, counts)
    np.testing.assert_allclose(reported_scores(observed, probability), expected)
    assert len(set(counts.tolist())) > 2


def test_scores_of_workers_and_of_sources_with_a_known_precision_are_not_changed() -> None:
    data = crowd(0, 30)
    workers = data.with_sources(data.sources, data.votes, ("outside",) * len(data.sources))
    functions = data.with_sources(data.sources, data.votes, ("abstain",) * len(data.sources))
    known = replace(functions, prior_precision=(0.9,) * len(data.sources))
    for observed in (observe(workers), observe(known)):
        probability = np.random.default_rng(0).random(len(observed.candidates))
        np.testing.assert_array_equal(reported_scores(observed, probability), probability)


def test_the_bound_of_n_exact_marks_is_one_minus_the_product_of_their_error_rates() -> None:
    words = [["Ada", "Lovelace", "wrote"]]
    votes = {"a": [[(0, 2, "PER")]], "b": [[(0, 2, "PER")]], "c": [[(0, 1, "PER")]]}
    observed = observe(cv.Dataset.from_spans(["PER"], words, votes))
    ends = [span[2] for span in observed.candidates]
    found = dict(zip(ends, highest_scores(observed, np.array([0.5, 0.2, 0.3])), strict=True))
    assert found == {2: pytest.approx(0.9), 1: pytest.approx(0.7)}
