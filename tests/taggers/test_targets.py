"""Targets: their content and class weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight

import convener as cv
from convener.taggers.targets import Targets, validate_class_weights

from .toys import sentences, soft_predictions


def test_votes_and_gold_are_removed(toy: cv.Dataset) -> None:
    labels = cv.MajorityVote().fit(toy).predict(toy)
    for targets in (
        Targets.from_soft_labels(labels),
        Targets.from_hard_labels(labels),
        Targets.from_gold(toy),
    ):
        assert targets.data.sources == ()
        assert targets.data.gold is None
        assert targets.data.tokens == toy.tokens
    assert Targets.from_soft_labels(labels).uses_gold == "none"
    assert Targets.from_gold(toy).uses_gold == "train"


def test_predictions_of_a_model_that_uses_gold_count_as_gold(toy: cv.Dataset) -> None:
    assert Targets.from_hard_labels(cv.BestConsensus().fit(toy).predict(toy)).uses_gold == "train"


def test_label_probs_are_one_hot_for_hard_labels() -> None:
    data = sentences(4)
    labels = soft_predictions(data, 0.7)
    hard = Targets.from_hard_labels(labels)
    np.testing.assert_array_equal(hard.label_probs().argmax(1), data.gold)
    np.testing.assert_array_equal(hard.label_probs().sum(1), 1)
    np.testing.assert_array_equal(Targets.from_soft_labels(labels).label_probs(), labels.probabilities)


def test_subsets_keep_labels_and_probabilities_aligned() -> None:
    targets = Targets.from_soft_labels(soft_predictions(sentences(30)))
    first, second = targets.split(0.7, seed=1)
    assert len(first) + len(second) == 30
    again = targets.take([5])
    np.testing.assert_array_equal(again.labels, targets.labels[slice(*targets.offsets[5:7])])
    np.testing.assert_array_equal(again.label_probs().argmax(1), again.labels)
    assert targets.doc_ids is None


def test_coarse_types_are_removed() -> None:
    data = cv.Dataset.from_spans(["PER", "ENT"], [["Ada"]], {"s": [[(0, 1, "ENT")]]})
    data = data.with_coarse({"ENT": "any"})
    labels = cv.get_model("hmm")().fit(data).predict(data)
    assert Targets.from_soft_labels(labels).types == ("PER",)


def test_illegal_gold_is_repaired() -> None:
    data = cv.Dataset.from_spans(["PER"], [["Ada", "Bo"]], {}).with_gold(np.array([2, 2], np.int16))
    assert Targets.from_gold(data).labels.tolist() == [1, 2]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40))
def test_balanced_weights_equal_those_of_sklearn(labels: list[int]) -> None:
    data = cv.Dataset.from_spans(["A", "B"], [["w"] * len(labels)], {})
    targets = Targets(data=data, labels=np.array(labels, np.int16))
    occurring = np.unique(labels)
    expected = compute_class_weight("balanced", classes=occurring, y=np.array(labels))
    np.testing.assert_allclose(targets.class_weights("balanced")[occurring], expected, rtol=1e-5)


def test_balanced_weights_of_soft_labels_use_expected_counts() -> None:
    data = cv.Dataset.from_spans(["A"], [["w", "w"]], {})
    label_probs = np.array([[0.5, 0.5, 0], [0.25, 0.5, 0.25]], np.float32)
    targets = Targets(data=data, labels=np.zeros(2, np.int16), probabilities=label_probs)
    expected = 2 / (3 * np.array([0.75, 1.0, 0.25]))
    np.testing.assert_allclose(targets.class_weights("balanced"), expected, rtol=1e-6)


def test_weights_by_type() -> None:
    targets = Targets.from_gold(sentences(3))
    assert targets.class_weights(None).tolist() == [1] * 5
    assert targets.class_weights({"ANI": 3, "O": 0.5}).tolist() == [0.5, 1, 1, 3, 3]
    with pytest.raises(cv.ConfigError, match="did you mean 'ANI'"):
        targets.class_weights({"ANY": 3})


@pytest.mark.parametrize("invalid", [{"A": 0}, {"A": -1}, {"A": "much"}, {"A": float("inf")}])
def test_invalid_weights_are_rejected(invalid: Any) -> None:
    with pytest.raises(cv.ConfigError, match="class_weights"):
        validate_class_weights(invalid)


def test_weights_are_parsed_from_strings() -> None:
    assert validate_class_weights({"A": "2"}) == {"A": 2.0}  # type: ignore[dict-item]


def test_missing_probabilities_or_gold_are_an_error(toy: cv.Dataset) -> None:
    labels = cv.Predictions(data=toy, labels=np.zeros(len(toy.tokens), np.int16))
    with pytest.raises(cv.DataError, match="soft labels need probabilities"):
        Targets.from_soft_labels(labels)
    with pytest.raises(cv.DataError, match="has no gold labels"):
        Targets.from_gold(toy.without_gold())
    with pytest.raises(cv.DataError, match="labels"):
        Targets(data=toy, labels=np.zeros(3, np.int16))
