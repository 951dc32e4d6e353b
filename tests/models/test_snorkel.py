"""Snorkel's label model: accuracies estimated from agreement, and labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.data.ragged import StringArray
from convener.models import snorkel
from convener.models.em import EMTrace, run_em
from convener.models.snorkel import Snorkel

ACCURACY = np.array([0.95, 0.85, 0.7, 0.55, 0.4])


def one_coin(tokens: int, seed: int, accuracy: np.ndarray = ACCURACY, coverage: float = 0.6) -> cv.Dataset:
    """Sentences of one token; a source votes for the true class with its accuracy, otherwise for a random other."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(4, size=tokens)
    shape = (tokens, len(accuracy))
    wrong = (truth[:, None] + rng.integers(1, 4, size=shape)) % 4
    classes = np.where(rng.random(shape) < accuracy, truth[:, None], wrong)
    votes = np.where(rng.random(shape) < coverage, np.maximum(2 * classes - 1, 0), -1)
    return cv.Dataset(
        tags=cv.TagSet(("PER", "LOC", "ORG")),
        tokens=StringArray.from_list(["w"] * tokens),
        offsets=np.arange(tokens + 1),
        sources=tuple(f"s{k}" for k in range(len(accuracy))),
        votes=votes.astype(np.int16),
        unmarked=("outside",) * len(accuracy),
        gold=np.maximum(2 * truth - 1, 0).astype(np.int16),
    )


def accuracies(model: cv.LabelModel) -> np.ndarray:
    params = model.fitted.params
    return params["correct"] / (params["correct"] + params["incorrect"])


def by_moments(data: cv.Dataset, num_classes: int) -> np.ndarray:
    """Accuracies of three sources in closed form: agreement of two, rescaled, is a product."""

    def agreement(i: int, j: int) -> float:
        both = (data.votes[:, i] >= 0) & (data.votes[:, j] >= 0)
        share = (data.votes[both, i] == data.votes[both, j]).mean()
        return float((num_classes * share - 1) / (num_classes - 1))

    a, b, c = agreement(0, 1), agreement(1, 2), agreement(0, 2)
    scaled = np.sqrt([a * c / b, a * b / c, b * c / a])
    return (1 + (num_classes - 1) * scaled) / num_classes


def label_accuracy(model: cv.LabelModel, data: cv.Dataset) -> float:
    voted = (data.votes >= 0).any(axis=1)
    return float((model.predict(data).labels == data.gold)[voted].mean())


def test_known_accuracies_are_recovered() -> None:
    model = Snorkel(prior_votes=1.0).fit(one_coin(20_000, seed=1))
    np.testing.assert_allclose(accuracies(model), ACCURACY, atol=0.02)


def test_three_sources_agree_with_the_closed_form() -> None:
    data = one_coin(40_000, seed=2, accuracy=ACCURACY[:3], coverage=0.9)
    model = Snorkel(prior_votes=1.0, max_iter=500, tol=1e-9).fit(data)
    np.testing.assert_allclose(accuracies(model), by_moments(data, 4), atol=0.02)


