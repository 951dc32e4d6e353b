"""Sparse-CHMM as a model: its start, its stages, its settings, and what it finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import convener as cv
from convener.models.sparse_chmm.model import SparseCHMM
from convener.models.sparse_chmm.training import StageBuilder
from convener.neural.training import Stage
from tests.models.kills import killed_at

pytestmark = pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
QUICK = {"encoder": "hashing", "epochs": 2}
PLAIN = {"silence": 1.0, "edge": 0.0}


def names(monkeypatch: pytest.MonkeyPatch, toy: cv.Dataset, **settings: object) -> list[Stage]:
    kept: list[Stage] = []
    real = StageBuilder.build
    monkeypatch.setattr(StageBuilder, "build", lambda self: kept.extend(real(self)) or kept)
    SparseCHMM(**(QUICK | settings)).fit(toy, toy)
    return kept


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ("1", ["reliability"]),
        ("1-2", ["reliability", "addon prior, start", "addon prior"]),
        ("1-3", ["reliability", "transition"]),
        ("1-2-3", ["reliability", "addon prior, start", "addon prior", "transition"]),
        ("1-23", ["reliability", "addon prior, start", "addon prior"]),
    ],
)
def test_stages_are_a_setting(
    monkeypatch: pytest.MonkeyPatch, toy: cv.Dataset, stages: str, expected: list[str]
) -> None:
    found = names(monkeypatch, toy, stages=stages)
    assert [stage.name for stage in found] == expected
    if "addon prior" in expected:
        trained = found[2].trains
        assert ("transition_layer" in trained) == (stages == "1-23")
        assert "reliability_layer" not in trained


def test_the_start_is_exact_where_it_can_be(toy: cv.Dataset) -> None:
    model = SparseCHMM(encoder="hashing", epochs=1, lr=0, initial_lr=0, stages="1", start="paper",
                       softmax=False, decay=0)  # fmt: skip
    model.fit(toy, toy)
    emissions = model.fitted.params["emissions"]
    np.testing.assert_allclose(emissions[:, 0, 0], 0.9, atol=1e-4)
    np.testing.assert_allclose(np.einsum("kii->ki", emissions)[:, 1:], 0.7, atol=1e-4)


def test_without_addon_the_table_is_zero_and_with_it_is_not(toy: cv.Dataset) -> None:
    without = SparseCHMM(**QUICK, stages="1-3").fit(toy, toy).fitted.params["wxor"]
    with_it = SparseCHMM(**QUICK).fit(toy, toy).fitted.params["wxor"]
    assert not without.any()
    assert with_it.any()
    assert not with_it[:, 0].any()
    assert not with_it[:, :, 0].any()


ABLATIONS = [
    {"naive": True},
    {"steepness": 1.0, "root": 1.0},
    {"softmax": False},
    {"dirichlet": False},
    {"stages": "1-3"},
    {"stages": "1-23"},
    {"level": "label"},
    {"use_mv": True},
    {"tau": 0.0},
    {"start": "paper"},
    {"pretraining": True},
    {"published_wxor": True},
    {"wxor": "train"},
    {"legal": False},
    {"uniform_start": True},
    {"later_turn": 0.5},
    {"silence": 1.0},
    {"edge": 0.0},
]


@pytest.mark.parametrize("setting", ABLATIONS, ids=str)
def test_every_ablation_is_one_setting_and_changes_the_result(toy: cv.Dataset, setting: dict[str, object]) -> None:
    usual = SparseCHMM(**QUICK).fit(toy, toy[:15]).predict(toy)
    other = SparseCHMM(**(QUICK | setting)).fit(toy, toy[:15]).predict(toy)
    assert other.probabilities is not None
    assert usual.probabilities is not None
    assert np.isfinite(other.probabilities).all()
    assert not np.array_equal(usual.probabilities, other.probabilities)


def test_a_single_source_and_a_single_type_work(toy: cv.Dataset) -> None:
    alone = toy.select_sources(["good"])
    labels = SparseCHMM(**QUICK).fit(alone, alone).predict(alone)
    assert len(labels.spans)
    people = cv.Dataset.from_spans(["PER"], [["Ada", "sang"]] * 12, {"a": [[(0, 1, "PER")]] * 12, "b": [[]] * 12})
    assert len(SparseCHMM(**QUICK).fit(people).predict(people).spans) == 12


def test_it_is_better_than_the_poor_sources_it_learns_from() -> None:
    corpus = cv.demo.load_corpus()
    model = SparseCHMM(encoder="hashing", epochs=15).fit(corpus.train, corpus.valid)
    result = cv.evaluate(model.predict(corpus.test), corpus.test)
    sources = [
        cv.evaluate(cv.get_model("majority-vote")().fit(one).predict(one), corpus.test).f1
        for one in (corpus.test.select_sources([name]) for name in corpus.test.sources)
    ]
    assert result.f1 > max(sources)


def test_scores_and_emissions_can_be_asked_for(toy: cv.Dataset) -> None:
    model = SparseCHMM(**QUICK).fit(toy, toy)
    scores = model.reliability_scores(toy)
    assert scores.shape == (len(toy), len(toy.sources), len(toy.tags))
    np.testing.assert_allclose(scores[:, :, 1], scores[:, :, 2])  # by entity type
    table = model.emission_table()
    assert len(table.rows) == len(toy.sources) * len(toy.tags)
    sums = [sum(row[2:]) for row in table.rows]
    np.testing.assert_allclose(sums, 1, atol=1e-5)


def test_gold_of_valid_decides_only_if_allowed(toy: cv.Dataset) -> None:
    how = {"encoder": "hashing", "epochs": 6, "lr": 0.05, "stages": "1"}
    late = SparseCHMM(**how, patience=6).fit(toy, toy).predict(toy).labels
    nothing = np.zeros_like(toy.gold)

    def probabilities(gold: np.ndarray, *, use_gold: bool) -> bytes:
        valid = toy.with_gold(gold)
        model = SparseCHMM(**how).fit(toy, valid, use_valid_gold=use_gold)
        found = model.predict(toy).probabilities
        assert found is not None
        return found.tobytes()

    assert probabilities(late, use_gold=False) == probabilities(nothing, use_gold=False)
    assert probabilities(late, use_gold=True) != probabilities(nothing, use_gold=True)


def test_a_killed_fit_goes_on_from_its_journal(toy: cv.Dataset, tmp_path: Path) -> None:
    straight = SparseCHMM(**QUICK).fit(toy, toy).predict(toy).probabilities
    with killed_at(4):
        SparseCHMM(**QUICK).fit(toy, toy, checkpoint_dir=tmp_path)
    assert any(tmp_path.iterdir())
    again = SparseCHMM(**QUICK).fit(toy, toy, checkpoint_dir=tmp_path).predict(toy).probabilities
    assert straight is not None
    assert again is not None
    assert straight.tobytes() == again.tobytes()
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [{"turn": 0}, {"base": 0}, {"precision": 2}, {"stages": "3"}])
def test_bad_settings_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(cv.ConfigError):
        SparseCHMM(**bad)
