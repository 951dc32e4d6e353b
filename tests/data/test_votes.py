"""Selection of the votes a model uses."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given

import convener as cv
from convener.data.votes import VoteSelection, negative_sources
from tests import generators


@given(generators.datasets(), generators.datasets())
def test_a_selection_is_restored_from_json(one: cv.Dataset, other: cv.Dataset) -> None:
    for data in (one, other):
        selection = VoteSelection.from_dataset(data, keep_coarse=True, keep_duplicates=False)
        assert VoteSelection.from_json(json.loads(json.dumps(selection.to_json()))) == selection
        assert selection.negative_sources == negative_sources(data)


@given(generators.datasets())
def test_without_duplicates_and_coarse_votes_all_votes_are_used(data: cv.Dataset) -> None:
    fine = data.without_coarse()
    selection = VoteSelection.from_dataset(fine, keep_coarse=False, keep_duplicates=True)
    assert selection.apply(fine) == fine
    assert selection.duplicates(fine.sources) == []
    assert VoteSelection.from_dataset(data, keep_coarse=False, keep_duplicates=True).apply(data) == fine


def test_a_duplicate_is_dropped(toy: cv.Dataset) -> None:
    votes = toy.votes[:, [0, 1, 0]]
    data = toy.with_sources(["a", "b", "copy"], votes, ["abstain"] * 3)
    selection = VoteSelection.from_dataset(data, keep_coarse=False, keep_duplicates=False)
    assert selection.used_sources(data.sources) == ("a", "b")
    assert selection.duplicates(data.sources) == [("copy", "a")]
    selected = selection.apply(data)
    np.testing.assert_array_equal(selected.votes, votes[:, :2])
