"""Duplicate sources and sources contained in others."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from convener.data.votes import MIN_OVERLAP, MIN_SHARED_VOTES, find_duplicates, find_subset_sources


def column(rng: np.random.Generator, *, marks: float = 0.3) -> NDArray[np.int16]:
    votes = rng.integers(1, 5, 400) * (rng.random(400) < marks)
    return np.asarray(votes, np.int16)


def changed(source: NDArray[np.int16], count: int) -> NDArray[np.int16]:
    """The same votes with `count` entity votes removed."""
    fewer = source.copy()
    fewer[np.flatnonzero(source > 0)[:count]] = 0
    return fewer


@given(st.integers(0, 1000), st.permutations(range(6)))
def test_duplicates_are_found_in_any_order(seed: int, order: list[int]) -> None:
    rng = np.random.default_rng(seed)
    first, second = column(rng), column(rng)
    columns = [first, second, changed(first, 1), second, column(rng), changed(first, 2)]
    found = find_duplicates(np.stack([columns[n] for n in order], axis=1))
    groups = {frozenset(order[k] for k in np.flatnonzero(found == o)) for o in found}
    assert groups == {frozenset({0, 2, 5}), frozenset({1, 3}), frozenset({4})}
    assert order[int(found[order.index(2)])] == 0  # the one with most marks is the original


@given(st.integers(0, 1000), st.integers(0, 30))
def test_duplicates_are_nearly_equal_where_either_marks_an_entity(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    first = column(rng, marks=0.8) - (rng.random(400) < 0.1).astype(np.int16)
    second = np.roll(changed(first, count), int(rng.integers(2)))
    marked = (first > 0) | (second > 0)
    num_same = np.count_nonzero(first[marked] == second[marked])
    is_duplicate = num_same >= MIN_SHARED_VOTES and num_same >= MIN_OVERLAP * np.count_nonzero(marked)
    assert (len(set(find_duplicates(np.stack([first, second], axis=1)).tolist())) == 1) == is_duplicate


def test_the_thresholds_are_exact() -> None:
    votes = np.zeros((1000, 2), np.int16)
    votes[:200] = 1
    most = int(200 * (1 - MIN_OVERLAP))
    votes[:most, 1] = 0
    assert find_duplicates(votes).tolist() == [0, 0]
    votes[most, 1] = 0
    assert find_duplicates(votes).tolist() == [0, 1]


def test_other_types_and_boundaries_are_no_duplicates() -> None:
    one = np.ones(100, np.int16)
    assert find_duplicates(np.stack([one, one + 2], axis=1)).tolist() == [0, 1]
    assert find_duplicates(np.stack([one, one + 1], axis=1)).tolist() == [0, 1]


@given(st.integers(0, 1000))
def test_subset_sources_are_found_with_the_smallest_superset(seed: int) -> None:
    rng = np.random.default_rng(seed)
    most = column(rng, marks=0.6)
    some = changed(most, 100)
    few = changed(some, 40)
    other = np.roll(most, 7)
    found = find_subset_sources(np.stack([few, other, most, some], axis=1))
    assert [pair[:2] for pair in found if 1 not in pair[:2]] == [(0, 3), (3, 2)]
    for source, holder, share in found:
        votes = np.stack([few, other, most, some], axis=1)
        marked = votes[:, source] > 0
        assert share == (votes[marked, source] == votes[marked, holder]).mean() >= MIN_OVERLAP


def test_few_votes_are_not_enough_for_duplicates() -> None:
    votes = np.zeros((100, 3), np.int16)
    votes[: MIN_SHARED_VOTES - 1] = 1
    assert find_duplicates(votes).tolist() == [0, 1, 2]
    assert find_duplicates(np.zeros((0, 2), np.int16)).tolist() == [0, 1]
    assert find_duplicates(np.full((100, 2), -1, np.int16)).tolist() == [0, 1]
