"""WXOR scores against nested loops."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.models.sparse_chmm.wxor import wxor_sums
from tests.inference.test_vote_cells import Offsets, Votes, crowds, random_crowd

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def summed(votes: Votes, offsets: Offsets, scores: Floats) -> tuple[Floats, Floats]:
    """W before the division, and the number of votes of each source for each label."""
    sources, labels = scores.shape[1:]
    sums, counts = np.zeros((sources, labels, labels)), np.zeros((sources, labels))
    for m, (first, last) in enumerate(pairwise(offsets)):
        for t, k, q in product(range(first, last), range(sources), range(1, labels)):
            if votes[t, k] != q:
                continue
            counts[k, q] += 1
            for target in range(1, labels):
                opposing = [scores[m, j, target] for j in range(sources) if votes[t, j] == target]
                if target != q and opposing:
                    sums[k, q, target] += (1 - scores[m, k, q]) * np.sum(opposing)
    return sums, counts


def table(sums: Floats, counts: Floats) -> Floats:
    scores = np.zeros_like(sums)
    sources, labels = counts.shape
    for k, target in product(range(sources), range(1, labels)):
        queries = [q for q in range(1, labels) if q != target and counts[k, q] > 0]
        weights = np.array([np.exp(sums[k, q, target] / counts[k, q]) for q in queries])
        for q, weight in zip(queries, weights, strict=True):
            scores[k, q, target] = weight / weights.sum()
    return scores


@given(crowds, st.sampled_from([np.float32, np.float64]))
def test_scores_equal_nested_loops(crowd: tuple[int, list[int], int, int], dtype: type) -> None:
    votes, offsets, _ = random_crowd(*crowd)
    rng = np.random.default_rng(crowd[0])
    scores = rng.random((len(offsets) - 1, votes.shape[1], crowd[3])).astype(dtype)
    sums, counts = summed(votes, offsets, scores)
    found = wxor_sums(votes, offsets, scores)
    np.testing.assert_allclose(found.sums, sums, rtol=1e-6)
    np.testing.assert_array_equal(found.counts, counts)
    np.testing.assert_allclose(found.scores(), table(sums, counts), rtol=1e-6, atol=1e-12)


@given(crowds, st.integers(0, 6))
def test_sums_of_parts_add_up(crowd: tuple[int, list[int], int, int], cut: int) -> None:
    votes, offsets, _ = random_crowd(*crowd)
    cut = min(cut, len(offsets) - 1)
    scores = np.random.default_rng(0).random((len(offsets) - 1, votes.shape[1], crowd[3]))
    middle = offsets[cut]
    parts = wxor_sums(votes[:middle], offsets[: cut + 1], scores[:cut]) + wxor_sums(
        votes[middle:], offsets[cut:] - middle, scores[cut:]
    )
    whole = wxor_sums(votes, offsets, scores)
    np.testing.assert_allclose(parts.scores(), whole.scores(), rtol=1e-9, atol=1e-12)


def test_columns_are_distributions_over_the_labels_a_source_votes() -> None:
    votes, offsets, _ = random_crowd(5, [9] * 20, 4, 5)
    votes[:, 3] = np.where(votes[:, 3] > 2, 0, votes[:, 3])
    table = wxor_sums(votes, offsets, np.full((20, 4, 5), 0.7)).scores()
    assert (table[:, 0] == 0).all()
    assert (table[:, :, 0] == 0).all()
    assert (table[3, 3:] == 0).all()
    voted = [(votes[:, k] == q).any() for k in range(4) for q in range(5)]
    for k, target in product(range(4), range(1, 5)):
        others = [q for q in range(1, 5) if q != target and voted[5 * k + q]]
        assert table[k, :, target].sum() == pytest.approx(1.0 if others else 0.0)
        assert table[k, target, target] == 0


@pytest.mark.parametrize("votes", [np.zeros((6, 3)), np.full((6, 3), -1), np.zeros((0, 3))])
def test_scores_are_zero_without_entity_votes(votes: Votes) -> None:
    offsets = np.array([0, 0, len(votes)])
    scores = np.full((2, 3, 3), 0.5, np.float32)
    found = wxor_sums(votes.astype(np.int16), offsets, scores)
    np.testing.assert_array_equal(found.scores(), np.zeros((3, 3, 3)))


def test_a_single_source_has_no_disagreement() -> None:
    votes = np.array([[1], [2], [0], [3]], np.int16)
    found = wxor_sums(votes, np.array([0, 4]), np.full((1, 1, 5), 0.5))
    assert found.sums.sum() == 0
    # The softmax of zeros is uniform over the labels it votes.
    np.testing.assert_allclose(found.scores()[0, :, 4], [0, 1 / 3, 1 / 3, 1 / 3, 0])
