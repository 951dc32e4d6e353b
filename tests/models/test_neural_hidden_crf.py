"""Neural-Hidden-CRF as a model: its initialization, its stages, its settings, and what it learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import convener as cv
from convener.models.connet import consensus_labels
from convener.models.neural_chain import InitialMatrices
from convener.models.neural_hidden_crf import NeuralHiddenCRF
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


def test_potentials_start_as_scaled_rates_of_the_votes(toy: cv.Dataset) -> None:
    model = NeuralHiddenCRF(**QUICK, rho=3.0)
    data = model.encode(toy)
    net = model._build_network(data)
    model._initialize(net, data)
    expected = 3 * InitialMatrices.from_votes(toy).emission
    np.testing.assert_allclose(net.emission_logits.detach(), expected, atol=1e-5)


def test_the_first_stage_trains_the_text_part_on_a_simple_vote(toy: cv.Dataset) -> None:
    model = NeuralHiddenCRF(**QUICK)
    data = model.encode(toy)
    text, joint = model._stages(model._build_network(data), model._pack(data))
    assert text.trains == ("scorer", "crf")
    assert not text.early_stopping
    assert joint.trains == ("emission_logits", "scorer", "crf")
    assert isinstance(text.data, PackedDataset)
    assert isinstance(joint.data, PackedDataset)
    order = np.random.default_rng(model.config.seed).permutation(len(toy))
    labels = np.concatenate([consensus_labels(toy)[slice(*toy.offsets[m : m + 2])] for m in order])
    np.testing.assert_array_equal(text.data.votes, labels[:, None])
    np.testing.assert_array_equal(joint.data.votes, toy.take(order).votes)
    np.testing.assert_array_equal(joint.data.log_evidence_offset, model.config.offset(toy.take(order)))


def test_it_recovers_planted_emissions_and_beats_majority_vote() -> None:
    data, emissions = planted()
    model = NeuralHiddenCRF(encoder="hashing", learning_rate=5e-3, max_epochs=30, unmarked_weight=1.0)
    initial = model.fit(data, data).diagnostics().initial_emission
    found = model.diagnostics().emission
    assert initial is not None
    assert found is not None
    assert np.abs(found - emissions).mean() < 0.5 * np.abs(initial - emissions).mean()
    assert f1(model, data) > f1(cv.MajorityVote().fit(data), data) + 0.2


def test_the_text_part_alone_ignores_votes() -> None:
    data, _ = planted()
    model = NeuralHiddenCRF(encoder="hashing", learning_rate=1e-2, use_votes=False).fit(data, data)
    without_votes = data.with_sources(data.sources, np.full_like(data.votes, -1), data.unmarked)
    np.testing.assert_array_equal(model.predict(data).labels, model.predict(without_votes).labels)
    assert f1(model, data) > 0.5


def test_votes_improve_the_prediction() -> None:
    data, _ = planted()
    without, with_votes = (
        f1(NeuralHiddenCRF(encoder="hashing", learning_rate=1e-2, use_votes=used).fit(data, data), data)
        for used in (False, True)
    )
    assert with_votes > without


def test_sentences_without_votes_have_likelihood_one(toy: cv.Dataset) -> None:
    """Votes that are not given are summed out."""
    model = NeuralHiddenCRF(**QUICK)
    data = model.encode(toy.with_sources(toy.sources, np.full_like(toy.votes, -1), toy.unmarked))
    net = model._build_network(data)
    torch.manual_seed(0)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    loss = model._held_out_loss(net)(PackedDataset.from_dataset(data).batch())
    torch.testing.assert_close(loss, torch.zeros_like(loss), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "setting",
    [
        {"rho": 2.0},
        {"source_learning_rate": 0.0},
        {"use_votes": False},
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
    assert_setting_matters(NeuralHiddenCRF, toy, setting)


def test_gold_of_valid_decides_only_if_allowed(toy: cv.Dataset) -> None:
    assert_valid_gold_is_used_only_if_allowed(NeuralHiddenCRF, toy, "scorer.linear.weight", use_votes=False)


def test_a_second_fit_continues(toy: cv.Dataset) -> None:
    assert_second_fit_continues(NeuralHiddenCRF, toy, "emission_logits")


@pytest.mark.parametrize("step", [5, 8], ids=["text", "joint"])
def test_a_killed_fit_resumes_from_its_checkpoint(toy: cv.Dataset, tmp_path: Path, step: int) -> None:
    assert_killed_fit_resumes(NeuralHiddenCRF, toy, tmp_path, step)


@pytest.mark.parametrize("bad", [{"rho": -1}, {"source_learning_rate": -1}, {"tau": 1.0}, {"dropout": 1.0}])
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        NeuralHiddenCRF(**bad)
