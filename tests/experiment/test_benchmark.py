"""Tables of many models."""

from __future__ import annotations

import statistics

import pytest

from convener.experiment.benchmark import Trial, make_trials, results_table


def outcome(f1: float, saw_gold: str = "no") -> dict[str, object]:
    figures = {"f1": f1, "precision": f1, "recall": f1}
    return {**figures, "seconds": 1.0, "memory": 5e6, "saw_gold": saw_gold}


def test_models_with_chance_in_them_have_all_seeds() -> None:
    found = make_trials(["chmm", "hmm", "chmm"], seeds=3)
    assert [item.name for item in found] == ["chmm-seed0", "chmm-seed1", "chmm-seed2", "hmm-seed0"]


def test_all_means_every_model_that_is_here() -> None:
    assert {"auto", "hmm", "sparse-chmm"} <= {item.model for item in make_trials(["all"], seeds=1)}


def test_means_spread_order_and_failures() -> None:
    figures = [0.5, 0.6, 0.8]
    outcomes = {Trial(model="b", seed=n): outcome(f1) for n, f1 in enumerate(figures)}
    outcomes[Trial(model="b", seed=3)] = {"failed": "no gold"}
    outcomes[Trial(model="a", seed=0)] = outcome(0.7)
    outcomes[Trial(model="oracle", seed=0)] = outcome(0.99, "all")
    outcomes[Trial(model="broken", seed=0)] = {"failed": "too bad"}
    found = results_table(outcomes, "title")
    rows = {row["model"]: row for row in found.to_records()}
    assert [row[0] for row in found.rows] == ["a", "b", "broken", "oracle"]
    assert rows["b"]["F1"] == pytest.approx(statistics.fmean(figures))
    assert rows["b"]["±"] == pytest.approx(statistics.stdev(figures))
    assert rows["b"]["seeds"] == 3
    assert rows["a"]["±"] is None
    assert rows["broken"]["saw gold"] == "failed"
    assert any("b-seed3 failed: no gold" in note for note in found.notes)


def test_without_gold_there_is_a_table_all_the_same() -> None:
    bare = outcome(0.5) | dict.fromkeys(("f1", "precision", "recall"))
    found = results_table({Trial(model="a", seed=0): bare}, "title")
    assert found.to_records()[0]["F1"] is None
