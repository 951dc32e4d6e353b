"""Predictions: validation, tags, spans and scores, compared with loops."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.schemes import Scheme
from convener.errors import DataError
from tests.generators import predictions, schemes


@pytest.fixture
def data() -> Dataset:
    tokens = [["Ada", "Lovelace"], [], ["Oslo"]]
    votes = {"s": [[(0, 1, "PER")], [], []]}
    return Dataset.from_spans(["PER", "LOC"], tokens, votes, gold=[[], [], []])


@given(predictions(probabilities=True))
def test_the_score_of_a_span_is_its_minimum_token_probability(labels: Predictions) -> None:
    assert labels.probabilities is not None
    expected = []
    for sentence, start, end, _ in labels.spans:
        first = int(labels.data.offsets[sentence])
        tokens = range(first + start, first + end)
        expected.append(min(labels.probabilities[t, labels.labels[t]] for t in tokens))
    assert labels.spans.score is not None
    assert labels.spans.score.dtype == np.float32
    assert labels.spans.score.tolist() == expected


@given(predictions(probabilities=False))
def test_without_probabilities_there_are_no_scores(labels: Predictions) -> None:
    assert labels.spans.score is None
    with pytest.raises(DataError, match="expected label probabilities"):
        labels.probabilities_by_sentence()


@given(predictions())
def test_given_scores_are_kept(labels: Predictions) -> None:
    scores = np.linspace(0, 1, len(labels.spans), dtype=np.float32)
    scored = replace(labels, span_scores=scores)
    assert list(scored.spans) == list(labels.spans)
    assert scored.spans.score is scores


@given(predictions(), schemes)
def test_tags_are_returned_by_sentence(labels: Predictions, scheme: Scheme) -> None:
    tags = labels.tags(scheme)
    assert [len(sentence) for sentence in tags] == labels.data.lengths.tolist()
    for m, sentence in enumerate(tags):
        first = int(labels.data.offsets[m])
        alone = labels.labels[first : first + len(sentence)]
        assert sentence == labels.data.tags.decode(alone, None, scheme)


@given(predictions())
def test_gold_is_removed(labels: Predictions) -> None:
    assert labels.data.gold is None
    assert len(labels) == len(labels.data)


def test_the_dataset_keeps_its_gold(data: Dataset) -> None:
    labels = Predictions(data=data, labels=np.zeros(3, np.int16))
    assert labels.data == data.without_gold()
    assert data.gold is not None


@given(predictions(probabilities=True))
def test_probabilities_are_returned_by_sentence(labels: Predictions) -> None:
    assert labels.probabilities is not None
    ragged = labels.probabilities_by_sentence()
    assert [len(rows) for rows in ragged] == labels.data.lengths.tolist()
    joined = [row for rows in ragged for row in rows.tolist()]
    assert joined == labels.probabilities.tolist()


@given(predictions(), st.randoms(use_true_random=False))
def test_other_types_keep_spans_and_scores(labels: Predictions, random: st.DataObject) -> None:
    types = [*labels.data.tags.types, "new"]
    random.shuffle(types)  # type: ignore[attr-defined]
    moved = labels.with_types(types)
    assert moved.tags() == labels.tags()
    assert moved.data == labels.data.with_types(types)
    assert moved.probabilities is None
    before, after = labels.spans.score, moved.spans.score
    assert (before is None) == (after is None)
    assert before is None or np.array_equal(before, after)  # type: ignore[arg-type]
    assert (moved.model, moved.settings) == ("drawn", labels.settings)
    assert labels.with_types(list(labels.data.tags.types)) is labels


def test_predicted_types_cannot_be_removed(data: Dataset) -> None:
    labels = Predictions(data=data, labels=np.array([0, 0, 3], np.int16))
    with pytest.raises(DataError, match="no entity type 'LOC'; available: PER"):
        labels.with_types(("PER",))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros(2, np.int16), r"labels must have shape \(3,\), got \(2,\)"),
        (np.zeros((3, 1), np.int16), r"labels must have shape \(3,\), got \(3, 1\)"),
        (np.zeros(3, np.int64), "labels must be int16, got int64"),
        (np.array([0, -1, 0], np.int16), r"labels in \[0, 5\), got -1 to 0"),
        (np.array([0, 0, 5], np.int16), r"labels in \[0, 5\), got 0 to 5"),
        (np.array([2, 0, 0], np.int16), "got 1 illegal labels"),
        (np.array([1, 4, 0], np.int16), "got 1 illegal labels"),
        (np.array([1, 2, 2], np.int16), "got 1 illegal labels"),
    ],
)
def test_invalid_labels_are_rejected(data: Dataset, labels: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Predictions(data=data, labels=labels)


def test_invalid_probabilities_and_scores_are_rejected(data: Dataset) -> None:
    labels = np.array([1, 2, 3], np.int16)
    with pytest.raises(DataError, match=r"probabilities must have shape \(3, 5\), got \(3, 3\)"):
        Predictions(data=data, labels=labels, probabilities=np.zeros((3, 3), np.float32))
    with pytest.raises(DataError, match=r"scores must have shape \(2,\), got \(3,\)"):
        Predictions(data=data, labels=labels, span_scores=np.zeros(3, np.float32))


def test_the_repr_counts_spans(data: Dataset) -> None:
    labels = Predictions(data=data, labels=np.array([1, 2, 3], np.int16))
    assert repr(labels) == "Predictions(2 spans in 3 sentences)"
    assert repr(replace(labels, model="hmm")) == "Predictions by hmm(2 spans in 3 sentences)"