def test_the_posterior_is_the_weighted_vote() -> None:
    data = one_coin(500, seed=3)
    model = Snorkel().fit(data)
    accuracy = accuracies(model)
    weight = np.log(accuracy * 3 / (1 - accuracy))
    classes = np.where(data.votes < 0, -1, (data.votes + 1) // 2)
    score = np.stack([((classes == c) * weight).sum(axis=1) for c in range(4)], axis=1)
    expected = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    expected[(classes < 0).all(axis=1)] = 1, 0, 0, 0
    p = model.predict(data).probabilities
    assert p is not None
    found = np.concatenate([p[:, :1], p[:, 1::2] + p[:, 2::2]], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_it_beats_majority_vote_where_sources_differ() -> None:
    data = one_coin(5000, seed=4)
    assert label_accuracy(Snorkel().fit(data), data) > label_accuracy(cv.MajorityVote().fit(data), data) + 0.05


@pytest.mark.parametrize("balance", ["uniform", "learned"])
@pytest.mark.parametrize("scheme", ["io", "bio"])
def test_the_objective_never_decreases(monkeypatch: pytest.MonkeyPatch, scheme: str, balance: str) -> None:
    traces: list[EMTrace] = []

    def recorded(*args: object, **settings: object) -> object:
        found, trace = run_em(*args, **settings)
        traces.append(trace)
        return found, trace

    monkeypatch.setattr(snorkel, "run_em", recorded)
    Snorkel(scheme=scheme, class_balance=balance, tol=0.0).fit(one_coin(300, seed=5))
    assert np.diff(traces[0].objective).min() > -1e-9


@pytest.mark.parametrize("sources", [1, 2])
def test_fewer_than_three_sources(sources: int) -> None:
    data = one_coin(500, seed=6, accuracy=ACCURACY[:sources])
    model = Snorkel().fit(data)
    assert np.isfinite(accuracies(model)).all()
    assert label_accuracy(model, data) > 0.8


def test_a_type_without_competing_votes_is_predicted() -> None:
    rng = np.random.default_rng(7)
    data = one_coin(2000, seed=7)
    votes = np.where(rng.random(data.votes.shape) < 0.3, np.maximum(data.votes, 0), 0)
    marks_only = data.with_sources(data.sources, votes.astype(np.int16), ("abstain",) * 5)
    labels = Snorkel().fit(marks_only).predict(marks_only).labels
    kinds = np.sort(votes, axis=1)
    alone = (kinds[:, -1] > 0) & (kinds[:, -1] == np.where(kinds > 0, kinds, 99).min(axis=1))
    assert (labels[alone] == kinds[alone, -1]).all()
    assert (labels[~votes.any(axis=1)] == 0).all()


def test_votes_of_a_source_worse_than_chance_are_not_inverted() -> None:
    data = one_coin(5000, seed=8, accuracy=np.array([0.9, 0.9, 0.9, 0.02]))
    model = Snorkel().fit(data)
    only = data.with_sources(data.sources, np.where([[0, 0, 0, 1]], data.votes, -1).astype(np.int16), data.unmarked)
    votes = only.votes[:, 3]
    assert (model.predict(only).labels[votes >= 0] == votes[votes >= 0]).all()


def test_sources_that_cannot_disagree_are_named() -> None:
    data = cv.Dataset.from_spans(["PER"], [["a", "b"]], {"x": [[(0, 1, "PER")]]})
    with pytest.warns(cv.ConvenerWarning, match="all votes are for PER"):
        model = Snorkel().fit(data)
    assert model.predict(data).tags() == [["B-PER", "O"]]


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
def test_hundreds_of_sources_with_few_votes() -> None:
    data = one_coin(400, seed=9, accuracy=np.full(300, 0.8), coverage=0.02)
    mute = data.votes.copy()
    mute[:, ::10] = -1
    data = data.with_sources(data.sources, mute, data.unmarked)
    labels = Snorkel().fit(data).predict(data)
    assert labels.probabilities is not None
    assert np.isfinite(labels.probabilities).all()
    assert (labels.labels == data.gold).mean() > 0.9


def test_the_order_of_sources_and_sentences_does_not_matter() -> None:
    data = one_coin(600, seed=10)
    p = Snorkel().fit(data).predict(data).probabilities
    turned = data.select_sources(data.sources[::-1])
    mixed = data.take(np.random.default_rng(0).permutation(len(data)))
    assert p is not None
    for model, evaluated in ((Snorkel().fit(turned), turned), (Snorkel().fit(mixed), data)):
        again = model.predict(evaluated).probabilities
        assert again is not None
        np.testing.assert_allclose(again, p, atol=1e-6)


def test_a_second_fit_continues_from_the_counts() -> None:
    data = one_coin(20_000, seed=11)
    model = Snorkel().fit(data[:2000])
    np.testing.assert_allclose(accuracies(model.fit(data[2000:])), ACCURACY, atol=0.02)


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("name", "least"), [("LaptopReview", 73.27), ("NCBI-Disease", 78.44), ("BC5CDR", 83.45)])
def test_f1_on_real_data(real_data: Path, name: str, least: float, seed: int) -> None:
    corpus = cv.read_corpus(real_data / name)
    model = Snorkel(seed=seed).fit(corpus.train)
    assert round(100 * cv.evaluate(model.predict(corpus.test), corpus.test).f1, 2) >= least


@pytest.mark.parametrize("settings", [{"prior_accuracy": 1.0}, {"prior_votes": 0}, {"max_iter": 0}, {"tol": -1}])
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(settings))):
        Snorkel(**settings)
