"""CHMM as a model: initialization, settings, quality."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import convener as cv
from convener.data.ragged import StringArray
from convener.models import neural_chain
from convener.models.chmm import CHMM
from convener.models.initialization import PRESUMED_PRECISION, emission_counts, paper_emission
from convener.models.majority_vote import initial_labels
from convener.models.neural_chain import InitialMatrices
from convener.neural.batch import PackedDataset
from tests.models.networks import (
    QUICK,
    assert_killed_fit_resumes,
    assert_second_fit_continues,
    assert_setting_matters,
    assert_valid_gold_is_used_only_if_allowed,
)
from tests.models.test_hmm import generated_chain

pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
VOCABULARY = (("the", "of", "goes", "with"), ("Ada", "Bo", "Cy"), ("Smith", "Jones", "Lee"))


def planted(seed: int = 0, sentences: int = 300) -> tuple[cv.Dataset, np.ndarray]:
    """A chain with three sources of known emissions; nine of ten words are typical of their label."""
    data, emissions = generated_chain(seed, sentences)
    rng = np.random.default_rng(seed)
    assert data.gold is not None
    shown = np.where(rng.random(len(data.gold)) < 0.9, data.gold, 0)
    words = StringArray.from_list(str(rng.choice(VOCABULARY[label])) for label in shown)
    return replace(data, tokens=words), emissions


def f1(model: cv.LabelModel, data: cv.Dataset) -> float:
    return cv.evaluate(model.predict(data), data).f1


@pytest.mark.parametrize("init", ["votes", "paper"])
def test_initialization_reproduces_the_initial_matrices(toy: cv.Dataset, init: str) -> None:
    model = CHMM(encoder="hashing", init=init)
    data = model.encode(toy)
    wanted, net = getattr(InitialMatrices, f"from_{init}")(data), model._build_network(data)
    model._initialize(net, data)
    batch = PackedDataset.from_dataset(data).batch()
    with torch.no_grad():
        transitions = net.transition_logits(batch).softmax(-1).numpy()
        emissions = net.emission_logits(batch.tokens).softmax(-1).numpy()
    for found, expected in ((transitions, wanted.transition), (emissions, wanted.emission)):
        np.testing.assert_allclose(expected.sum(axis=-1), 1)
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), atol=1e-5)


def test_with_learning_rate_zero_emissions_do_not_change(toy: cv.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural_chain, "INITIAL_LEARNING_RATE", 0.0)
    monkeypatch.setattr(neural_chain, "WEIGHT_DECAY", 0.0)
    model = CHMM(**QUICK, learning_rate=0, emission_learning_rate=0, init="paper").fit(toy, toy)
    expected = paper_emission(toy)
    np.testing.assert_allclose(model.diagnostics().emission, expected, atol=1e-5)


def test_the_estimated_initialization_presumes_few_false_marks(toy: cv.Dataset) -> None:
    start = InitialMatrices.from_votes(toy)
    for k in range(len(toy.sources)):
        voted = toy.votes[:, k] >= 0
        marks = np.mean(toy.votes[voted, k] > 0)
        np.testing.assert_allclose(start.emission[k, 0, 1:].sum(), (1 - PRESUMED_PRECISION) * marks)
    counts = emission_counts(toy, [(1.0, initial_labels(toy))], default_precision=PRESUMED_PRECISION)
    shares = counts[0, 1] / counts[0, 1].sum()
    np.testing.assert_allclose(start.emission[0, 1], shares, atol=0.05)


def test_it_recovers_planted_emissions_and_beats_majority_vote() -> None:
    data, emissions = planted()
    model = CHMM(encoder="hashing", learning_rate=1e-2, emission_learning_rate=1e-3, max_epochs=30).fit(data, data)
    start, found = InitialMatrices.from_votes(data).emission, model.diagnostics().emission
    assert np.abs(found - emissions).mean() < min(0.055, 0.9 * np.abs(start - emissions).mean())
    assert f1(model, data) > f1(cv.MajorityVote().fit(data), data) + 0.2


def test_features_find_entities_where_all_sources_abstain() -> None:
    data, _ = planted(1)
    model = CHMM(encoder="hashing", learning_rate=1e-2, emission_learning_rate=1e-3, max_epochs=10).fit(data, data)
    rng = np.random.default_rng(0)
    votes = data.votes.copy()
    votes[rng.random(len(votes)) < 0.3] = -1
    fewer = data.with_sources(data.sources, votes, data.unmarked)
    labels = model.predict(fewer).labels
    without_votes = (votes == -1).all(axis=1) & (data.gold > 0)
    assert np.mean(labels[without_votes] > 0) > 0.5


@pytest.mark.parametrize(
    "setting",
    [
        {"tau": 1.0},
        {"init": "paper"},
        {"learning_rate": 1e-2},
        {"emission_learning_rate": 1e-2},
        {"unmarked_weight": 0.5},
        {"boundary_penalty": 3.0},
        {"batch_size": 4},
        {"seed": 4},
    ],
    ids=str,
)
def test_every_setting_changes_the_result(toy: cv.Dataset, setting: dict[str, Any]) -> None:
    assert_setting_matters(CHMM, toy, setting)


def test_the_same_seed_gives_the_same_weights(toy: cv.Dataset) -> None:
    first, second = (CHMM(**QUICK).fit(toy).fitted.params for _ in range(2))
    assert set(first) == set(second)
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)


def test_probabilities_are_finite_and_change_if_sources_abstain(toy: cv.Dataset) -> None:
    model = CHMM(**QUICK).fit(toy, toy)
    mute = toy.votes.copy()
    mute[:, toy.sources.index("poor")] = -1
    without_poor = toy.with_sources(toy.sources, mute, toy.unmarked)
    with_all, without = (model.predict(data).probabilities for data in (toy, without_poor))
    assert not np.array_equal(with_all, without)
    all_abstain = toy.with_sources(toy.sources, np.full_like(toy.votes, -1), toy.unmarked)
    guessed = model.predict(all_abstain).probabilities
    assert guessed is not None
    assert np.isfinite(guessed).all()


def test_a_single_source_and_tiny_data_work(toy: cv.Dataset) -> None:
    alone = toy.select_sources(["good"])
    assert len(CHMM(**QUICK).fit(alone).predict(alone).spans)
    one = cv.Dataset.from_spans(["PER"], [["Ada", "sang"]], {"a": [[(0, 1, "PER")]]})
    assert CHMM(**QUICK).fit(one).predict(one).tags() == [["B-PER", "O"]]


def test_unmarked_weight_zero_lowers_the_probability_of_o(toy: cv.Dataset) -> None:
    some = toy.select_sources(["fair", "poor", "silent"])
    full, none = (
        CHMM(**QUICK, unmarked_weight=weight).fit(some, some).predict(some).probabilities for weight in (1.0, 0.0)
    )
    assert full is not None
    assert none is not None
    assert none[:, 0].mean() < full[:, 0].mean()


def test_emissions_and_reliability_are_tables(toy: cv.Dataset) -> None:
    model = CHMM(**QUICK).fit(toy, toy)
    table = model.emission_table()
    assert table.columns == ("source", "true label", "O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    assert len(table.rows) == len(toy.sources) * len(toy.tags)
    np.testing.assert_allclose([sum(row[2:]) for row in table.rows], 1, atol=1e-6)
    recall = {row["source"]: row["recall"] for row in model.reliability().to_records()}
    assert recall["good"] > recall["fair"] > recall["poor"]


def test_gold_of_valid_is_used_only_if_allowed(toy: cv.Dataset) -> None:
    assert_valid_gold_is_used_only_if_allowed(CHMM, toy, "transition_layer.weight")


def test_a_second_fit_continues_from_the_first(toy: cv.Dataset) -> None:
    assert_second_fit_continues(CHMM, toy, "transition_layer.weight")


def test_a_killed_fit_resumes_from_its_checkpoint(toy: cv.Dataset, tmp_path: Path) -> None:
    assert_killed_fit_resumes(CHMM, toy, tmp_path, step=5)


@pytest.mark.parametrize(
    "bad", [{"tau": -1}, {"emission_learning_rate": -1}, {"max_epochs": 0}, {"boundary_penalty": -1}, {"init": "gold"}]
)
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        CHMM(**bad)
