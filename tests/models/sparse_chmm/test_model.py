"""Sparse-CHMM as a model: initialization, stages, settings, quality."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.models import neural_chain
from convener.models.sparse_chmm import training
from convener.models.sparse_chmm.model import SparseCHMM
from convener.models.sparse_chmm.training import StageBuilder
from convener.neural.training import Stage
from tests.models.kills import killed_at

pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
QUICK = {"encoder": "hashing", "max_epochs": 2}
PLAIN = {"unmarked_weight": 1.0, "boundary_penalty": 0.0}


def stages_of_fit(monkeypatch: pytest.MonkeyPatch, toy: cv.Dataset, **settings: object) -> list[Stage]:
    built: list[Stage] = []
    build = StageBuilder.build
    monkeypatch.setattr(StageBuilder, "build", lambda self: built.extend(build(self)) or built)
    SparseCHMM(**(QUICK | settings)).fit(toy, toy)
    return built


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ("1", ["transition and reliability"]),
        ("1-2", ["transition and reliability", "addon prior, start", "addon prior"]),
        ("1-3", ["transition and reliability", "transition"]),
        ("1-2-3", ["transition and reliability", "addon prior, start", "addon prior", "transition"]),
        ("1-23", ["transition and reliability", "addon prior, start", "addon prior"]),
    ],
)
def test_stages_are_a_setting(
    monkeypatch: pytest.MonkeyPatch, toy: cv.Dataset, stages: str, expected: list[str]
) -> None:
    built = stages_of_fit(monkeypatch, toy, stages=stages)
    assert [stage.name for stage in built] == expected
    if "addon prior" in expected:
        trained = built[2].trains
        assert ("transition_layer" in trained) == (stages == "1-23")
        assert "reliability_layer" not in trained


def test_pretraining_by_squared_error_keeps_its_last_weights(monkeypatch: pytest.MonkeyPatch, toy: cv.Dataset) -> None:
    built = stages_of_fit(monkeypatch, toy, init="pretrained")
    assert [stage.name for stage in built if not stage.early_stopping] == ["pre-training", "addon prior, start"]


def test_pretraining_is_not_undone_by_the_validation_score(monkeypatch: pytest.MonkeyPatch, toy: cv.Dataset) -> None:
    scores = iter(range(0, -1000, -1))  # every epoch is worse than the one before
    monkeypatch.setattr(SparseCHMM, "_validation_score", lambda *_: lambda: float(next(scores)))
    model = SparseCHMM(**QUICK, init="pretrained", stages="1-2").fit(toy, toy)
    for layer in ("transition_layer.bias", "reliability_layer.bias", "addon_layer.weight"):
        assert model.fitted.params[layer].any()


def test_a_refit_starts_stage_1_without_addon_prior(monkeypatch: pytest.MonkeyPatch, toy: cv.Dataset) -> None:
    model = SparseCHMM(**QUICK, g_r=(0.5, 0.1)).fit(toy, toy)
    num_labels = len(toy.tags)
    assert model.fitted.params["wxor"].any()
    assert model.fitted.params["g_r"] == pytest.approx(0.1 / num_labels)
    monkeypatch.setattr(training, "STAGE_PLANS", {"1-2-3": ("transition and reliability",)})
    refit = model.fit(toy, toy).fitted.params
    assert not refit["wxor"].any()
    assert refit["g_r"] == pytest.approx(0.5 / num_labels)


def test_the_initialization_is_exact_without_softmax(toy: cv.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "INITIAL_LEARNING_RATE", 0.0)
    monkeypatch.setattr(neural_chain, "WEIGHT_DECAY", 0.0)
    model = SparseCHMM(encoder="hashing", max_epochs=1, learning_rate=0, stages="1", init="paper", softmax=False)
    model.fit(toy, toy)
    emissions = model.diagnostics().emission
    np.testing.assert_allclose(emissions[:, 0, 0], 0.9, atol=1e-4)
    np.testing.assert_allclose(np.einsum("kii->ki", emissions)[:, 1:], 0.7, atol=1e-4)


def test_wxor_scores_are_zero_without_stage_2_and_nonzero_with_it(toy: cv.Dataset) -> None:
    without = SparseCHMM(**QUICK, stages="1-3").fit(toy, toy).fitted.params["wxor"]
    with_stage_2 = SparseCHMM(**QUICK).fit(toy, toy).fitted.params["wxor"]
    assert not without.any()
    assert with_stage_2.any()
    assert not with_stage_2[:, 0].any()
    assert not with_stage_2[:, :, 0].any()


ABLATIONS = [
    {"expansion": False},
    {"h_n": 1.0, "h_s": 1.0},
    {"softmax": False},
    {"dirichlet": False},
    {"stages": "1-3"},
    {"stages": "1-23"},
    {"use_mv": True},
    {"tau": 0.0},
    {"init": "paper"},
    {"init": "pretrained"},
    {"wxor_split": "train"},
    {"initial_state": "uniform"},
    {"g_r": (0.05, 0.5)},
    {"unmarked_weight": 1.0},
    {"boundary_penalty": 0.0},
]


@pytest.mark.parametrize("setting", ABLATIONS, ids=str)
def test_every_ablation_is_one_setting_and_changes_the_result(toy: cv.Dataset, setting: dict[str, object]) -> None:
    default = SparseCHMM(**QUICK).fit(toy, toy[:15]).predict(toy)
    changed = SparseCHMM(**(QUICK | setting)).fit(toy, toy[:15]).predict(toy)
    assert changed.probabilities is not None
    assert default.probabilities is not None
    assert np.isfinite(changed.probabilities).all()
    assert not np.array_equal(default.probabilities, changed.probabilities)


def test_a_single_source_and_a_single_type_work(toy: cv.Dataset) -> None:
    single = toy.select_sources(["good"])
    labels = SparseCHMM(**QUICK).fit(single, single).predict(single)
    assert len(labels.spans)
    people = cv.Dataset.from_spans(["PER"], [["Ada", "sang"]] * 12, {"a": [[(0, 1, "PER")]] * 12, "b": [[]] * 12})
    assert len(SparseCHMM(**QUICK).fit(people).predict(people).spans) == 12


def test_it_is_better_than_each_of_its_sources() -> None:
    corpus = cv.demo.load_corpus()
    model = SparseCHMM(encoder="hashing", max_epochs=15).fit(corpus.train, corpus.valid)
    result = cv.evaluate(model.predict(corpus.test), corpus.test)
    sources = [
        cv.evaluate(cv.get_model("majority-vote")().fit(one).predict(one), corpus.test).f1
        for one in (corpus.test.select_sources([name]) for name in corpus.test.sources)
    ]
    assert result.f1 > max(sources)


def test_reliability_scores_and_emissions_are_available(toy: cv.Dataset) -> None:
    model = SparseCHMM(**QUICK).fit(toy, toy)
    scores = model.reliability_scores(toy)
    assert scores.shape == (len(toy), len(toy.sources), len(toy.tags))
    np.testing.assert_allclose(scores[:, :, 1], scores[:, :, 2])  # by entity type
    table = model.emission_table()
    assert len(table.rows) == len(toy.sources) * len(toy.tags)
    sums = [sum(row[2:]) for row in table.rows]
    np.testing.assert_allclose(sums, 1, atol=1e-5)


def test_gold_of_valid_matters_only_if_allowed(toy: cv.Dataset) -> None:
    settings = {"encoder": "hashing", "max_epochs": 6, "learning_rate": 0.05, "stages": "1"}
    late = SparseCHMM(**settings, patience=6).fit(toy, toy).predict(toy).labels
    all_o = np.zeros_like(toy.gold)

    def probabilities(gold: np.ndarray, *, use_gold: bool) -> bytes:
        valid = toy.with_gold(gold)
        model = SparseCHMM(**settings).fit(toy, valid, use_valid_gold=use_gold)
        result = model.predict(toy).probabilities
        assert result is not None
        return result.tobytes()

    assert probabilities(late, use_gold=False) == probabilities(all_o, use_gold=False)
    assert probabilities(late, use_gold=True) != probabilities(all_o, use_gold=True)


def test_a_killed_fit_resumes_from_its_checkpoint(toy: cv.Dataset, tmp_path: Path) -> None:
    uninterrupted = SparseCHMM(**QUICK).fit(toy, toy).predict(toy).probabilities
    with killed_at(4):
        SparseCHMM(**QUICK).fit(toy, toy, checkpoint_dir=tmp_path)
    assert any(tmp_path.iterdir())
    resumed = SparseCHMM(**QUICK).fit(toy, toy, checkpoint_dir=tmp_path).predict(toy).probabilities
    assert uninterrupted is not None
    assert resumed is not None
    assert uninterrupted.tobytes() == resumed.tobytes()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "bad", [{"g_r": 0}, {"g_r": (0.1, 2)}, {"g_r": (0.1,)}, {"nu_base": 0}, {"g_n": 0.5}, {"stages": "3"}]
)
def test_invalid_settings_raise_an_error(bad: dict[str, object]) -> None:
    with pytest.raises(cv.ConfigError):
        SparseCHMM(**bad)


def test_the_published_method_is_one_preset(toy: cv.Dataset) -> None:
    model = SparseCHMM.paper("LaptopReview", encoder="hashing", max_epochs=2)
    config = model.config
    assert (config.init, config.context_window, config.new_span_penalty, config.use_mv) == ("pretrained", 0, 0.0, True)
    assert (config.g_r, config.h_n, config.max_epochs) == (0.05, 0.8, 2)
    stages = model.fit(toy, toy, use_valid_gold=True).diagnostics().learning_curves
    assert [name.partition(" ")[2] for name in stages] == [
        "pre-training",
        "transition and reliability",
        "addon prior, start",
        "addon prior",
        "transition",
    ]


def test_scores_are_by_label_if_there_is_one_type(toy: cv.Dataset) -> None:
    people = cv.Dataset.from_spans(["PER"], [["Ada", "sang"]], {"a": [[(0, 1, "PER")]]})
    assert training.num_scores(people) == 3
    assert training.num_scores(toy) == 1 + len(toy.tags.types)
