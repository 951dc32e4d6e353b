"""Estimates of sources: against a bootstrap, simulated truths, closed forms, `evaluate`."""

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
    assert (value, low, high) == (0.5, 0.0, 1.0)  # the ends stay in [0, 1]


def test_doubt_widens_by_its_variance() -> None:
    part, whole = np.full(100, 1.0), np.full(100, 2.0)  # no sentence differs from another
    value, low, high = ratio_interval(part, whole, variance=16.0)
    assert value == 0.5
    assert high - value == pytest.approx(1.96 * 4 / 200)
    assert value - low == pytest.approx(high - value)


def test_what_is_expected_to_be_missed_moves_the_lower_end_only() -> None:
    part, whole = np.array([3.0, 2.0, 4.0, 1.0]), np.array([4.0, 4.0, 5.0, 2.0])
    plain = ratio_interval(part, whole)
    moved = ratio_interval(part, whole, expected_false=2.0, expected_missed=5.0)
    assert moved.value == plain.value
    assert moved.high == plain.high
    assert plain.value - plain.low == pytest.approx(8 / 20 - moved.low)


@pytest.mark.parametrize("seed", range(3))
def test_without_doubt_it_is_the_bootstrap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = rng.poisson(2.0, 400).astype(float)
    part = rng.binomial(whole.astype(int), rng.beta(4, 2, 400)).astype(float)
    draws = rng.integers(0, 400, (4000, 400))
    ratios = part[draws].sum(axis=1) / whole[draws].sum(axis=1)
    _, low, high = ratio_interval(part, whole)
    assert [low, high] == pytest.approx(np.quantile(ratios, [0.025, 0.975]), abs=0.006)


@pytest.mark.parametrize("share", [0.6, 0.9])
def test_ninety_five_of_a_hundred_intervals_hold_the_truth(share: float) -> None:
    rng = np.random.default_rng(7)
    runs, held = 1000, 0
    for _ in range(runs):
        whole = rng.poisson(1.5, 200).astype(float)
        part = rng.binomial(whole.astype(int), share).astype(float)
        _, low, high = ratio_interval(part, whole)
        held += low <= share <= high
    assert 0.93 <= held / runs <= 0.97


# Of data

LEGAL = Kind()


@given(st.data())
def test_f1_is_that_of_evaluate(data: st.DataObject) -> None:
    corpus = data.draw(datasets(kind=LEGAL, gold=True).filter(lambda d: not d.coarse))
    corpus = corpus.with_sources(corpus.sources, np.maximum(corpus.votes, 0), corpus.silence)
    tags = corpus.tags
    answer = Predictions(
        data=corpus,
        labels=data.draw(legal_labels(tags, corpus.lengths.tolist())),
        probabilities=data.draw(probability_rows(len(corpus.tokens), len(tags))),
    )
    found = {(item.source, item.type): item for item in estimate_sources(corpus, answer)}
    theirs, true = (source_f1(corpus, labels) for labels in (answer.labels, corpus.gold))
    marked = 0
    for k, source in enumerate(corpus.sources):
        for e, kind in enumerate(tags.types):
            votes = corpus.votes[:, k]
            if not np.isin(votes, (2 * e + 1, 2 * e + 2)).any():
                assert (source, kind) not in found
                continue
            item, marked = found[source, kind], marked + 1
            assert item.num_spans == (votes == 2 * e + 1).sum()
            assert item.f1.value == pytest.approx(theirs[k, e])
            assert item.gold_score is not None
            assert item.gold_score.f1 == pytest.approx(true[k, e])
            precision, recall = item.precision.value, item.recall.value
            both = precision + recall
            assert item.f1.value == pytest.approx(2 * precision * recall / both if both else 0)
    assert len(found) == marked


@given(st.data())
def test_ends_are_around_the_value(data: st.DataObject) -> None:
    corpus = data.draw(datasets())
    answer = Predictions(
        data=corpus,
        labels=data.draw(legal_labels(corpus.fine_tags, corpus.lengths.tolist())),
        probabilities=data.draw(probability_rows(len(corpus.tokens), len(corpus.fine_tags))),
    )
    for item in estimate_sources(corpus, answer):
        assert item.type in corpus.fine_tags.types
        assert (item.gold_score is None) == (corpus.gold is None)
        for value, low, high in (item.precision, item.recall, item.f1):
            assert 0 <= low <= value + 1e-12
            assert value <= high + 1e-12 <= 1 + 1e-9


