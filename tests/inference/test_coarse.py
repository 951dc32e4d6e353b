"""Coarse votes, compared with the enumeration of label paths and completions of the votes."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.inference.chain import forward_backward
from convener.inference.coarse import assign_coarse_counts, coarse_emission, complete_coarse_spans, fold_coarse_counts
from convener.inference.evidence import expected_emission_counts, log_evidence, sparsify_votes

SETS = [
    [[1, 3], [2, 4]],  # some entity
    [[0, 3, 4], [0, 3, 4]],  # not the first type
    [[1], [2]],
    [[0], [0, 1, 2, 3, 4]],
]


def allowed_with(*sets: list[int]) -> np.ndarray:
    """Five labels, and one more symbol for each set."""
    coarse = np.zeros((len(sets), 5), bool)
    for row, members in zip(coarse, sets, strict=True):
        row[members] = True
    return np.concatenate([np.eye(5, dtype=bool), coarse])


cases = st.tuples(st.integers(0, 2**32 - 1), st.sampled_from(SETS), st.integers(1, 3))


@given(cases)
def test_evidence_and_expected_counts_are_those_of_enumeration(
    case: tuple[int, list[list[int]], int],
) -> None:
    seed, sets, length = case
    rng = np.random.default_rng(seed)
    allowed = allowed_with(*sets)
    init, transitions = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5), 5)
    emissions = rng.dirichlet(np.ones(5), (2, 5))
    votes = rng.integers(-1, len(allowed), (length, 2)).astype(np.int16)
    votes[0, 0] = 5  # at least one is coarse
    total, expected = 0.0, np.zeros((2, 5, 5))
    meant = [np.flatnonzero(allowed[vote]) if vote >= 0 else [-1] for vote in votes.ravel()]
    for path in product(range(5), repeat=length + 1):
        prior = init[path[0]] * np.prod([transitions[a, b] for a, b in pairwise(path)])
        for completion in product(*meant):
            weight, completed = prior, np.reshape(completion, votes.shape)
            observed = [(t, k) for t, k in np.ndindex(votes.shape) if completed[t, k] >= 0]
            for t, k in observed:
                weight *= emissions[k, path[t + 1], completed[t, k]]
            total += weight
            for t, k in observed:
                expected[k, path[t + 1], completed[t, k]] += weight
    sparse = sparsify_votes(votes)
    log_like = log_evidence(sparse, np.log(coarse_emission(emissions, allowed)), dtype=np.float64)
    found = forward_backward(np.log(init), np.log(transitions), log_like, np.array([0, length]))
    assert found.log_likelihood[0] == pytest.approx(np.log(total), abs=1e-6)
    counts = expected_emission_counts(sparse, found.marginals, num_symbols=len(allowed))
    np.testing.assert_allclose(fold_coarse_counts(counts, emissions, allowed), expected / total, atol=1e-6)


def test_without_coarse_symbols_nothing_changes() -> None:
    rng = np.random.default_rng(0)
    counts, emissions = rng.random((2, 5, 5)), rng.dirichlet(np.ones(5), (2, 5))
    labels = np.eye(5, dtype=bool)
    np.testing.assert_array_equal(coarse_emission(emissions, labels), emissions)
    np.testing.assert_array_equal(fold_coarse_counts(counts, emissions, labels), counts)
    assert assign_coarse_counts(counts, np.ones(5), labels, np.full(2, 0.9)) is counts


def test_a_label_without_emission_gets_no_counts() -> None:
    counts, emissions = np.zeros((1, 5, 6)), np.zeros((1, 5, 5))
    counts[0, 0, 5] = 4
    found = fold_coarse_counts(counts, emissions, allowed_with([1, 3]))
    np.testing.assert_allclose(found[0, 0], [0, 2, 0, 2, 0])


def test_a_coarse_vote_counts_for_the_true_label_it_allows() -> None:
    """Source 0 votes for a coarse B-: 6 times where B- of the first type is true, 4 times where O is."""
    allowed = allowed_with([1, 3], [2, 4])
    counts = np.zeros((1, 5, 7))
    counts[0, 1, 5], counts[0, 3, 5], counts[0, 0, 5], counts[0, 0, 0] = 6, 2, 4, 50
    found = assign_coarse_counts(counts, np.array([88.0, 5, 0, 2, 0]), allowed, np.array([0.9]))
    by_hand = np.zeros((5, 5))
    by_hand[0] = [50, 4 * 6 / 9, 0, 4 * 3 / 9, 0]  # as labels are: 5 + 1 to 2 + 1
    by_hand[1, 1], by_hand[3, 3] = 6, 2
    np.testing.assert_allclose(found[0], by_hand, atol=1e-4)


def test_a_vote_that_allows_o_is_correct_with_its_prior_precision() -> None:
    """A vote "not the first type": 3 times where that type is true, 30 times where O is."""
    allowed = allowed_with([0, 3, 4], [0, 3, 4])
    counts = np.zeros((2, 5, 7))
    counts[0, 1, 5], counts[0, 0, 5] = 3, 30
    counts[1, 0, 0] = 100  # the other source never says so
    found = assign_coarse_counts(counts, np.array([88.0, 5, 0, 2, 0]), allowed, np.array([0.8, 0.8]))
    assert found[0, 1, 1] == pytest.approx((3 + 1) * 4)
    assert found[0, 2, 2] == pytest.approx((0 + 1) * 4)
    assert found[0, 1, [0, 3, 4]].sum() == pytest.approx(3)
    assert found[0, 0, 0] == pytest.approx(30, abs=1e-3)
    np.testing.assert_array_equal(found[1], counts[1, :, :5])


def test_spans_marked_only_by_coarse_votes_get_each_type_in_turn() -> None:
    allowed = allowed_with([1, 3], [2, 4])
    offsets = np.array([0, 5, 5, 9])
    labels = np.array([1, 2, 0, 0, 0, 1, 0, 3, 0], np.int16)
    symbols = np.array([0, 0, 0, 5, 6, 5, 6, 0, 6], np.int16)
    found = complete_coarse_spans(labels, symbols, allowed, offsets)
    # The span at token 5 grows over the coarse one, as does that at token 7; two of three that
    # remain are of the first type.
    assert [(round(weight, 4), some.tolist()) for weight, some in found] == [
        (0.6667, [1, 2, 0, 1, 2, 1, 2, 3, 4]),
        (0.3333, [1, 2, 0, 3, 4, 1, 2, 3, 4]),
    ]


def test_a_type_that_is_not_allowed_is_replaced() -> None:
    allowed = allowed_with([1, 3], [2, 4], [3], [4])
    labels, symbols = np.array([1, 0, 0, 0], np.int16), np.array([0, 5, 8, 7], np.int16)
    ((weight, some),) = complete_coarse_spans(labels, symbols, allowed, np.array([0, 4]))
    # I of the second type cannot go on with the first, and so begins.
    assert (weight, some.tolist()) == (1.0, [1, 1, 3, 3])


def test_without_fine_votes_all_types_have_equal_weight() -> None:
    labels, symbols = np.zeros(2, np.int16), np.array([0, 5], np.int16)
    found = complete_coarse_spans(labels, symbols, allowed_with([1, 3]), np.array([0, 2]))
    assert [(weight, some.tolist()) for weight, some in found] == [(0.5, [0, 1]), (0.5, [0, 3])]
