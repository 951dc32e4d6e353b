"""CHMM as a model: its start, its settings, and what it learns."""

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
    assert_gold_decides_only_if_allowed,
    assert_killed_fit_goes_on,
    assert_second_fit_goes_on,
    assert_setting_matters,
)
from tests.models.test_hmm import drawn

pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
VOCABULARY = (("the", "of", "goes", "with"), ("Ada", "Bo", "Cy"), ("Smith", "Jones", "Lee"))


def planted(seed: int = 0, sentences: int = 300) -> tuple[cv.Dataset, np.ndarray]:
    """A chain with three sources of known emissions, and words that give the truth away mostly."""
    data, emissions = drawn(seed, sentences)
    rng = np.random.default_rng(seed)
    assert data.gold is not None
    shown = np.where(rng.random(len(data.gold)) < 0.9, data.gold, 0)
    words = StringArray.from_list(str(rng.choice(VOCABULARY[label])) for label in shown)
    return replace(data, tokens=words), emissions


def f1(model: cv.LabelModel, data: cv.Dataset) -> float:
    return cv.evaluate(model.predict(data), data).f1


@pytest.mark.parametrize("init", ["votes", "paper"])
def test_it_starts_exactly_from_the_initial_matrices(toy: cv.Dataset, init: str) -> None:
    model = CHMM(encoder="hashing", init=init)
    data = model.encode(toy)
    wanted, net = getattr(InitialMatrices, f"from_{init}")(data), model._build_network(data)
    model._initialize(net, data)
    batch = PackedDataset.from_dataset(data).batch()
    with torch.no_grad():
        moves = net.transition_logits(batch).softmax(-1).numpy()
        emissions = net.emission_logits(batch.tokens).softmax(-1).numpy()
    for found, expected in ((moves, wanted.transition), (emissions, wanted.emission)):
        np.testing.assert_allclose(expected.sum(axis=-1), 1)
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), atol=1e-5)


def test_a_fit_that_may_not_move_stays_at_the_start(toy: cv.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural_chain, "INITIAL_LEARNING_RATE", 0.0)
    monkeypatch.setattr(neural_chain, "WEIGHT_DECAY", 0.0)
    model = CHMM(**QUICK, learning_rate=0, emission_learning_rate=0, init="paper").fit(toy, toy)
    expected = paper_emission(toy)
    np.testing.assert_allclose(model.diagnostics().emission, expected, atol=1e-5)


def test_the_estimated_start_leaves_few_marks_to_be_false(toy: cv.Dataset) -> None:
    start = InitialMatrices.from_votes(toy)
    for k in range(len(toy.sources)):
        heard = toy.votes[:, k] >= 0
        marks = np.mean(toy.votes[heard, k] > 0)
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


def test_words_help_where_no_source_speaks() -> None:
    data, _ = planted(1)
    model = CHMM(encoder="hashing", learning_rate=1e-2, emission_learning_rate=1e-3, max_epochs=10).fit(data, data)
    rng = np.random.default_rng(0)
    votes = data.votes.copy()
    votes[rng.random(len(votes)) < 0.3] = -1
    fewer = data.with_sources(data.sources, votes, data.unmarked)
    labels = model.predict(fewer).labels
    unheard = (votes == -1).all(axis=1) & (data.gold > 0)
    assert np.mean(labels[unheard] > 0) > 0.5


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


def test_abstaining_is_no_evidence(toy: cv.Dataset) -> None:
    model = CHMM(**QUICK).fit(toy, toy)
    mute = toy.votes.copy()
    mute[:, toy.sources.index("poor")] = -1
    without_votes = toy.with_sources(toy.sources, mute, toy.unmarked)
    with_all, without = (model.predict(data).probabilities for data in (toy, without_votes))
    assert not np.array_equal(with_all, without)
    nobody = toy.with_sources(toy.sources, np.full_like(toy.votes, -1), toy.unmarked)
    guessed = model.predict(nobody).probabilities
    assert guessed is not None
    assert np.isfinite(guessed).all()


def test_a_single_source_and_tiny_data_work(toy: cv.Dataset) -> None:
    alone = toy.select_sources(["good"])
    assert len(CHMM(**QUICK).fit(alone).predict(alone).spans)
    one = cv.Dataset.from_spans(["PER"], [["Ada", "sang"]], {"a": [[(0, 1, "PER")]]})
    assert CHMM(**QUICK).fit(one).predict(one).tags() == [["B-PER", "O"]]


def test_silence_may_weigh_less(toy: cv.Dataset) -> None:
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
    assert table.columns == ("source", "truth", "O", "B-PER", "I-PER", "B-LOC", "I-LOC")
    assert len(table.rows) == len(toy.sources) * len(toy.tags)
    np.testing.assert_allclose([sum(row[2:]) for row in table.rows], 1, atol=1e-6)
    recall = {row["source"]: row["recall"] for row in model.reliability().to_records()}
    assert recall["good"] > recall["fair"] > recall["poor"]


def test_gold_of_valid_decides_only_if_allowed(toy: cv.Dataset) -> None:
    assert_gold_decides_only_if_allowed(CHMM, toy, "transition_layer.weight")


def test_a_second_fit_goes_on(toy: cv.Dataset) -> None:
    assert_second_fit_goes_on(CHMM, toy, "transition_layer.weight")


def test_a_killed_fit_goes_on_from_its_journal(toy: cv.Dataset, tmp_path: Path) -> None:
    assert_killed_fit_goes_on(CHMM, toy, tmp_path, step=5)


@pytest.mark.parametrize(
    "bad", [{"tau": -1}, {"emission_learning_rate": -1}, {"max_epochs": 0}, {"boundary_penalty": -1}, {"init": "gold"}]
)
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        CHMM(**bad)
