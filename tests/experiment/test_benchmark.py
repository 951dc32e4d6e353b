"""Trials and tables of a benchmark."""

from __future__ import annotations

import statistics

import pytest

import convener as cv
from convener.experiment.benchmark import Trial, make_trials, results_table


def result(f1: float, uses_gold: str = "none") -> dict[str, object]:
    figures = {"f1": f1, "precision": f1, "recall": f1}
    return {**figures, "fit_seconds": 1.0, "peak_memory_bytes": 5e6, "uses_gold": uses_gold}


def test_stochastic_models_run_with_all_seeds() -> None:
    found = make_trials(["chmm", "hmm", "chmm"], seeds=3)
    assert [item.name for item in found] == ["chmm-seed0", "chmm-seed1", "chmm-seed2", "hmm-seed0"]


def test_all_selects_every_installed_model() -> None:
    assert {"auto", "hmm", "sparse-chmm"} <= {item.model for item in make_trials(["all"], seeds=1)}


def test_table_shows_means_deviations_and_failures() -> None:
    figures = [0.5, 0.6, 0.8]
    results = {Trial(model="b", seed=n): result(f1) for n, f1 in enumerate(figures)}
    results[Trial(model="b", seed=3)] = {"error": "no gold"}
    results[Trial(model="a", seed=0)] = result(0.7)
    results[Trial(model="oracle", seed=0)] = result(0.99, "train")
    results[Trial(model="broken", seed=0)] = {"error": "too bad"}
    found = results_table(results, "title")
    rows = {row["model"]: row for row in found.to_records()}
    assert [row[0] for row in found.rows] == ["a", "b", "broken", "oracle"]
    assert rows["b"]["F1"] == pytest.approx(statistics.fmean(figures))
    assert rows["b"]["F1 std"] == pytest.approx(statistics.stdev(figures))
    assert rows["b"]["seeds"] == 3
    assert rows["a"]["F1 std"] is None
    assert rows["broken"]["uses gold"] == "failed"
    assert any("b-seed3 failed: no gold" in note for note in found.notes)


def test_table_without_gold() -> None:
    without_gold = result(0.5) | dict.fromkeys(("f1", "precision", "recall"))
    found = results_table({Trial(model="a", seed=0): without_gold}, "title")
    assert found.to_records()[0]["F1"] is None


def test_models_are_benchmarked_in_memory() -> None:
    corpus = cv.demo.load_corpus()
    table = cv.benchmark_models(corpus, ["majority-vote", "best-consensus", "snorkel"])
    rows = {row["model"]: row for row in table.to_records()}
    assert list(rows)[-1] == "best-consensus"
    assert rows["best-consensus"]["uses gold"] == "test"
    for name in ("majority-vote", "snorkel"):
        expected = cv.evaluate(cv.get_model(name)().fit(corpus.train).predict(corpus.test), corpus.test)
        assert rows[name]["F1"] == pytest.approx(expected.f1)
        assert rows[name]["uses gold"] == "none"
        assert rows[name]["seconds"] > 0
        assert rows[name]["memory MB"] is None


def test_a_benchmark_in_memory_lists_failures_and_needs_gold() -> None:
    corpus = cv.demo.load_corpus()
    train = corpus.train.without_gold()
    table = cv.benchmark_models(cv.Corpus(splits={"train": train, "test": corpus.test}), ["chmm-fe"], seeds=1)
    assert any("chmm-fe-seed0 failed" in note for note in table.notes)
    with pytest.raises(cv.DataError, match="'test' has no gold labels"):
        cv.benchmark_models(cv.Corpus(splits={"train": train, "test": train}), ["hmm"])
    with pytest.raises(cv.UnknownNameError, match="did you mean 'hmm'"):
        cv.benchmark_models(corpus, ["hmmm"])
