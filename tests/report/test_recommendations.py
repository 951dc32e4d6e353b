"""Which source to mend next: by hand, and where the model's probabilities are the truth's."""

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
from tests.generators import datasets, legal_labels, probability_rows
from tests.report.test_source_quality import simulated


def one_word_each(
    votes: dict[str, list[int]],
    shares: list[float],
    labels: list[int],
    gold: list[int] | None = None,
) -> tuple[cv.Dataset, Predictions]:
    """Sentences of one word and one type: marked or not, and how probable a mark is there."""
    words = [[f"w{number}"] for number in range(len(labels))]
    marks = {name: [[(0, 1, "X")] if y else [] for y in column] for name, column in votes.items()}
    true = None if gold is None else [[(0, 1, "X")] if y else [] for y in gold]
    data = cv.Dataset.from_spans(["X"], words, marks, gold=true)
    rows = np.array([[1 - share, share, 0] for share in shares], np.float32)
    return data, Predictions(data=data, labels=np.array(labels, np.int16), probabilities=rows)


def by_name(found: list[Recommendation]) -> dict[str, Recommendation]:
    return {fix.source: fix for fix in found}


def test_the_gain_by_hand() -> None:
    """Five marks are followed (0.8 each), five are not (0.3 each).

    TP = 4, P = 5, G = 5.5: F1 = 8 / 10.5. Without one wrong span and with 1.5 more: 11 / 11.
    By gold four of the five are right, and two of those not followed: F1 = 8 / 11, and then 1.
    """
    data, answer = one_word_each(
        {"s": [1] * 10},
        [0.8] * 5 + [0.3] * 5,
        [1] * 5 + [0] * 5,
        [1, 1, 1, 1, 0, 1, 1, 0, 0, 0],
    )
    fix = by_name(recommend(data, answer))["s"]
    assert (fix.type, fix.num_spans) == ("X", 10)
    assert fix.expected_false_positives == pytest.approx(1.0)
    assert fix.expected_misses == pytest.approx(1.5)
    assert fix.f1_gain == pytest.approx(1 - 8 / 10.5)
    assert fix.gold_f1_gain == pytest.approx(1 - 8 / 11)
    without = by_name(recommend(data.without_gold(), answer))["s"]
    assert without == replace(fix, gold_f1_gain=None)


def test_a_mark_of_two_sources_is_shared() -> None:
    """The first three marks are of both, the last two of the first alone."""
    data, answer = one_word_each(
        {"a": [1, 1, 1, 1, 1], "b": [1, 1, 1, 0, 0]},
        [0.6, 0.6, 0.2, 0.6, 0.2],
        [1, 1, 0, 1, 0],
        [1, 0, 1, 0, 1],
    )
    found = by_name(recommend(data, answer))
    assert (
        found["a"].expected_false_positives,
        found["b"].expected_false_positives,
    ) == pytest.approx((0.4 + 0.4, 0.4))
    assert (found["a"].expected_misses, found["b"].expected_misses) == pytest.approx((0.1 + 0.2, 0.1))
    total = sum(float(answer.spans.score[n] < 1) * (1 - answer.spans.score[n]) for n in range(3))
    assert found["a"].expected_false_positives + found["b"].expected_false_positives == pytest.approx(total)
    # By gold: right 1 of 3 found, 3 there. Of a: wrong 0.5 + 1, lost 0.5 + 1.
    assert found["a"].gold_f1_gain == pytest.approx(2 * 2.5 / (3 + 3) - 2 / 6)
    assert found["b"].gold_f1_gain == pytest.approx(2 * 1.5 / (3 + 3) - 2 / 6)


def test_what_nobody_marks_is_for_a_new_source() -> None:
    """Two words that nobody marks: the model finds one of them by itself."""
    data, answer = one_word_each({"s": [1, 0, 0, 0]}, [0.9, 0.7, 0.4, 0.1], [1, 1, 0, 0], [1, 1, 1, 0])
    fix = by_name(recommend(data, answer))[NEW_SOURCE]
    assert (fix.num_spans, fix.expected_false_positives) == (0, 0.0)
    assert fix.expected_misses == pytest.approx(0.5)
    assert fix.f1_gain == pytest.approx(2 * 2.1 / (2.5 + 2.1) - 2 * 1.6 / (2 + 2.1))
    assert fix.gold_f1_gain == pytest.approx(1 - 4 / 5)
    assert fix.examples == (("w1", 1),)


def test_examples_are_the_most_doubtful_phrases() -> None:
    data, answer = one_word_each({"s": [1] * 4}, [0.8, 0.1, 1.0, 0.5], [1, 0, 1, 1])
    assert by_name(recommend(data, answer))["s"].examples == (("w1", 1), ("w3", 1), ("w0", 1))


