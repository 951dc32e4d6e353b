"""Starting values: counts against loops, and the estimate of lone votes against a simulation."""

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


def test_moves_are_counted_sentence_by_sentence() -> None:
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


def test_false_votes_are_charged_to_the_row_of_o_alone() -> None:
    counts = np.zeros((1, 3, 3))
    counts[0] = [[1000, 0, 0], [300, 600, 0], [200, 0, 400]]
    plain = smoothed_emission_counts(counts, false_votes=0)
    charged = smoothed_emission_counts(counts, false_votes=10)
    difference = charged - plain
    assert difference[0, 0, 1:].sum() == pytest.approx(10)
    assert difference[0, 0, 1] / difference[0, 0, 2] == pytest.approx(600 / 400, rel=1e-4)
    assert not difference[0, 1:].any()


def test_a_rare_source_is_charged_by_its_votes() -> None:
    counts = np.zeros((1, 3, 3))
    counts[0] = [[1000, 0, 0], [300, 20, 0], [200, 0, 20]]
    charged = smoothed_emission_counts(counts, false_votes=10) - smoothed_emission_counts(counts, false_votes=0)
    assert charged.sum() == pytest.approx(2)


def test_every_row_has_something_even_for_a_source_without_votes() -> None:
    counts = np.zeros((2, 3, 3))
    counts[0, 0, 0] = 5
    start = smoothed_emission_counts(counts, false_votes=10)
    assert (start > 0).all()


def test_chance_is_that_of_listing_every_pattern_of_marks() -> None:
    rng = np.random.default_rng(1)
    said = rng.random((500, 4)) < [0.7, 0.5, 0.3, 0.1]
    said = said[said.any(axis=1)]
    rates = said.mean(axis=0)
    lone = marked = 0.0
    for pattern in product([False, True], repeat=4):
        weight = np.prod(np.where(pattern, rates, 1 - rates))
        marked += weight * any(pattern)
        lone += weight * (sum(pattern) == 1)
    observed, expected = count_single_source_tokens(said)
    assert observed == sum(row.sum() == 1 for row in said)
    assert expected == pytest.approx(len(said) * lone / marked)


def ever_falser(seed: int, recall: float) -> list[NDArray[np.int16]]:
    """Votes of six sources that find this share of the truth, with more and more false marks."""
    rng = np.random.default_rng(seed)
    truth = rng.random((50_000, 1)) < 0.1
    right = truth & (rng.random((50_000, 6)) < recall)
    return [(right | (~truth & (rng.random((50_000, 6)) < share))).astype(np.int16) for share in (0, 0.003, 0.01)]


def test_false_votes_raise_the_weight_of_unmarked_tokens() -> None:
    weights = [estimate_unmarked_weight(votes, votes.max(axis=1), 1) for votes in ever_falser(2, 0.6)]
    assert weights[0] < weights[1] < weights[2]
    assert weights[2] > 0.5


def test_sources_that_miss_much_leave_unmarked_tokens_little_weight() -> None:
    rng = np.random.default_rng(3)
    truth = rng.random(50_000) < 0.1
    votes = (truth[:, None] & (rng.random((50_000, 3)) < [0.5, 0.3, 0.2])).astype(np.int16)
    labels = votes.any(axis=1).astype(np.int16)
    assert estimate_unmarked_weight(votes, labels, 1) < 0.35


def test_one_source_has_no_others_to_leave_tokens_unmarked() -> None:
    votes = np.array([[1], [0]], np.int16)
    assert estimate_unmarked_weight(votes, votes[:, 0], 1) == 1
    assert estimate_unmarked_weight(np.zeros((4, 3), np.int16), np.zeros(4, np.int16), 1) == 1
    assert MIN_UNMARKED_WEIGHT > 0


def test_a_mark_is_worth_less_where_lone_marks_are_false() -> None:
    found = [estimate_nu_base(votes, votes.max(axis=1), 1) for votes in ever_falser(4, 0.4)]
    assert 0 < found[0] < found[1] < found[2] <= MAX_NU_BASE


def test_one_source_is_taken_at_its_word() -> None:
    votes = np.array([[1], [0]], np.int16)
    assert estimate_nu_base(votes, votes[:, 0], 1) == 1


def test_of_known_precision_just_the_rest_is_false() -> None:
    """Source 0 marks 30 tokens, 24 of them right; source 1 is not known and stays as it is."""
    counts = np.zeros((2, 3, 3))
    counts[:] = [[960, 4, 2], [5, 16, 1], [2, 0, 7]]
    start = smoothed_emission_counts(counts, false_votes=10, smoothing=0, precision=np.array([0.8, np.nan]))
    plain = smoothed_emission_counts(counts, false_votes=10, smoothing=0)
    np.testing.assert_array_equal(start[1], plain[1])
    # B is said 20 times, I 10 times: a fifth of each is where the truth is O, the rest where it
    # was, in the proportions 16 : 1 : 7.
    by_hand = [[960, 4, 2], [5, 24 * 16 / 24, 24 * 1 / 24], [2, 0, 24 * 7 / 24]]
    np.testing.assert_allclose(start[0], by_hand)
    said = start[0, :, 1:]
    assert said[0].sum() / said.sum() == pytest.approx(0.2)
    emissions = start[0] / start[0].sum(axis=1, keepdims=True)
    assert emissions[0, 1:].sum() == pytest.approx(6 / 966)


def test_a_source_that_is_never_right_by_the_vote_is_given_its_diagonal() -> None:
    counts = np.zeros((1, 3, 3))
    counts[0, 0] = [50, 10, 0]
    start = smoothed_emission_counts(counts, false_votes=10, smoothing=0, precision=np.array([0.3]))
    np.testing.assert_allclose(start[0], [[50, 7, 0], [0, 3, 0], [0, 0, 0]])


def test_scores_of_o_leave_each_source_its_false_marks() -> None:
    counts = np.tile([[80.0, 0, 0], [5, 10, 0], [0, 0, 5]], (2, 1, 1))
    scores = initial_reliability(counts, counts.sum(axis=1), precision=np.array([0.9, 0.4]))
    np.testing.assert_allclose(scores[:, 0], [1 - 0.1 * 0.15, 1 - 0.6 * 0.15])
    np.testing.assert_allclose(scores[:, 1], 10 / 15)
