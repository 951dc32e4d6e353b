"""`convener benchmark`: several models, one table, one page; re-running resumes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import convener as cv
from tests.cli.conftest import Command

MODELS = "majority-vote,hmm,best-consensus"


@pytest.fixture(scope="module")
def benchmark(news: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished benchmark."""
    from convener.cli import main

    folder = tmp_path_factory.mktemp("benchmark") / "all"
    with pytest.raises(SystemExit) as stop:
        main(["benchmark", str(news), "-o", str(folder), "--model", MODELS, "--json"])
    assert stop.value.code == 0
    return folder


def test_scores_equal_those_of_evaluate(benchmark: Path, news: Path) -> None:
    rows = {row["model"]: row for row in json.loads((benchmark / "table.json").read_text())}
    data = cv.read(news, "test")
    for name in MODELS.split(","):
        scores = cv.evaluate(cv.load_model(benchmark / "runs" / f"{name}-seed0").predict(data), data)
        assert rows[name]["f1"] == pytest.approx(scores.f1)
        assert rows[name]["recall"] == pytest.approx(scores.recall)
        assert rows[name]["memory_mb"] > 50
    assert [row["uses_gold"] for row in rows.values()] == ["none", "none", "test"]


def test_the_page_shows_all_models(benchmark: Path) -> None:
    text = (benchmark / "report.html").read_text(encoding="utf-8")
    assert all(name in text for name in MODELS.split(","))


def test_existing_results_are_reused(benchmark: Path, news: Path, convener: Command) -> None:
    outcomes = sorted((benchmark / "results").iterdir())
    before = [path.stat().st_mtime_ns for path in outcomes]
    done = convener("benchmark", news, "-o", benchmark, "--model", MODELS)
    assert done.code == 0
    assert "hmm" in done.out
    assert [path.stat().st_mtime_ns for path in outcomes] == before


def test_another_split_is_evaluated_without_a_new_fit(benchmark: Path, news: Path, convener: Command) -> None:
    run = benchmark / "runs" / "hmm-seed0" / "run.json"
    before = run.stat().st_mtime_ns
    done = convener("benchmark", news, "-o", benchmark, "--model", "hmm", "--split", "valid", "--json")
    data = cv.read(news, "valid")
    expected = cv.evaluate(cv.load_model(run.parent).predict(data), data).f1
    assert done.json["models"][0]["f1"] == pytest.approx(expected)
    assert run.stat().st_mtime_ns == before


def test_a_failed_model_is_reported_and_the_others_are_shown(news: Path, tmp_path: Path, convener: Command) -> None:
    folder = tmp_path / "without-gold"
    corpus = cv.read_corpus(news)
    cv.write(corpus.train.without_gold(), folder / "train.jsonl")
    cv.write(corpus.test, folder / "test.jsonl")
    done = convener("benchmark", folder, "-o", tmp_path / "out", "--model", "chmm-fe,hmm")
    assert done.code == 0
    assert "chmm-fe-seed0 failed" in done.out
    assert "needs gold" in done.out


def test_no_fitted_model_is_an_error(news: Path, tmp_path: Path, convener: Command) -> None:
    done = convener("benchmark", news, "-o", tmp_path / "o", "--model", "hmm", "--source", "nobody")
    assert done.code == 2
    assert "nobody" in done.err


def test_an_unknown_model_is_refused_before_any_fit(news: Path, tmp_path: Path, convener: Command) -> None:
    done = convener("benchmark", news, "-o", tmp_path / "out", "--model", "hmm,hmmm")
    assert done.code == 2
    assert "did you mean 'hmm'" in done.err
    assert not (tmp_path / "out").exists()