def simulated(seed: int, sentences: int) -> tuple[cv.Dataset, Predictions]:
    """Words of which the model knows exactly how probable each label is; gold is drawn so.

    What sources mark depends on the words alone, so the model is right about their marks, too.
    """
    rng = np.random.default_rng(seed)
    kinds = rng.dirichlet([1.5, 0.6, 0.6], sentences)
    shares = np.zeros((sentences, 5), np.float32)
    shares[:, [0, 1, 3]] = kinds
    label = np.array([0, 1, 3], np.int16)
    gold = label[(kinds.cumsum(axis=1) < rng.random((sentences, 1))).sum(axis=1).clip(max=2)]
    noisy = [kinds**power * rng.gamma(2.0, 1.0, kinds.shape) for power in (2.0, 1.0, 0.4)]
    votes = np.stack([label[weights.argmax(axis=1)] for weights in noisy], axis=1)
    data = cv.Dataset.from_spans(["X", "Y"], [["w"]] * sentences, {})
    data = data.with_sources(("good", "fair", "poor"), votes, ("O",) * 3).with_gold(gold)
    labels = label[kinds.argmax(axis=1)]
    return data, Predictions(data=data, labels=labels, probabilities=shares, model="true")


def covered(items: list[SourceEstimate], figure: str) -> list[bool]:
    ends = [(getattr(item, figure), getattr(item.gold_score, figure)) for item in items]
    return [low <= true <= high for (_, low, high), true in ends]


@pytest.mark.parametrize("figure", ["precision", "recall", "f1"])
def test_intervals_hold_what_gold_says_where_the_model_is_right_about_itself(figure: str) -> None:
    """About 95 %; estimated and true figures are of the same sentences, so it is rather more."""
    held: list[bool] = []
    for seed in range(40):
        held += covered(estimate_sources(*simulated(seed, 400)), figure)
    assert np.mean(held) >= 0.93


def test_types_that_a_source_never_marks_are_left_out(toy: cv.Dataset) -> None:
    model = cv.MajorityVote().fit(toy)
    found = estimate_sources(toy, model.predict(toy))
    assert {item.source for item in found} == {"good", "fair", "poor", "guest"}
    assert [item.source for item in found] == sorted((item.source for item in found), key=toy.sources.index)


def test_a_source_that_is_certain_and_complete_has_no_doubt() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"], ["b"]], {"s": [[(0, 1, "X")], []]})
    shares = np.array([[0, 1, 0], [1, 0, 0]], np.float32)
    answer = Predictions(data=data, labels=np.array([1, 0], np.int16), probabilities=shares)
    (item,) = estimate_sources(data, answer)
    assert item.precision == item.recall == item.f1 == (1.0, 1.0, 1.0)
    assert item.gold_score is None


def test_entities_that_the_model_expects_and_does_not_find_count_against_recall() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"]] * 40, {"s": [[(0, 1, "X")]] * 20 + [[]] * 20})
    shares = np.array([[0, 1, 0]] * 20 + [[0.7, 0.3, 0]] * 20, np.float32)
    labels = np.array([1] * 20 + [0] * 20, np.int16)
    answer = Predictions(data=data, labels=labels, probabilities=shares)
    (item,) = estimate_sources(data, answer)
    assert item.precision.low == 1.0
    assert item.recall.value == 1.0
    assert item.recall.low == pytest.approx(20 / 26, abs=1e-6)
    assert item.f1.low == pytest.approx(40 / 46, abs=1e-6)
    assert span_probabilities(answer.spans, answer).tolist() == [1.0] * 20


def test_doubt_about_marks_is_in_every_figure() -> None:
    """Forty marks of 0.8 each: eight are expected to be wrong, with a variance of 6.4."""
    data = cv.Dataset.from_spans(["X"], [["a"]] * 40, {"s": [[(0, 1, "X")]] * 40})
    shares = np.tile(np.array([0.2, 0.8, 0], np.float32), (40, 1))
    answer = Predictions(data=data, labels=np.ones(40, np.int16), probabilities=shares)
    (item,) = estimate_sources(data, answer)
    low = 32 / 40 - 1.96 * np.sqrt(6.4) / 40
    for figure in (item.precision, item.recall, item.f1):
        assert figure == pytest.approx((1.0, low, 1.0), abs=1e-6)
