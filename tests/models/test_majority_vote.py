"""Majority vote: its rules, ties, and scores of the paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convener as cv


def scores(real_data: Path, name: str, model: cv.LabelModel) -> tuple[float, float, float]:
    test = cv.read(real_data / name, "test")
    result = cv.evaluate(model.fit(test).predict(test), test)
    return tuple(round(100 * value, 2) for value in (result.precision, result.recall, result.f1))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LaptopReview", (88.86, 62.33, 73.27)),
        ("NCBI-Disease", (93.04, 67.79, 78.44)),
        ("BC5CDR", (91.63, 76.64, 83.47)),
        ("CoNLL", (60.45, 62.62, 61.52)),
    ],
)
def test_scores_of_the_io_scheme_equal_the_paper(
    real_data: Path, name: str, expected: tuple[float, float, float]
) -> None:
    assert scores(real_data, name, cv.MajorityVote()) == expected


@pytest.mark.parametrize(("name", "f1"), [("LaptopReview", 73.45), ("NCBI-Disease", 78.85), ("BC5CDR", 83.82)])
def test_scores_of_the_span_scheme(real_data: Path, name: str, f1: float) -> None:
    assert scores(real_data, name, cv.MajorityVote(scheme="span"))[2] == f1


def vote(votes: dict[str, list[tuple[int, int, str]] | None], **settings: object) -> list[str]:
    """Tags of one sentence of four tokens."""
    data = cv.Dataset.from_spans(["PER", "LOC"], [["a", "b", "c", "d"]], {name: [row] for name, row in votes.items()})
    return cv.MajorityVote(**settings).fit(data).predict(data).tags()[0]


def test_b_and_i_votes_count_for_the_same_type() -> None:
    votes = {"x": [(0, 2, "PER")], "y": [(1, 2, "PER")], "z": [(1, 2, "LOC")]}
    assert vote(votes) == ["B-PER", "I-PER", "O", "O"]


def test_o_does_not_vote_where_unmarked_is_abstain() -> None:
    assert vote({"x": [(0, 1, "PER")], "y": [], "z": []}) == ["B-PER", "O", "O", "O"]


def test_o_votes_where_unmarked_is_outside() -> None:
    data = cv.Dataset.from_spans(
        ["PER"],
        [["a"], ["b"]],
        {"x": [[(0, 1, "PER")], [(0, 1, "PER")]], "y": [[], None], "z": [[], None]},
        unmarked="outside",
    )
    assert cv.MajorityVote().fit(data).predict(data).tags() == [["O"], ["B-PER"]]


@pytest.mark.parametrize(("ties", "expected"), [(None, "LOC"), ("last", "LOC"), ("first", "PER")])
def test_ties_of_tokens(ties: str | None, expected: str) -> None:
    tags = vote({"x": [(0, 1, "PER")], "y": [(0, 1, "LOC")]}, tie_break=ties)
    assert tags[0] == f"B-{expected}"


@pytest.mark.parametrize(("ties", "expected"), [(None, "PER"), ("last", "LOC"), ("first", "PER")])
def test_ties_of_spans(ties: str | None, expected: str) -> None:
    tags = vote({"x": [(0, 1, "PER")], "y": [(0, 1, "LOC")]}, tie_break=ties, scheme="span")
    assert tags[0] == f"B-{expected}"


@pytest.mark.parametrize("scheme", ["io", "bio", "span"])
def test_random_ties_take_either_side(scheme: str) -> None:
    votes = {"x": [(0, 1, "PER")], "y": [(0, 1, "LOC")]}
    found = {vote(votes, tie_break="random", scheme=scheme, seed=seed)[0] for seed in range(20)}
    assert found == {"B-PER", "B-LOC"}


def test_longest_span_wins_then_leftmost() -> None:
    votes = {"x": [(0, 2, "PER")], "y": [(1, 4, "LOC")], "z": [(0, 1, "LOC")]}
    assert vote(votes, scheme="span") == ["B-LOC", "B-LOC", "I-LOC", "I-LOC"]
    votes = {"x": [(0, 2, "PER")], "y": [(1, 3, "LOC")]}
    assert vote(votes, scheme="span") == ["B-PER", "I-PER", "O", "O"]


def test_bio_votes_by_label_and_repairs() -> None:
    votes = {"x": [(0, 2, "PER")], "y": [(1, 2, "LOC")], "z": [(0, 2, "PER")]}
    assert vote(votes, scheme="bio") == ["B-PER", "I-PER", "O", "O"]
    votes = {"x": [(0, 2, "PER")], "y": [(0, 1, "LOC")], "z": [(0, 1, "LOC")]}
    assert vote(votes, scheme="bio") == ["B-LOC", "B-PER", "O", "O"]


def test_probabilities_are_shares_of_the_votes() -> None:
    data = cv.Dataset.from_spans(
        ["PER", "LOC"],
        [["a", "b"]],
        {"x": [[(0, 2, "PER")]], "y": [[(0, 1, "LOC")]], "z": [[(0, 1, "PER")]]},
    )
    shares = cv.MajorityVote().fit(data).predict_proba(data)[0]
    np.testing.assert_allclose(shares[0], [0, 2 / 3, 0, 1 / 3, 0], atol=1e-6)
    np.testing.assert_allclose(shares[1], [0, 0, 1, 0, 0], atol=1e-6)