def test_phrases_weigh_together() -> None:
    data = cv.Dataset.from_spans(["X"], [["New", "York"], ["York"], ["New", "York"], []], {})
    spans = Spans.from_rows([(0, 0, 2, 0), (1, 0, 1, 0), (2, 0, 2, 0), (2, 1, 2, 0), (2, 0, 1, 0)])
    found = top_phrases(data, spans, np.array([0.2, 0.3, 0.3, 0.2, 0.0]))
    assert found == (("New York", 2), ("York", 2))  # as heavy, so by name; "New" weighs nothing
    many = cv.Dataset.from_spans(["X"], [[str(n)] for n in range(20)], {})
    shown = top_phrases(many, Spans.from_rows([(n, 0, 1, 0) for n in range(20)]), np.arange(20.0))
    assert shown == tuple((str(n), 1) for n in range(19, 19 - MAX_EXAMPLES, -1))
    assert top_phrases(data, Spans.from_rows([]), np.zeros(0)) == ()


@given(st.data())
def test_wrong_and_lost_are_sums_over_marks(data: st.DataObject) -> None:
    """By gold: loops over sets of spans."""
    corpus = data.draw(datasets(gold=True, max_sources=3))
    tags, lengths = corpus.fine_tags, corpus.lengths.tolist()
    answer = Predictions(
        data=corpus,
        labels=data.draw(legal_labels(tags, lengths)),
        probabilities=data.draw(probability_rows(len(corpus.tokens), len(tags))),
    )
    found = recommend(corpus, answer)
    assert [fix.f1_gain for fix in found] == sorted((fix.f1_gain for fix in found), reverse=True)
    assert {fix.type for fix in found if fix.source == NEW_SOURCE} == set(tags.types)
    fine = corpus.without_coarse()
    marks = [set(tags.spans(column, corpus.offsets, on_illegal="begin")) for column in fine.votes.T]
    gold, ours = (set(tags.spans(x, corpus.offsets)) for x in (corpus.gold, answer.labels))
    right, size = len(gold & ours), len(gold) + len(ours)
    base = 2 * right / size if size else 0.0
    for fix in found:
        if fix.source == NEW_SOURCE:
            wrong, lost = 0.0, float(missed(corpus, answer, gold, fix.type))
        else:
            mine = marks[corpus.sources.index(fix.source)]
            mine = {span for span in mine if tags.types[span.type] == fix.type}
            assert fix.num_spans == len(mine) > 0
            share = {span: 1 / sum(span in other for other in marks) for span in mine}
            wrong = sum(share[span] for span in mine & ours - gold)
            lost = sum(share[span] for span in mine & gold - ours)
        better = size - wrong + lost
        gain = (2 * (right + lost) / better if better > 1e-9 else 0.0) - base
        assert fix.gold_f1_gain == pytest.approx(gain, abs=1e-9)


def missed(corpus: cv.Dataset, answer: Predictions, gold: set, kind: str) -> int:
    count = 0
    for span in gold:
        at = int(corpus.offsets[span.sentence]) + span.start
        bare = not (corpus.votes[at] > 0).any() and answer.labels[at] == 0
        count += bare and corpus.tags.types[span.type] == kind
    return count


def test_where_probabilities_are_the_truths_so_are_the_gains() -> None:
    """Gold was drawn from the model's probabilities: expected and true figures agree."""
    data, answer = simulated(seed=11, sentences=30_000)
    tags, gold, labels = data.tags, data.gold, answer.labels
    assert gold is not None
    found = recommend(data, answer)
    assert len(found) == 3 * 2 + 2
    for fix in found:
        kind = 2 * tags.types.index(fix.type) + 1
        if fix.source == NEW_SOURCE:
            bare = (data.votes == 0).all(axis=1) & (labels == 0)
            wrong, lost = 0.0, float((bare & (gold == kind)).sum())
        else:
            mine = data.votes[:, data.sources.index(fix.source)] == kind
            share = mine / np.maximum((data.votes == kind).sum(axis=1), 1)
            wrong = float((share * (labels == kind) * (gold != kind)).sum())
            lost = float((share * (labels != kind) * (gold == kind)).sum())
        # Sums of independent draws: four deviations of at most sqrt(sum).
        assert fix.expected_false_positives == pytest.approx(wrong, abs=4 * np.sqrt(wrong + 1))
        assert fix.expected_misses == pytest.approx(lost, abs=4 * np.sqrt(lost + 1))
        assert fix.f1_gain == pytest.approx(fix.gold_f1_gain, abs=0.004)
    assert max(fix.f1_gain for fix in found) > 0.03  # so that the tolerance means something


def test_no_source_and_no_mark() -> None:
    data, answer = one_word_each({}, [0.2, 0.0], [0, 0])
    (fix,) = recommend(data, answer)
    assert fix.source == NEW_SOURCE
    assert fix.f1_gain == pytest.approx(2 * 0.2 / 0.4)
    data, answer = one_word_each({"s": [0, 0]}, [0.0, 0.0], [0, 0], [0, 0])
    (fix,) = recommend(data, answer)
    assert (fix.f1_gain, fix.gold_f1_gain, fix.examples) == (0.0, 0.0, ())


def test_of_very_many_spans_the_heaviest_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["convener.report.recommendations"], "MAX_SPANS", 3)
    data = cv.Dataset.from_spans(["X"], [["a"], ["b"], ["a"], ["b"], ["c"]], {})
    spans = Spans.from_rows([(n, 0, 1, 0) for n in range(5)])
    found = top_phrases(data, spans, np.array([0.2, 0.9, 0.2, 0.5, 0.8]))
    assert found == (("b", 2), ("c", 1))
