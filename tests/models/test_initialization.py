"""Initialization: counts compared with loops, and estimates from simulated votes."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.typing import NDArray

from convener.inference.counts import transition_counts
from convener.models.initialization import (
    MAX_NU_BASE,
    MIN_UNMARKED_WEIGHT,
    count_single_source_tokens,
    estimate_nu_base,
    estimate_unmarked_weight,
    initial_reliability,
    smoothed_emission_counts,
)


def test_transitions_are_counted_by_sentence() -> None:
    rng = np.random.default_rng(0)
    offsets = np.array([0, 3, 3, 7, 12])
    labels = rng.integers(0, 5, size=12).astype(np.int16)
    expected = np.zeros((5, 5))
    for first, last in pairwise(offsets):
        before = 0
        for label in labels[first:last]:
            expected[before, label] += 1
            before = label
    np.testing.assert_array_equal(transition_counts(labels, offsets, 5), expected)


def test_false_votes_are_added_to_the_row_of_o_only() -> None:
    counts = np.zeros((1, 3, 3))
    counts[0] = [[1000, 0, 0], [300, 600, 0], [200, 0, 400]]
    plain = smoothed_emission_counts(counts, false_votes=0)
    with_false_votes = smoothed_emission_counts(counts, false_votes=10)
    difference = with_false_votes - plain
    assert difference[0, 0, 1:].sum() == pytest.approx(10)
    assert difference[0, 0, 1] / difference[0, 0, 2] == pytest.approx(600 / 400, rel=1e-4)
    assert not difference[0, 1:].any()


def test_false_votes_of_a_rare_source_are_limited_by_its_votes() -> None:
    counts = np.zeros((1, 3, 3))
    counts[0] = [[1000, 0, 0], [300, 20, 0], [200, 0, 20]]
    added = smoothed_emission_counts(counts, false_votes=10) - smoothed_emission_counts(counts, false_votes=0)
    assert added.sum() == pytest.approx(2)


def test_all_counts_are_positive_even_for_a_source_without_votes() -> None:
    counts = np.zeros((2, 3, 3))
    counts[0, 0, 0] = 5
    start = smoothed_emission_counts(counts, false_votes=10)
    assert (start > 0).all()


def test_expected_single_source_tokens_equal_an_enumeration() -> None:
    rng = np.random.default_rng(1)
    marks = rng.random((500, 4)) < [0.7, 0.5, 0.3, 0.1]
    marks = marks[marks.any(axis=1)]
    rates = marks.mean(axis=0)
    single = marked = 0.0
    for pattern in product([False, True], repeat=4):
        weight = np.prod(np.where(pattern, rates, 1 - rates))
        marked += weight * any(pattern)
        single += weight * (sum(pattern) == 1)
    observed, expected = count_single_source_tokens(marks)
    assert observed == sum(row.sum() == 1 for row in marks)
    assert expected == pytest.approx(len(marks) * single / marked)


def increasingly_false_votes(seed: int, recall: float) -> list[NDArray[np.int16]]:
    """Votes of six sources with this recall, and with an increasing share of false marks."""
    rng = np.random.default_rng(seed)
    truth = rng.random((50_000, 1)) < 0.1
    right = truth & (rng.random((50_000, 6)) < recall)
    return [(right | (~truth & (rng.random((50_000, 6)) < share))).astype(np.int16) for share in (0, 0.003, 0.01)]


def test_false_votes_raise_the_weight_of_unmarked_tokens() -> None:
    weights = [estimate_unmarked_weight(votes, votes.max(axis=1), 1) for votes in increasingly_false_votes(2, 0.6)]
    assert weights[0] < weights[1] < weights[2]
    assert weights[2] > 0.5


def test_low_recall_lowers_the_weight_of_unmarked_tokens() -> None:
    rng = np.random.default_rng(3)
    truth = rng.random(50_000) < 0.1
    votes = (truth[:, None] & (rng.random((50_000, 3)) < [0.5, 0.3, 0.2])).astype(np.int16)
    labels = votes.any(axis=1).astype(np.int16)
    assert estimate_unmarked_weight(votes, labels, 1) < 0.35


def test_unmarked_tokens_have_full_weight_for_one_source_or_without_marks() -> None:
    votes = np.array([[1], [0]], np.int16)
    assert estimate_unmarked_weight(votes, votes[:, 0], 1) == 1
    assert estimate_unmarked_weight(np.zeros((4, 3), np.int16), np.zeros(4, np.int16), 1) == 1
    assert MIN_UNMARKED_WEIGHT > 0


def test_false_single_source_marks_raise_nu_base() -> None:
    found = [estimate_nu_base(votes, votes.max(axis=1), 1) for votes in increasingly_false_votes(4, 0.4)]
    assert 0 < found[0] < found[1] < found[2] <= MAX_NU_BASE


def test_nu_base_is_one_for_a_single_source() -> None:
    votes = np.array([[1], [0]], np.int16)
    assert estimate_nu_base(votes, votes[:, 0], 1) == 1


def test_prior_precision_determines_the_share_of_false_votes() -> None:
    """Source 0 marks 30 tokens, 24 of them correctly; source 1 has no prior precision and is unchanged."""
    counts = np.zeros((2, 3, 3))
    counts[:] = [[960, 4, 2], [5, 16, 1], [2, 0, 7]]
    start = smoothed_emission_counts(counts, false_votes=10, smoothing=0, precision=np.array([0.8, np.nan]))
    plain = smoothed_emission_counts(counts, false_votes=10, smoothing=0)
    np.testing.assert_array_equal(start[1], plain[1])
    # 20 votes for B, 10 for I: a fifth of each where the truth is O, the other 24 in the original
    # proportions 16 : 1 : 7.
    by_hand = [[960, 4, 2], [5, 24 * 16 / 24, 24 * 1 / 24], [2, 0, 24 * 7 / 24]]
    np.testing.assert_allclose(start[0], by_hand)
    entity_counts = start[0, :, 1:]
    assert entity_counts[0].sum() / entity_counts.sum() == pytest.approx(0.2)
    emissions = start[0] / start[0].sum(axis=1, keepdims=True)
    assert emissions[0, 1:].sum() == pytest.approx(6 / 966)


def test_a_source_without_correct_votes_gets_counts_on_the_diagonal() -> None:
    counts = np.zeros((1, 3, 3))
    counts[0, 0] = [50, 10, 0]
    start = smoothed_emission_counts(counts, false_votes=10, smoothing=0, precision=np.array([0.3]))
    np.testing.assert_allclose(start[0], [[50, 7, 0], [0, 3, 0], [0, 0, 0]])


def test_reliability_scores_of_o_allow_for_false_votes() -> None:
    counts = np.tile([[80.0, 0, 0], [5, 10, 0], [0, 0, 5]], (2, 1, 1))
    scores = initial_reliability(counts, counts.sum(axis=1), precision=np.array([0.9, 0.4]))
    np.testing.assert_allclose(scores[:, 0], [1 - 0.1 * 0.15, 1 - 0.6 * 0.15])
    np.testing.assert_allclose(scores[:, 1], 10 / 15)
