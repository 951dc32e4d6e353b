"""What models hear of coarse votes, against the definitions written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import convener as cv
from convener.data.votes import entity_votes, negative_sources, o_to_abstain, voted_types
from convener.models.initialization import (
    complete_coarse_spans,
    emission_counts,
    mean_label_probabilities,
    mean_transition_counts,
)
from tests.generators import datasets


@given(datasets())
def test_marks_negations_and_unmarked_tokens(data: cv.Dataset) -> None:
    vague = {name for name, allowed in data.coarse.items() if "O" in allowed}
    found, negates = entity_votes(data), negative_sources(data)
    heard = o_to_abstain(data, negates)
    for k, name in enumerate(data.sources):
        kinds = [data.tags.types[(vote - 1) // 2] if vote > 0 else "" for vote in data.votes[:, k]]
        assert found[:, k].tolist() == [bool(kind) and kind not in vague for kind in kinds]
        says_not = data.unmarked[k] == "abstain" and bool(vague & set(kinds))
        assert (name in negates) == says_not
        without_o = np.where(data.votes[:, k] == 0, -1, data.votes[:, k])
        expected = without_o if says_not else data.votes[:, k]
        np.testing.assert_array_equal(heard.votes[:, k], expected)


def example() -> cv.Dataset:
    """One source finds a person; another knows where entities are, and a third where none is."""
    data = cv.Dataset.from_spans(
        ["PER", "LOC", "ORG", "ENT", "NAME", "NO"],
        [["Ada", "Lovelace", "saw", "Oslo"], ["in", "Rome"]],
        {
            "people": [[(0, 1, "PER")], []],
            "places": [[], [(1, 2, "LOC")]],
            "bounds": [[(0, 2, "ENT"), (3, 4, "ENT")], []],
            "doubts": [[(2, 3, "NO")], []],
        },
    )
    return data.with_coarse({"ENT": "any", "NAME": ("ORG",), "NO": ("O", "ORG")})


def test_types_that_somebody_says() -> None:
    data = example()
    assert voted_types(data).tolist() == [True, True, False]
    assert voted_types(data.select_sources(["bounds", "doubts"])).tolist() == [True] * 3
    assert voted_types(data.select_sources(["doubts"])).tolist() == [False] * 3
    assert voted_types(data.select_sources(["people"]).without_coarse()).tolist() == [
        True,
        False,
        False,
    ]


def test_counts_by_labels_of_which_some_are_open() -> None:
    data = example()
    found = complete_coarse_spans(data, np.array([1, 0, 0, 0, 0, 3], np.int16))
    # The person grows over its coarse span; Oslo is as probably a person as a place.
    assert [(w, x.tolist()) for w, x in found] == [
        (0.5, [1, 2, 0, 1, 0, 3]),
        (0.5, [1, 2, 0, 3, 0, 3]),
    ]
    np.testing.assert_allclose(mean_label_probabilities(data, found)[3], [0, 0.5, 0, 0.5, 0, 0, 0])
    moves = mean_transition_counts(data, found)
    assert moves.sum() == 6
    assert (moves[0, 1], moves[0, 3], moves[1, 2]) == (1.5, 1.5, 1)
    counts = emission_counts(data, found, default_precision=0.8)
    bounds = counts[2]
    np.testing.assert_allclose(np.diag(bounds), [2, 1.5, 1, 0.5, 0, 0, 0], atol=1e-5)
    assert bounds[3, 0] == 1  # it misses Rome
    # Where the truth is a person, the third source would have said so four times in five.
    doubts = counts[3]
    assert doubts[1, 1] == pytest.approx(4)
    assert doubts[2, 2] == pytest.approx(4)
    assert doubts[0, 0] > 0.99
