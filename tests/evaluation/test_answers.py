"""Suggested documents and workers: computed by hand, by simulation, and on crowds whose truth is known."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import convener as cv
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray
from convener.errors import DataError, MismatchError
from convener.evaluation.answers import NUM_WORKERS, is_crowd, suggest_answers
from convener.evaluation.metrics import sentence_counts
from convener.evaluation.source_reliability import estimate_reliability
from tests.helpers.crowd import Crowd, CrowdConfig, make_crowd

NAME = [(0, 1, "X")]


def words(
    probs: list[float],
    votes: dict[str, list[list[tuple[int, int, str]] | None]],
    *,
    docs: list[str] | None = None,
    types: tuple[str, ...] = ("X",),
) -> tuple[cv.Dataset, Predictions]:
    """Sentences of one token, P(it is an X), and the labels that are more probable."""
    data = cv.Dataset.from_spans(types, [[f"w{n}"] for n in range(len(probs))], votes, unmarked="outside")
    if docs is not None:
        data = replace(data, doc_ids=StringArray.from_list(docs))
    rows = np.zeros((len(probs), 1 + 2 * len(types)), np.float32)
    rows[:, 1] = probs
    rows[:, 0] = 1 - rows[:, 1]
    labels = (np.array(probs) > 0.5).astype(np.int16)
    return data, Predictions(data=data, labels=labels, probabilities=rows)


@pytest.fixture(scope="module")
def crowd() -> Crowd:
    return make_crowd(3, CrowdConfig(documents=120, length=30, workers=20, annotated=0.15, spans=3.0))


@pytest.fixture(scope="module")
def predictions(crowd: Crowd) -> Predictions:
    return cv.Segment().fit(crowd.data).predict(crowd.data)


def test_documents_are_ordered_by_expected_errors_per_token() -> None:
    probs = [0.9, 0.4, 0.0, 1.0]
    data, predictions = words(probs, {"a": [NAME, NAME, [], NAME], "b": [NAME, None, [], None]})
    found = suggest_answers(data, predictions)
    assert [each.document for each in found.documents] == ["1", "0", "2", "3"]
    assert [each.expected_errors for each in found.documents] == pytest.approx([0.4, 0.1, 0, 0], abs=1e-6)
    assert [each.answers for each in found.documents] == [1, 2, 2, 1]
    assert [each.ask for each in found.documents] == [("b",), (), (), ("b",)]
    assert found.expected_errors == pytest.approx(0.5)


def test_sentences_of_a_document_are_asked_together() -> None:
    votes = {"a": [[], NAME, [], []], "b": [None, [], None, None]}
    data, predictions = words([0.3, 0.1, 0.05, 0.3], votes, docs=["p", "q", "q", "p"])
    first, second = suggest_answers(data, predictions).documents
    assert (first.document, first.sentences, first.tokens, first.ask) == ("p", (0, 3), 2, ("b",))
    assert (second.document, second.sentences, second.answers) == ("q", (1, 2), 2)
    assert first.expected_errors == pytest.approx(0.6)


def test_expected_errors_are_the_mean_of_simulated_ones() -> None:
    """With one token a sentence, P(B-x) gives the distribution of the truth."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet([1.5, 1.0, 0.7], 40)
    data = cv.Dataset.from_spans(["X", "Y"], [["w"]] * 40, {"a": [[]] * 40, "b": [None] * 40}, unmarked="outside")
    probabilities = np.zeros((40, 5), np.float32)
    probabilities[:, [0, 1, 3]] = rows
    labels = probabilities.argmax(axis=1).astype(np.int16)
    predictions = Predictions(data=data, labels=labels, probabilities=probabilities)
    errors = np.zeros(40)
    for _ in range(3000):
        truth = (rng.random((40, 1)) > np.cumsum(probabilities, axis=1)).sum(axis=1).clip(max=4).astype(np.int16)
        correct, predicted, gold = sentence_counts(predictions.spans, data.tags.spans(truth, data.offsets), 40).T
        errors += (predicted - correct) + (gold - correct)
    found = {
        int(each.document): each.expected_errors for each in suggest_answers(data, predictions, number=40).documents
    }
    assert [found[n] for n in range(40)] == pytest.approx((errors / 3000).tolist(), abs=0.06)


def test_the_worker_who_knows_the_type_in_question_is_asked_first() -> None:
    tokens = [["a", "b"]] * 40 + [["c", "d"]]
    place, person = (0, 1, "LOC"), (1, 2, "PER")
    votes = {
        "both": [[place, person]] * 40 + [[]],
        "places": [[place]] * 40 + [None],
        "persons": [[person]] * 40 + [None],
    }
    data = cv.Dataset.from_spans(["LOC", "PER"], tokens, votes, unmarked="outside")
    probabilities = np.zeros((82, 5), np.float32)
    probabilities[0:80:2, 1] = probabilities[1:80:2, 3] = 1
    probabilities[80] = [1, 0, 0, 0, 0]
    probabilities[81] = [0.6, 0, 0, 0.4, 0]
    labels = probabilities.argmax(axis=1).astype(np.int16)
    found = suggest_answers(data, Predictions(data=data, labels=labels, probabilities=probabilities))
    assert found.documents[0].document == "40"
    assert found.documents[0].ask == ("persons", "places")
    assert [each.worker for each in found.workers] == ["both", "places", "persons"]


