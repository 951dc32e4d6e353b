"""Predictions: validation, tags, spans and scores, compared with loops."""

from __future__ import annotations

import sys
from dataclasses import astuple, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.schemes import Scheme
from convener.errors import DataError, MissingDependencyError
from tests.generators import Kind, predictions, schemes


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


def test_the_repr_counts_spans_and_shows_the_first(data: Dataset) -> None:
    labels = Predictions(data=data, labels=np.array([1, 2, 3], np.int16))
    assert labels.summary() == "Predictions(2 spans in 3 sentences)"
    named = replace(labels, model="hmm", span_scores=np.array([0.5, 1], np.float32))
    assert repr(named).splitlines() == [
        "Predictions by hmm(2 spans in 3 sentences)",
        "0: [Ada Lovelace](PER 0.50)",
        "2: [Oslo](LOC 1.00)",
    ]


bounds = st.none() | st.integers(-8, 8)
slices = st.builds(slice, bounds, bounds, st.none() | st.integers(-2, 2).filter(bool))


def plain(labels: Predictions) -> list[tuple[list[str], list[tuple[int, int, str, float | None]]]]:
    """Tokens and spans of each sentence, from loops over the packed arrays."""
    tokens, offsets, spans = labels.data.tokens.to_list(), labels.data.offsets.tolist(), labels.spans
    found: list[tuple[list[str], list[tuple[int, int, str, float | None]]]] = [
        (tokens[first:last], []) for first, last in pairwise(offsets)
    ]
    for number, (sentence, start, end, kind) in enumerate(spans):
        score = None if spans.score is None else float(spans.score[number])
        found[sentence][1].append((start, end, labels.data.tags.types[kind], score))
    return found


@given(predictions())
def test_iteration_gives_tokens_and_spans(labels: Predictions) -> None:
    rows = [(list(item.tokens), [(s.start, s.end, s.label, s.score) for s in item.spans]) for item in labels]
    assert rows == plain(labels)
    assert [labels[index] for index in range(-len(labels), len(labels))] == [*labels, *labels]
    for outside in (len(labels), -len(labels) - 1):
        with pytest.raises(IndexError, match=f"sentence {outside} of {len(labels)}"):
            labels[outside]


@given(predictions(), slices)
def test_slices_behave_like_those_of_a_list(labels: Predictions, part: slice) -> None:
    assert list(labels[part]) == list(labels)[part]
    assert labels[part].data == labels.data[part]
    assert (labels[part].model, labels[part].settings) == (labels.model, labels.settings)
    assert (labels[part].probabilities is None) == (labels.probabilities is None)


@given(predictions(kind=Kind()))
def test_a_data_frame_has_one_row_per_span(labels: Predictions) -> None:
    rows = [
        ([] if item.doc_id is None else [item.doc_id], number, *astuple(span)[2:6], span.text, span.label, span.score)
        for number, item in enumerate(labels)
        for span in item.spans
    ]
    frame = labels.to_pandas()
    names = ["sentence", "start", "end", "start_char", "end_char", "text", "label", "score"]
    assert list(frame.columns) == (names if labels.data.doc_ids is None else ["doc_id", *names])
    documents = frame[["doc_id"]].values.tolist() if labels.data.doc_ids is not None else [[]] * len(frame)
    scores = [None if np.isnan(score) else score for score in frame["score"].tolist()]
    columns = [frame[name].tolist() for name in names[:-1]]
    assert list(zip(documents, *columns, scores, strict=True)) == rows


def test_conversions_name_a_missing_extra(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = Predictions(data=data, labels=np.zeros(3, np.int16))
    for extra, convert in (("pandas", labels.to_pandas), ("spacy", labels.to_spacy), ("datasets", labels.to_hf)):
        for name in [name for name in sys.modules if name.split(".")[0] == extra]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, extra, None)
        with pytest.raises(MissingDependencyError, match=rf"needs {extra}: pip install 'convener\[{extra}\]'"):
            convert()
