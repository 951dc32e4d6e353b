"""Coarse votes: selected votes and initial counts, compared with their definitions."""

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
    selected = o_to_abstain(data, negates)
    for k, name in enumerate(data.sources):
        kinds = [data.tags.types[(vote - 1) // 2] if vote > 0 else "" for vote in data.votes[:, k]]
        assert found[:, k].tolist() == [bool(kind) and kind not in vague for kind in kinds]
        is_negative = data.unmarked[k] == "abstain" and bool(vague & set(kinds))
        assert (name in negates) == is_negative
        without_o = np.where(data.votes[:, k] == 0, -1, data.votes[:, k])
        expected = without_o if is_negative else data.votes[:, k]
        np.testing.assert_array_equal(selected.votes[:, k], expected)


def example() -> cv.Dataset:
    """Sources that mark a person, a place, entities without their type, and a token that is O or ORG."""
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


def test_voted_types_include_those_that_coarse_votes_allow() -> None:
    data = example()
    assert voted_types(data).tolist() == [True, True, False]
    assert voted_types(data.select_sources(["bounds", "doubts"])).tolist() == [True] * 3
    assert voted_types(data.select_sources(["doubts"])).tolist() == [False] * 3
    assert voted_types(data.select_sources(["people"]).without_coarse()).tolist() == [
        True,
        False,
        False,
    ]


def test_counts_average_over_completions_of_coarse_spans() -> None:
    data = example()
    found = complete_coarse_spans(data, np.array([1, 0, 0, 0, 0, 3], np.int16))
    # The person is extended over its coarse span; Oslo is a person or a place with equal probability.
    assert [(w, x.tolist()) for w, x in found] == [
        (0.5, [1, 2, 0, 1, 0, 3]),
        (0.5, [1, 2, 0, 3, 0, 3]),
    ]
    np.testing.assert_allclose(mean_label_probabilities(data, found)[3], [0, 0.5, 0, 0.5, 0, 0, 0])
    transitions = mean_transition_counts(data, found)
    assert transitions.sum() == 6
    assert (transitions[0, 1], transitions[0, 3], transitions[1, 2]) == (1.5, 1.5, 1)
    counts = emission_counts(data, found, default_precision=0.8)
    bounds = counts[2]
    np.testing.assert_allclose(np.diag(bounds), [2, 1.5, 1, 0.5, 0, 0, 0], atol=1e-5)
    assert bounds[3, 0] == 1  # it misses Rome
    # Where the truth is a person, the third source would have voted so in four of five cases.
    doubts = counts[3]
    assert doubts[1, 1] == pytest.approx(4)
    assert doubts[2, 2] == pytest.approx(4)
    assert doubts[0, 0] > 0.99
