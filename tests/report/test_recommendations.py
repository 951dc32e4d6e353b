"""Recommendations: computed by hand, and for a model with true probabilities."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener.data.predictions import Predictions
from convener.data.spans import Spans
from convener.report.recommendations import MAX_EXAMPLES, NEW_SOURCE, Recommendation, recommend, top_phrases
from tests.evaluation.test_source_reliability import simulated
from tests.generators import datasets, legal_labels, probability_rows


def single_tokens(
    votes: dict[str, list[int]],
    probs: list[float],
    labels: list[int],
    gold: list[int] | None = None,
) -> tuple[cv.Dataset, Predictions]:
    """Sentences of one token and one type: votes, P(B-), predicted labels and gold."""
    words = [[f"w{number}"] for number in range(len(labels))]
    marks = {name: [[(0, 1, "X")] if y else [] for y in column] for name, column in votes.items()}
    true = None if gold is None else [[(0, 1, "X")] if y else [] for y in gold]
    data = cv.Dataset.from_spans(["X"], words, marks, gold=true)
    rows = np.array([[1 - prob, prob, 0] for prob in probs], np.float32)
    return data, Predictions(data=data, labels=np.array(labels, np.int16), probabilities=rows)


def by_name(found: list[Recommendation]) -> dict[str, Recommendation]:
    return {item.source: item for item in found}


def test_gain_computed_by_hand() -> None:
    """Five spans are adopted (0.8 each), five are rejected (0.3 each).

    TP = 4, P = 5, G = 5.5: F1 = 8 / 10.5. Without one false positive and with 1.5 more: 11 / 11.
    By gold four of the five are correct, and two of the rejected: F1 = 8 / 11, and then 1.
    """
    data, predictions = single_tokens(
        {"s": [1] * 10},
        [0.8] * 5 + [0.3] * 5,
        [1] * 5 + [0] * 5,
        [1, 1, 1, 1, 0, 1, 1, 0, 0, 0],
    )
    item = by_name(recommend(data, predictions))["s"]
    assert (item.type, item.num_spans) == ("X", 10)
    assert item.expected_false_positives == pytest.approx(1.0)
    assert item.expected_misses == pytest.approx(1.5)
    assert item.f1_gain == pytest.approx(1 - 8 / 10.5)
    assert item.gold_f1_gain == pytest.approx(1 - 8 / 11)
    without = by_name(recommend(data.without_gold(), predictions))["s"]
    assert without == replace(item, gold_f1_gain=None)


def test_a_span_of_two_sources_is_shared() -> None:
    """Both sources mark the first three tokens, only the first marks the last two."""
    data, predictions = single_tokens(
        {"a": [1, 1, 1, 1, 1], "b": [1, 1, 1, 0, 0]},
        [0.6, 0.6, 0.2, 0.6, 0.2],
        [1, 1, 0, 1, 0],
        [1, 0, 1, 0, 1],
    )
    found = by_name(recommend(data, predictions))
    assert (
        found["a"].expected_false_positives,
        found["b"].expected_false_positives,
    ) == pytest.approx((0.4 + 0.4, 0.4))
    assert (found["a"].expected_misses, found["b"].expected_misses) == pytest.approx((0.1 + 0.2, 0.1))
    total = sum(float(predictions.spans.score[n] < 1) * (1 - predictions.spans.score[n]) for n in range(3))
    assert found["a"].expected_false_positives + found["b"].expected_false_positives == pytest.approx(total)
    # By gold: 1 of 3 predicted is correct, 3 exist. Source a: false positives 0.5 + 1, misses 0.5 + 1.
    assert found["a"].gold_f1_gain == pytest.approx(2 * 2.5 / (3 + 3) - 2 / 6)
    assert found["b"].gold_f1_gain == pytest.approx(2 * 1.5 / (3 + 3) - 2 / 6)


def test_entities_without_votes_are_for_a_new_source() -> None:
    """Two entities without votes: the model predicts one of them."""
    data, predictions = single_tokens({"s": [1, 0, 0, 0]}, [0.9, 0.7, 0.4, 0.1], [1, 1, 0, 0], [1, 1, 1, 0])
    item = by_name(recommend(data, predictions))[NEW_SOURCE]
    assert (item.num_spans, item.expected_false_positives) == (0, 0.0)
    assert item.expected_misses == pytest.approx(0.5)
    assert item.f1_gain == pytest.approx(2 * 2.1 / (2.5 + 2.1) - 2 * 1.6 / (2 + 2.1))
    assert item.gold_f1_gain == pytest.approx(1 - 4 / 5)
    assert item.examples == (("w1", 1),)


def test_examples_are_the_least_probable_phrases() -> None:
    data, predictions = single_tokens({"s": [1] * 4}, [0.8, 0.1, 1.0, 0.5], [1, 0, 1, 1])
    assert by_name(recommend(data, predictions))["s"].examples == (("w1", 1), ("w3", 1), ("w0", 1))


def test_weights_of_a_phrase_add_up() -> None:
    data = cv.Dataset.from_spans(["X"], [["New", "York"], ["York"], ["New", "York"], []], {})
    spans = Spans.from_rows([(0, 0, 2, 0), (1, 0, 1, 0), (2, 0, 2, 0), (2, 1, 2, 0), (2, 0, 1, 0)])
    found = top_phrases(data, spans, np.array([0.2, 0.3, 0.3, 0.2, 0.0]))
    assert found == (("New York", 2), ("York", 2))  # equal weights, so by name; "New" has weight zero
    many = cv.Dataset.from_spans(["X"], [[str(n)] for n in range(20)], {})
    shown = top_phrases(many, Spans.from_rows([(n, 0, 1, 0) for n in range(20)]), np.arange(20.0))
    assert shown == tuple((str(n), 1) for n in range(19, 19 - MAX_EXAMPLES, -1))
    assert top_phrases(data, Spans.from_rows([]), np.zeros(0)) == ()


@given(st.data())
def test_gold_gains_against_loops_over_sets_of_spans(data: st.DataObject) -> None:
    corpus = data.draw(datasets(gold=True, max_sources=3))
    tags, lengths = corpus.fine_tags, corpus.lengths.tolist()
    predictions = Predictions(
        data=corpus,
        labels=data.draw(legal_labels(tags, lengths)),
        probabilities=data.draw(probability_rows(len(corpus.tokens), len(tags))),
    )
    found = recommend(corpus, predictions)
    assert [item.f1_gain for item in found] == sorted((item.f1_gain for item in found), reverse=True)
    assert {item.type for item in found if item.source == NEW_SOURCE} == set(tags.types)
    fine = corpus.without_coarse()
    marks = [set(tags.spans(column, corpus.offsets, on_illegal="start")) for column in fine.votes.T]
    gold, ours = (set(tags.spans(x, corpus.offsets)) for x in (corpus.gold, predictions.labels))
    right, size = len(gold & ours), len(gold) + len(ours)
    base = 2 * right / size if size else 0.0
    for item in found:
        if item.source == NEW_SOURCE:
            false_positives, misses = 0.0, float(missed(corpus, predictions, gold, item.type))
        else:
            own = marks[corpus.sources.index(item.source)]
            own = {span for span in own if tags.types[span.type] == item.type}
            assert item.num_spans == len(own) > 0
            share = {span: 1 / sum(span in other for other in marks) for span in own}
            false_positives = sum(share[span] for span in own & ours - gold)
            misses = sum(share[span] for span in own & gold - ours)
        better = size - false_positives + misses
        gain = (2 * (right + misses) / better if better > 1e-9 else 0.0) - base
        assert item.gold_f1_gain == pytest.approx(gain, abs=1e-9)


def missed(corpus: cv.Dataset, predictions: Predictions, gold: set, kind: str) -> int:
    count = 0
    for span in gold:
        at = int(corpus.offsets[span.sentence]) + span.start
        unvoted = not (corpus.votes[at] > 0).any() and predictions.labels[at] == 0
        count += unvoted and corpus.tags.types[span.type] == kind
    return count


def test_with_true_probabilities_expected_and_gold_gains_agree() -> None:
    """Gold is drawn from the probabilities of the model."""
    data, predictions = simulated(seed=11, sentences=30_000)
    tags, gold, labels = data.tags, data.gold, predictions.labels
    assert gold is not None
    found = recommend(data, predictions)
    assert len(found) == 3 * 2 + 2
    for item in found:
        kind = 2 * tags.types.index(item.type) + 1
        if item.source == NEW_SOURCE:
            unvoted = (data.votes == 0).all(axis=1) & (labels == 0)
            false_positives, misses = 0.0, float((unvoted & (gold == kind)).sum())
        else:
            own = data.votes[:, data.sources.index(item.source)] == kind
            share = own / np.maximum((data.votes == kind).sum(axis=1), 1)
            false_positives = float((share * (labels == kind) * (gold != kind)).sum())
            misses = float((share * (labels != kind) * (gold == kind)).sum())
        # Sums of independent draws: four deviations of at most sqrt(sum).
        assert item.expected_false_positives == pytest.approx(false_positives, abs=4 * np.sqrt(false_positives + 1))
        assert item.expected_misses == pytest.approx(misses, abs=4 * np.sqrt(misses + 1))
        assert item.f1_gain == pytest.approx(item.gold_f1_gain, abs=0.004)
    assert max(item.f1_gain for item in found) > 0.03  # large against the tolerance


def test_without_sources_or_spans() -> None:
    data, predictions = single_tokens({}, [0.2, 0.0], [0, 0])
    (item,) = recommend(data, predictions)
    assert item.source == NEW_SOURCE
    assert item.f1_gain == pytest.approx(2 * 0.2 / 0.4)
    data, predictions = single_tokens({"s": [0, 0]}, [0.0, 0.0], [0, 0], [0, 0])
    (item,) = recommend(data, predictions)
    assert (item.f1_gain, item.gold_f1_gain, item.examples) == (0.0, 0.0, ())


def test_of_very_many_spans_the_heaviest_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["convener.report.recommendations"], "MAX_SPANS", 3)
    data = cv.Dataset.from_spans(["X"], [["a"], ["b"], ["a"], ["b"], ["c"]], {})
    spans = Spans.from_rows([(n, 0, 1, 0) for n in range(5)])
    found = top_phrases(data, spans, np.array([0.2, 0.9, 0.2, 0.5, 0.8]))
    assert found == (("b", 2), ("c", 1))
