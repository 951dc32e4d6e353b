"""Reliability of sources: against exact counts, loops, closed forms and simulated gold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener.data.predictions import Predictions
from convener.data.spans import Spans
from convener.evaluation.metrics import score_labels
from convener.evaluation.source_reliability import (
    BOUNDS,
    MAX_EFFECTIVE_SPANS,
    METRICS,
    Reliability,
    estimate_reliability,
    interval_of,
    span_probabilities,
    spans_by_source,
)
from tests.generators import Kind, datasets, legal_labels, probability_rows

LEGAL = Kind()


def predicted(data: cv.Dataset, drawn: st.DataObject) -> Predictions:
    return Predictions(
        data=data,
        labels=drawn.draw(legal_labels(data.fine_tags, data.lengths.tolist())),
        probabilities=drawn.draw(probability_rows(len(data.tokens), len(data.fine_tags))),
    )


def rows_of(found: Reliability, data: cv.Dataset) -> list[dict[str, object]]:
    return found.table(data.sources, data.fine_tags.types, title="").to_records()


def harmonic_mean(a: float, b: float) -> float:
    return 2 * a * b / (a + b) if a + b else 0.0


@given(st.data())
def test_every_row_is_consistent(drawn: st.DataObject) -> None:
    data = drawn.draw(datasets())
    rows = rows_of(estimate_reliability(data, predicted(data, drawn)), data)
    for row in rows:
        assert row["F1"] == pytest.approx(harmonic_mean(row["recall"], row["precision"]))
        for metric in METRICS:
            value, low, high = interval_of(row, metric)
            assert 0 <= low <= value <= high <= 1


@given(st.data())
def test_rows_are_the_types_that_a_source_gives(drawn: st.DataObject) -> None:
    data = drawn.draw(datasets())
    found = estimate_reliability(data, predicted(data, drawn))
    spans, types = spans_by_source(data), data.fine_tags.types
    expected = [
        (source, types[e], int((marks.type == e).sum()))
        for source, marks in zip(data.sources, spans, strict=True)
        for e in range(len(types))
        if (marks.type == e).any()
    ]
    assert [(row["source"], row["type"], row["marks"]) for row in rows_of(found, data)] == expected
    for array in (found.recall, found.precision, found.f1):
        np.testing.assert_array_equal(np.isnan(array).all(axis=2), found.marks == 0)
        assert np.isfinite(array[found.marks > 0]).all()


@given(st.data())
def test_certain_predictions_give_exact_counts(drawn: st.DataObject) -> None:
    """Against the scorer, on the tokens that a source read."""
    data = drawn.draw(datasets(kind=LEGAL).filter(lambda data: not data.coarse))
    data = data.with_sources(data.sources, np.maximum(data.votes, 0), data.unmarked)
    labels = drawn.draw(legal_labels(data.tags, data.lengths.tolist()))
    # A source reads a sentence or does not.
    skipped = np.array([drawn.draw(st.booleans()) for _ in range(len(data) * len(data.sources))], bool)
    skipped = skipped.reshape(len(data), len(data.sources))[data.sentence_of_token()]
    data = data.with_sources(data.sources, np.where(skipped, np.int16(-1), data.votes), data.unmarked)
    certain = np.eye(len(data.tags), dtype=np.float32)[labels]
    found = estimate_reliability(data, Predictions(data=data, labels=labels, probabilities=certain))
    for k, votes in enumerate(data.votes.T):
        read = votes >= 0
        scores = score_labels(votes * read, labels * read, data.offsets, data.tags).per_type
        for e, name in enumerate(data.tags.types):
            score = scores[name]
            assert found.marks[k, e] == score.predicted
            if score.predicted:
                values = [interval.value for interval in found.intervals(k, e)]
                assert values == pytest.approx([score.recall, score.precision, score.f1])


@given(st.data())
def test_estimates_equal_loops(drawn: st.DataObject) -> None:
    data = drawn.draw(datasets())
    predictions = predicted(data, drawn)
    found, fine = estimate_reliability(data, predictions), data.without_coarse()
    probabilities = predictions.require_probabilities()
    for k, spans in enumerate(spans_by_source(data)):
        correct = span_probabilities(spans, predictions).tolist()
        for e in range(len(fine.tags.types)):
            hits = sum(value for value, span in zip(correct, spans, strict=True) if span.type == e)
            marks = sum(span.type == e for span in spans)
            read = [t for t in range(len(data.tokens)) if fine.votes[t, k] >= 0]
            present = max(sum(float(probabilities[t, 2 * e + 1]) for t in read), hits)
            if marks:
                recall, precision, _ = found.intervals(k, e)
                assert recall.value == pytest.approx(hits / present if present else 0, abs=1e-5)
                assert precision.value == pytest.approx(hits / marks, abs=1e-6)


def marked(*sources: list[int], positions: int) -> cv.Dataset:
    """Sentences of two tokens; each source marks the first one of these sentences."""
    votes = {
        f"s{k}": [[(0, 1, "X")] if number in marks else [] for number in range(positions)]
        for k, marks in enumerate(sources)
    }
    return cv.Dataset.from_spans(["X"], [["a", "b"]] * positions, votes)


def with_probability(data: cv.Dataset, value: float) -> Predictions:
    """The first token of each sentence is an entity with this probability."""
    rows = np.tile(np.array([[1 - value, value, 0], [1, 0, 0]], np.float32), (len(data), 1))
    return Predictions(data=data, labels=np.array([1, 0] * len(data), np.int16), probabilities=rows)


def wilson(share: float, size: float) -> tuple[float, float]:
    centre = (share + 1.96**2 / (2 * size)) / (1 + 1.96**2 / size)
    spread = 1.96 / (1 + 1.96**2 / size) * math.sqrt(share * (1 - share) / size + 1.96**2 / (4 * size**2))
    return centre - spread, centre + spread


def test_bounds_without_agreement_are_those_of_a_wilson_interval() -> None:
    data = marked(list(range(40)), positions=40)
    found = estimate_reliability(data, with_probability(data, 0.75))
    low, high = wilson(0.75, 1 / (1 / 40 + 1 / MAX_EFFECTIVE_SPANS))
    _, precision, _ = found.intervals(0, 0)
    assert precision.value == pytest.approx(0.75)
    assert precision.low == pytest.approx(math.floor(40 * low) / 40)
    assert precision.high == pytest.approx(math.ceil(40 * high) / 40)


def test_no_source_counts_as_more_independent_spans_than_the_limit() -> None:
    widths = []
    for size in (10, 100, 10_000):
        data = marked(list(range(size)), positions=size)
        _, precision, _ = estimate_reliability(data, with_probability(data, 0.75)).intervals(0, 0)
        widths.append(precision.high - precision.low)
    low, high = wilson(0.75, MAX_EFFECTIVE_SPANS)
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] == pytest.approx(high - low, abs=0.002)


def test_one_mark_tells_nothing() -> None:
    data = marked([0], positions=1)
    for interval in estimate_reliability(data, with_probability(data, 0.75)).intervals(0, 0):
        assert (interval.low, interval.high) == (0, 1)


def test_marks_that_another_source_confirms_raise_the_upper_bound_of_precision() -> None:
    alone, both = marked(list(range(40)), [], positions=40), marked(list(range(40)), list(range(40)), positions=40)
    (before, after) = (
        estimate_reliability(data, with_probability(data, 0.3)).intervals(0, 0) for data in (alone, both)
    )
    assert before[1].high < 0.6
    assert after[1].high == 1
    assert after[1][:2] == before[1][:2]
    assert after[0] == before[0]  # of recall
    assert after[2].high > before[2].high


def test_spans_that_two_others_mark_are_an_estimate_of_recall() -> None:
    """The model expects that the source misses nothing; it misses 30 of 40 spans on which two others agree."""
    everything = list(range(40))
    data = marked(everything[:10], everything, everything, positions=40)
    probabilities = with_probability(data, 1.0).require_probabilities().copy()
    probabilities[20:, :] = [1, 0, 0]
    labels = np.array([1, 0] * 10 + [0, 0] * 30, np.int16)
    predictions = Predictions(data=data, labels=labels, probabilities=probabilities)
    recall, _, f1 = estimate_reliability(data, predictions).intervals(0, 0)
    assert recall.value == f1.value == 1
    assert recall.low < 0.25 < recall.high
    assert f1.low < 0.4


def test_spans_of_too_few_witnesses_do_not_count() -> None:
    data = marked([0, 1, 2, 3], list(range(8)), list(range(8)), positions=8)
    with_four = marked([0, 1, 2, 3], list(range(4, 8)), list(range(4, 8)), positions=8)
    probabilities = with_probability(data, 1.0)
    shared, few = (estimate_reliability(each, probabilities).intervals(0, 0)[0] for each in (data, with_four))
    assert shared.value == few.value == 0.5
    assert few.low == shared.low  # four shared spans of which the source finds none are too few


def test_a_score_replaces_the_probability_of_its_tokens() -> None:
    data = marked(list(range(4)), positions=4)
    scored = with_probability(data, 0.75)
    scored = Predictions(
        data=data,
        labels=scored.labels,
        probabilities=scored.probabilities,
        span_scores=np.full(4, 0.5, np.float32),
    )
    assert span_probabilities(scored.spans, scored).tolist() == [0.5] * 4
    assert span_probabilities(Spans.from_rows([(0, 0, 2, 0)]), scored).tolist() == [0.0]
    assert estimate_reliability(data, scored).intervals(0, 0)[1].value == 0.5


def test_a_source_with_coarse_labels_only_has_no_row() -> None:
    data = cv.Dataset.from_spans(["PER", "ENT"], [["Ada"]], {"s": [[(0, 1, "PER")]], "t": [[(0, 1, "ENT")]]})
    data = data.with_coarse({"ENT": "any"})
    certain = Predictions(data=data, labels=np.ones(1, np.int16), probabilities=np.array([[0, 1, 0]], np.float32))
    assert [(row["source"], row["type"]) for row in rows_of(estimate_reliability(data, certain), data)] == [
        ("s", "PER")
    ]


def test_columns_of_the_table() -> None:
    data = marked([0], positions=1)
    table = estimate_reliability(data, with_probability(data, 1.0)).table(data.sources, ["X"], title="")
    assert table.columns == ("source", "type", "marks", *METRICS, *BOUNDS)
    assert BOUNDS[:2] == ("recall low", "recall high")


# Coverage


def simulated(seed: int, sentences: int) -> tuple[cv.Dataset, Predictions]:
    """Tokens whose label probabilities the model knows exactly; gold is drawn from them.

    Votes depend on the tokens alone, so the model is also calibrated on spans of the sources.
    """
    rng = np.random.default_rng(seed)
    kinds = rng.dirichlet([1.5, 0.6, 0.6], sentences)
    probs = np.zeros((sentences, 5), np.float32)
    probs[:, [0, 1, 3]] = kinds
    label = np.array([0, 1, 3], np.int16)
    gold = label[(kinds.cumsum(axis=1) < rng.random((sentences, 1))).sum(axis=1).clip(max=2)]
    noisy = [kinds**power * rng.gamma(2.0, 1.0, kinds.shape) for power in (2.0, 1.0, 0.4)]
    votes = np.stack([label[weights.argmax(axis=1)] for weights in noisy], axis=1)
    data = cv.Dataset.from_spans(["X", "Y"], [["w"]] * sentences, {})
    data = data.with_sources(("good", "fair", "poor"), votes, ("abstain",) * 3).with_gold(gold)
    labels = label[kinds.argmax(axis=1)]
    return data, Predictions(data=data, labels=labels, probabilities=probs, model="true")


@pytest.mark.parametrize("sentences", [20, 200, 2000])
def test_intervals_of_a_calibrated_model_contain_the_gold_value(sentences: int) -> None:
    covered: list[bool] = []
    for seed in range(20):
        data, predictions = simulated(seed, sentences)
        found = estimate_reliability(data, predictions)
        for k, votes in enumerate(data.votes.T):
            scores = score_labels(votes, data.gold, data.offsets, data.tags).per_type
            for e, name in enumerate(data.tags.types):
                true = scores[name].recall, scores[name].precision, scores[name].f1
                intervals = zip(found.intervals(k, e), true, strict=True) if found.marks[k, e] else []
                covered += [interval.low - 1e-9 <= value <= interval.high + 1e-9 for interval, value in intervals]
    assert np.mean(covered) >= 0.93