def test_workers_are_asked_for_documents_that_they_have_not_read(crowd: Crowd, predictions: Predictions) -> None:
    found = suggest_answers(crowd.data, predictions, number=1000)
    assert len(found.documents) == len(crowd.data)
    for each in found.documents:
        (sentence,) = each.sentences
        has_read = crowd.data.votes[crowd.data.offsets[sentence]] >= 0
        assert each.answers == has_read.sum()
        assert len(each.ask) == NUM_WORKERS
        assert not has_read[[crowd.data.source_index(name) for name in each.ask]].any()


def test_workers_have_the_reliability_of_all_types_together(crowd: Crowd, predictions: Predictions) -> None:
    found = suggest_answers(crowd.data, predictions).workers
    assert len(found) == len(crowd.data.sources)
    assert [each.f1.value for each in found] == sorted((each.f1.value for each in found), reverse=True)
    reliability = estimate_reliability(crowd.data, predictions)
    for each in found:
        k = crowd.data.source_index(each.worker)
        assert each.marks == reliability.marks[k].sum()
        assert each.documents == (crowd.data.votes[crowd.data.offsets[:-1], k] >= 0).sum()
        assert each.precision.value == pytest.approx(
            np.nansum(reliability.precision[k, :, 0] * reliability.marks[k]) / reliability.marks[k].sum()
        )
        for interval in (each.recall, each.precision, each.f1):
            assert 0 <= interval.low <= interval.value <= interval.high <= 1
    true = crowd.f1[[crowd.data.source_index(each.worker) for each in found]]
    inside = [each.f1.low <= f1 <= each.f1.high for each, f1 in zip(found, true, strict=True)]
    assert np.mean(inside) >= 0.9


def test_suggested_documents_have_more_errors_than_others(crowd: Crowd, predictions: Predictions) -> None:
    found = suggest_answers(crowd.data, predictions, number=40)
    gold = crowd.data.tags.spans(crowd.data.gold, crowd.data.offsets)
    correct, predicted, true = sentence_counts(predictions.spans, gold, len(crowd.data)).T
    errors = predicted + true - 2 * correct
    chosen = [each.sentences[0] for each in found.documents]
    assert errors[chosen].mean() > 1.3 * errors.mean()


def test_labeling_functions_are_not_asked() -> None:
    votes = {"worker": [NAME, []], "function": [NAME, None], "idle": [None, None]}
    data, predictions = words([0.9, 0.4], votes)
    data = replace(data, unmarked=("outside", "abstain", "outside"))
    found = suggest_answers(data, replace(predictions, data=data.without_gold()))
    assert {each.worker for each in found.workers} == {"worker", "idle"}
    assert [each.ask for each in found.documents] == [("idle",), ("idle",)]
    assert [each.answers for each in found.documents] == [1, 1]
    functions = data.select_sources(["function"])
    with pytest.raises(DataError, match=r"expected a crowd: .*; found 1 with unmarked"):
        suggest_answers(functions, replace(predictions, data=functions.without_gold()))


def test_what_is_a_crowd(crowd: Crowd) -> None:
    assert is_crowd(crowd.data)
    assert not is_crowd(cv.demo.load_corpus().train)
    everything, _ = words([0.9], {"model": [NAME], "other": [[]]})
    assert not is_crowd(everything)
    assert not is_crowd(cv.Dataset.from_spans(["X"], [["a"]], {}))


def test_tables_and_json(crowd: Crowd, predictions: Predictions) -> None:
    found = suggest_answers(crowd.data, predictions, number=5)
    assert len(found.table().rows) == 5
    assert len(found.worker_table().rows) == 20
    assert "Documents that deserve another answer" in str(found)
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert [each["document"] for each in document["documents"]] == [each.document for each in found.documents]
    assert document["workers"][0]["f1"] == pytest.approx(list(found.workers[0].f1))
    empty = suggest_answers(crowd.data, predictions, number=0)
    assert empty.documents == ()
    assert "0%" in str(empty)


def test_other_text_and_missing_probabilities_are_refused(crowd: Crowd, predictions: Predictions) -> None:
    with pytest.raises(MismatchError):
        suggest_answers(crowd.data[:5], predictions)
    with pytest.raises(DataError, match="probabilities"):
        suggest_answers(crowd.data, replace(predictions, probabilities=None, span_scores=None))
