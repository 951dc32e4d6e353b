"""DWS as a model: initialization, settings, quality."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import convener as cv
from convener.models import neural_chain
from convener.models.dws import DWS
from convener.models.neural_chain import InitialMatrices
from convener.neural.batch import PackedDataset
from tests.models.networks import (
    QUICK,
    assert_killed_fit_resumes,
    assert_second_fit_continues,
    assert_setting_matters,
    assert_valid_gold_is_used_only_if_allowed,
)
from tests.models.test_chmm import f1, planted

pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
PLAIN = {
    "unmarked_weight": 1.0,
    "boundary_penalty": 0.0,
    "type_penalty": 0.0,
    "new_span_penalty": 0.0,
    "probability_scale": 1.0,
}


def test_initialization_reproduces_the_initial_matrices(toy: cv.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural_chain, "INITIAL_LEARNING_RATE", 0.0)
    monkeypatch.setattr(neural_chain, "WEIGHT_DECAY", 0.0)
    model = DWS(**QUICK, learning_rate=0)
    wanted = InitialMatrices.from_votes(toy)
    fitted = model.fit(toy, toy).fitted.params
    np.testing.assert_allclose(wanted.transition.sum(axis=1), 1)
    np.testing.assert_allclose(model.diagnostics().emission, wanted.emission, atol=1e-5)
    legal = toy.tags.legal_transitions
    np.testing.assert_allclose(np.exp(fitted["crf.transitions"])[legal], wanted.transition[legal], atol=1e-5)


def test_it_recovers_planted_emissions_and_beats_majority_vote() -> None:
    data, emissions = planted()
    model = DWS(encoder="hashing", learning_rate=5e-3, max_epochs=30, **PLAIN).fit(data, data)
    start, found = InitialMatrices.from_votes(data).emission, model.diagnostics().emission
    assert np.abs(found - emissions).mean() < 0.5 * np.abs(start - emissions).mean()
    assert f1(model, data) > f1(cv.MajorityVote().fit(data), data) + 0.2


def test_features_find_entities_where_all_sources_abstain() -> None:
    data, _ = planted(1)
    model = DWS(encoder="hashing", learning_rate=1e-2, max_epochs=10).fit(data, data)
    all_abstain = data.with_sources(data.sources, np.full_like(data.votes, -1), data.unmarked)
    labels = model.predict(all_abstain).labels
    assert data.gold is not None
    assert np.mean(labels[data.gold > 0] > 0) > 0.5
    assert np.mean(labels[data.gold == 0] > 0) < 0.2


@pytest.mark.parametrize(
    "setting",
    [
        {"learning_rate": 1e-2},
        {"context_window": 0},
        {"dropout": 0.0},
        {"unmarked_weight": 0.5},
        {"boundary_penalty": 1.0},
        {"type_penalty": 0.0},
        {"new_span_penalty": 3.0},
        {"probability_scale": 0.5},
        {"batch_size": 4},
        {"seed": 4},
    ],
    ids=str,
)
def test_every_setting_changes_the_result(toy: cv.Dataset, setting: dict[str, Any]) -> None:
    assert_setting_matters(DWS, toy, setting)


def test_the_validation_loss_is_computed_without_dropout(
    toy: cv.Dataset,
) -> None:
    def held_out_loss(dropout: float, spread: float) -> float:
        model = DWS(**QUICK, dropout=dropout)
        data = model.encode(toy)
        net = model._build_network(data)
        model._initialize(net, data)
        torch.manual_seed(0)
        torch.nn.init.normal_(net.scorer.linear.weight, std=spread)
        with torch.no_grad():
            return float(model._held_out_loss(net)(PackedDataset.from_dataset(data).batch()))

    assert held_out_loss(0.0, 0.3) == held_out_loss(0.5, 0.3)
    assert held_out_loss(0.0, 0.3) > held_out_loss(0.0, 0.0)  # random weights do not explain votes


def test_gold_of_valid_is_used_only_if_allowed(toy: cv.Dataset) -> None:
    assert_valid_gold_is_used_only_if_allowed(DWS, toy, "scorer.linear.weight")


def test_a_second_fit_continues_from_the_first(toy: cv.Dataset) -> None:
    assert_second_fit_continues(DWS, toy, "scorer.linear.weight")


def test_a_killed_fit_resumes_from_its_checkpoint(toy: cv.Dataset, tmp_path: Path) -> None:
    assert_killed_fit_resumes(DWS, toy, tmp_path, step=5)


@pytest.mark.parametrize(
    "bad",
    [{"learning_rate": -1}, {"unmarked_weight": 2}, {"dropout": 1.0}, {"max_epochs": 0}, {"boundary_penalty": -1}],
)
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        DWS(**bad)
