"""Estimated quality of sources: against closed forms, a bootstrap, simulated gold and `evaluate`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener.data.predictions import Predictions
from convener.evaluation.source_analysis import source_f1
from convener.report.source_quality import SourceEstimate, estimate_sources, ratio_interval, span_probabilities
from tests.generators import Kind, datasets, legal_labels, probability_rows


def test_closed_forms() -> None:
    none, some = np.zeros(3), np.array([2.0, 1.0, 0.0])
    assert ratio_interval(none, none) == (0.0, 0.0, 1.0)
    assert ratio_interval(np.zeros(0), np.zeros(0)) == (0.0, 0.0, 1.0)
    assert ratio_interval(some, some) == (1.0, 1.0, 1.0)
    assert ratio_interval(none, some) == (0.0, 0.0, 0.0)
    value, low, high = ratio_interval(np.array([30.0, 0.0]), np.array([30.0, 30.0]), variance=0.0)
    assert (value, low, high) == (0.5, 0.0, 1.0)  # clipped to [0, 1]


def test_additional_variance_widens_the_interval() -> None:
    numerators, denominators = np.full(100, 1.0), np.full(100, 2.0)  # all sentences are equal
    value, low, high = ratio_interval(numerators, denominators, variance=16.0)
    assert value == 0.5
    assert high - value == pytest.approx(1.96 * 4 / 200)
    assert value - low == pytest.approx(high - value)


def test_expected_errors_move_only_the_lower_end() -> None:
    numerators, denominators = np.array([3.0, 2.0, 4.0, 1.0]), np.array([4.0, 4.0, 5.0, 2.0])
    plain = ratio_interval(numerators, denominators)
    lowered = ratio_interval(numerators, denominators, expected_false=2.0, expected_missed=5.0)
    assert lowered.value == plain.value
    assert lowered.high == plain.high
    assert plain.value - plain.low == pytest.approx(8 / 20 - lowered.low)


@pytest.mark.parametrize("seed", range(3))
def test_without_additional_variance_it_equals_the_bootstrap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    denominators = rng.poisson(2.0, 400).astype(float)
    numerators = rng.binomial(denominators.astype(int), rng.beta(4, 2, 400)).astype(float)
    draws = rng.integers(0, 400, (4000, 400))
    ratios = numerators[draws].sum(axis=1) / denominators[draws].sum(axis=1)
    _, low, high = ratio_interval(numerators, denominators)
    assert [low, high] == pytest.approx(np.quantile(ratios, [0.025, 0.975]), abs=0.006)


@pytest.mark.parametrize("share", [0.6, 0.9])
def test_95_percent_of_intervals_contain_the_true_value(share: float) -> None:
    rng = np.random.default_rng(7)
    runs, covering = 1000, 0
    for _ in range(runs):
        denominators = rng.poisson(1.5, 200).astype(float)
        numerators = rng.binomial(denominators.astype(int), share).astype(float)
        _, low, high = ratio_interval(numerators, denominators)
        covering += low <= share <= high
    assert 0.93 <= covering / runs <= 0.97


# Estimates on data

LEGAL = Kind()


@given(st.data())
def test_f1_equals_source_f1(data: st.DataObject) -> None:
    corpus = data.draw(datasets(kind=LEGAL, gold=True).filter(lambda d: not d.coarse))
    corpus = corpus.with_sources(corpus.sources, np.maximum(corpus.votes, 0), corpus.unmarked)
    tags = corpus.tags
    predictions = Predictions(
        data=corpus,
        labels=data.draw(legal_labels(tags, corpus.lengths.tolist())),
        probabilities=data.draw(probability_rows(len(corpus.tokens), len(tags))),
    )
    found = {(item.source, item.type): item for item in estimate_sources(corpus, predictions)}
    estimated, gold = (source_f1(corpus, labels) for labels in (predictions.labels, corpus.gold))
    marked = 0
    for k, source in enumerate(corpus.sources):
        for e, kind in enumerate(tags.types):
            votes = corpus.votes[:, k]
            if not np.isin(votes, (2 * e + 1, 2 * e + 2)).any():
                assert (source, kind) not in found
                continue
            item, marked = found[source, kind], marked + 1
            assert item.num_spans == (votes == 2 * e + 1).sum()
            assert item.f1.value == pytest.approx(estimated[k, e])
            assert item.gold_score is not None
            assert item.gold_score.f1 == pytest.approx(gold[k, e])
            precision, recall = item.precision.value, item.recall.value
            both = precision + recall
            assert item.f1.value == pytest.approx(2 * precision * recall / both if both else 0)
    assert len(found) == marked


@given(st.data())
def test_intervals_contain_the_value(data: st.DataObject) -> None:
    corpus = data.draw(datasets())
    predictions = Predictions(
        data=corpus,
        labels=data.draw(legal_labels(corpus.fine_tags, corpus.lengths.tolist())),
        probabilities=data.draw(probability_rows(len(corpus.tokens), len(corpus.fine_tags))),
    )
    for item in estimate_sources(corpus, predictions):
        assert item.type in corpus.fine_tags.types
        assert (item.gold_score is None) == (corpus.gold is None)
        for value, low, high in (item.precision, item.recall, item.f1):
            assert 0 <= low <= value + 1e-12
            assert value <= high + 1e-12 <= 1 + 1e-9


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


def coverage(items: list[SourceEstimate], metric: str) -> list[bool]:
    """Whether each interval contains the value computed from gold."""
    pairs = [(getattr(item, metric), getattr(item.gold_score, metric)) for item in items]
    return [low <= gold <= high for (_, low, high), gold in pairs]


@pytest.mark.parametrize("metric", ["precision", "recall", "f1"])
def test_intervals_of_a_calibrated_model_contain_the_gold_value(metric: str) -> None:
    """About 95%, rather more because estimate and gold value share their sentences."""
    covering: list[bool] = []
    for seed in range(40):
        covering += coverage(estimate_sources(*simulated(seed, 400)), metric)
    assert np.mean(covering) >= 0.93


def test_types_without_votes_of_a_source_are_omitted(toy: cv.Dataset) -> None:
    model = cv.MajorityVote().fit(toy)
    found = estimate_sources(toy, model.predict(toy))
    assert {item.source for item in found} == {"good", "fair", "poor", "guest"}
    assert [item.source for item in found] == sorted((item.source for item in found), key=toy.sources.index)


def test_certain_predictions_give_intervals_of_width_zero() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"], ["b"]], {"s": [[(0, 1, "X")], []]})
    probs = np.array([[0, 1, 0], [1, 0, 0]], np.float32)
    predictions = Predictions(data=data, labels=np.array([1, 0], np.int16), probabilities=probs)
    (item,) = estimate_sources(data, predictions)
    assert item.precision == item.recall == item.f1 == (1.0, 1.0, 1.0)
    assert item.gold_score is None


def test_expected_missed_entities_lower_recall() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]] * 40, {"s": [[(0, 1, "X")]] * 20 + [[]] * 20})
    probs = np.array([[0, 1, 0]] * 20 + [[0.7, 0.3, 0]] * 20, np.float32)
    labels = np.array([1] * 20 + [0] * 20, np.int16)
    predictions = Predictions(data=data, labels=labels, probabilities=probs)
    (item,) = estimate_sources(data, predictions)
    assert item.precision.low == 1.0
    assert item.recall.value == 1.0
    assert item.recall.low == pytest.approx(20 / 26, abs=1e-6)
    assert item.f1.low == pytest.approx(40 / 46, abs=1e-6)
    assert span_probabilities(predictions.spans, predictions).tolist() == [1.0] * 20


def test_uncertainty_of_spans_enters_every_metric() -> None:
    """Forty spans of probability 0.8: eight expected errors with a variance of 6.4."""
    data = cv.Dataset.from_spans(["X"], [["a"]] * 40, {"s": [[(0, 1, "X")]] * 40})
    probs = np.tile(np.array([0.2, 0.8, 0], np.float32), (40, 1))
    predictions = Predictions(data=data, labels=np.ones(40, np.int16), probabilities=probs)
    (item,) = estimate_sources(data, predictions)
    low = 32 / 40 - 1.96 * np.sqrt(6.4) / 40
    for interval in (item.precision, item.recall, item.f1):
        assert interval == pytest.approx((1.0, low, 1.0), abs=1e-6)
