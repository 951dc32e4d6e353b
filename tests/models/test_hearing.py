"""Which of the votes a model hears."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given

import convener as cv
from convener.models.hearing import Hearing, negating
from tests import generators


@given(generators.datasets(), generators.datasets())
def test_what_is_heard_is_written_and_read_back(one: cv.Dataset, other: cv.Dataset) -> None:
    for data in (one, other):
        hearing = Hearing.of_votes(data, coarse=True, repeats=False)
        assert Hearing.from_json(json.loads(json.dumps(hearing.to_json()))) == hearing
        assert hearing.negating == negating(data)


@given(generators.datasets())
def test_without_copies_and_coarse_votes_all_is_heard(data: cv.Dataset) -> None:
    fine = data.fine()
    hearing = Hearing.of_votes(fine, coarse=False, repeats=True)
    assert hearing.heard(fine) == fine
    assert hearing.repeated(fine.sources) == []
    assert Hearing.of_votes(data, coarse=False, repeats=True).heard(data) == fine


def test_a_copy_is_left_out_and_is_like_its_original(toy: cv.Dataset) -> None:
    votes = toy.votes[:, [0, 1, 0]]
    data = toy.with_sources(["a", "b", "copy"], votes, ["O"] * 3)
    hearing = Hearing.of_votes(data, coarse=False, repeats=False)
    assert hearing.sources(data.sources) == ("a", "b")
    assert hearing.repeated(data.sources) == [("copy", "a")]
    heard = hearing.heard(data)
    np.testing.assert_array_equal(heard.votes, votes[:, :2])
    rates = np.array([[0.1, 0.2], [0.3, 0.4]])
    assert hearing.of_all(rates).tolist() == [[0.1, 0.2], [0.3, 0.4], [0.1, 0.2]]
