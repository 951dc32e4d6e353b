"""ConNet as a model: training votes, stages, settings, quality."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.models.connet import ConNet
from convener.models.majority_vote import initial_labels
from tests.models.networks import (
    QUICK,
    assert_killed_fit_resumes,
    assert_second_fit_continues,
    assert_setting_matters,
    assert_valid_gold_is_used_only_if_allowed,
)
from tests.models.test_chmm import f1, planted

pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")


def test_unmarked_tokens_are_abstentions_where_another_source_marks() -> None:
    words = [["Ada", "Lovelace", "sang", "here"]]
    votes = {"a": [[(0, 1, "PER")]], "b": [[(0, 2, "PER")]], "c": [[]]}
    data = cv.Dataset.from_spans(["PER"], words, votes)
    training_data = ConNet()._training_votes(data)
    assert training_data.votes.tolist() == [[1, 1, -1, 1], [-1, 2, -1, 2], [0, 0, 0, 0], [0, 0, 0, 0]]
    unchanged = ConNet(ignore_unmarked=False)._training_votes(data)
    assert unchanged.votes[:, :3].tolist() == data.votes.tolist()
    explicit = replace(data, unmarked=("outside",) * 3)
    assert ConNet()._training_votes(explicit).votes[:, :3].tolist() == data.votes.tolist()


def test_the_consensus_is_the_simple_vote(toy: cv.Dataset) -> None:
    np.testing.assert_array_equal(ConNet()._training_votes(toy).votes[:, -1], initial_labels(toy))


def test_there_is_no_consensus_where_all_votes_are_coarse() -> None:
    data = cv.Dataset.from_spans(
        ["PER", "LOC", "ENT"],
        [["Ada", "in", "Rome"]],
        {"a": [[(0, 1, "PER")]], "b": [[(0, 1, "ENT"), (2, 3, "ENT")]]},
    ).with_coarse({"ENT": "any"})
    training_data = ConNet()._training_votes(data)
    assert training_data.votes[:, -1].tolist() == [1, 0, -1]


def test_aggregation_trains_only_the_attention(toy: cv.Dataset) -> None:
    model = ConNet(**QUICK)
    data = model.encode(toy)
    stages = model._stages(model._build_network(data), model._pack(data))
    assert {stage.name: stage.trains for stage in stages} == {
        "decoupling": ("scorer", "crf", "source_matrices"),
        "aggregation": ("attention",),
    }


def test_without_use_votes_predictions_depend_on_features_only() -> None:
    data, _ = planted()
    model = ConNet(encoder="hashing", learning_rate=1e-2, use_votes=False).fit(data, data)
    all_abstain = data.with_sources(data.sources, np.full_like(data.votes, -1), data.unmarked)
    with_votes, without_votes = (model.predict(part) for part in (data, all_abstain))
    np.testing.assert_array_equal(with_votes.labels, without_votes.labels)
    assert cv.evaluate(without_votes, data).f1 > 0.5


def test_use_votes_raises_f1() -> None:
    data, _ = planted()
    without, with_votes = (
        f1(ConNet(encoder="hashing", learning_rate=1e-2, use_votes=used).fit(data, data), data)
        for used in (False, True)
    )
    assert with_votes > without
    assert with_votes > f1(cv.MajorityVote().fit(data), data)


def test_a_source_that_names_types_wrongly_gets_a_matrix_of_its_own() -> None:
    """One source marks every PER as LOC, which only its own matrix can represent."""
    rng = np.random.default_rng(0)
    words, right, wrong = [], [], []
    for _ in range(150):
        kinds = rng.integers(0, 3, 6)
        words.append([["the", "Ada", "Rome"][kind] for kind in kinds])
        spans = [(t, t + 1, "PER" if kind == 1 else "LOC") for t, kind in enumerate(kinds) if kind]
        right.append(spans)
        wrong.append([(a, b, "LOC") for a, b, _ in spans])
    votes = {"right": right, "also": right[:75] + [None] * 75, "wrong": wrong}
    data = cv.Dataset.from_spans(["PER", "LOC"], words, votes, gold=right)
    model = ConNet(encoder="hashing", learning_rate=2e-2, ignore_unmarked=False, use_votes=False).fit(data, data)
    assert f1(model, data) > 0.95
    views = model.fitted.params["source_matrices"]
    person, place = 1, 3
    names = [np.diff(view[person, [person, place]]).item() for view in views]
    assert len(names) == 3
    assert names[2] > max(names[:2]) + 0.1


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
        {"ignore_unmarked": False},
        {"use_votes": False},
        {"batch_size": 4},
        {"seed": 4},
    ],
    ids=str,
)
def test_every_setting_changes_the_result(toy: cv.Dataset, setting: dict[str, Any]) -> None:
    assert_setting_matters(ConNet, toy, setting)


def test_gold_of_valid_is_used_only_if_allowed(toy: cv.Dataset) -> None:
    assert_valid_gold_is_used_only_if_allowed(ConNet, toy, "scorer.linear.weight", use_votes=False)


def test_coarse_votes_are_resolved_to_types_they_allow() -> None:
    data = cv.Dataset.from_spans(
        ["PER", "LOC", "ENT"],
        [["Ada", "saw", "Rome"]] * 30,
        {
            "names": [[(0, 1, "PER")]] * 20 + [[]] * 10,
            "places": [[(2, 3, "LOC")]] * 20 + [[]] * 10,
            "any": [[(0, 1, "ENT"), (2, 3, "ENT")]] * 30,
        },
    ).with_coarse({"ENT": "any"})
    model = ConNet(encoder="hashing", learning_rate=2e-2).fit(data, data)
    assert model.predict(data).tags() == [["B-PER", "O", "B-LOC"]] * 30


@pytest.mark.parametrize("step", [5, 8], ids=["decoupling", "aggregation"])
def test_a_killed_fit_resumes_from_its_checkpoint(toy: cv.Dataset, tmp_path: Path, step: int) -> None:
    assert_killed_fit_resumes(ConNet, toy, tmp_path, step)


def test_a_second_fit_continues_from_the_first(toy: cv.Dataset) -> None:
    assert_second_fit_continues(ConNet, toy, "scorer.linear.weight")


@pytest.mark.parametrize("bad", [{"unmarked_weight": -1}, {"tau": 1.0}, {"max_epochs": 0}, {"probability_scale": 2}])
def test_bad_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(cv.ConfigError, match=next(iter(bad))):
        ConNet(**bad)
