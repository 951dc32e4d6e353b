"""fit, predict, evaluate, models."""

from __future__ import annotations

from pathlib import Path

import pytest

import convener as cv

from .conftest import Command


@pytest.fixture
def fitted(convener: Command, news: Path, tmp_path: Path) -> Path:
    assert convener("fit", news, "-o", tmp_path / "run").code == 0
    return tmp_path / "run"


def test_fit_writes_a_run_with_its_resolved_config(
    convener: Command, news: Path, tmp_path: Path
) -> None:
    done = convener(
        "fit", news, "--seed", 7, "--set", "scheme=span", "-o", tmp_path / "r", "--json"
    )
    assert done.code == 0
    assert done.json["model"] == "majority-vote"
    assert done.json["used_valid_gold"] is False
    config = (tmp_path / "r" / "config.toml").read_text()
    assert "seed = 7" in config
    assert 'scheme = "span"' in config
    again = convener("fit", news, "--config", tmp_path / "r/config.toml", "-o", tmp_path / "s")
    assert again.code == 0
    assert (tmp_path / "s" / "config.toml").read_text() == config


def test_fit_predict_evaluate_agree(
    convener: Command, news: Path, fitted: Path, tmp_path: Path
) -> None:
    direct = convener("evaluate", fitted, news, "--split", "test", "--json").json
    assert {"precision", "recall", "f1", "mode", "per_type", "majority_vote"} <= set(direct)
    assert direct["f1"] == direct["majority_vote"]["f1"]
    for name in ("l.jsonl", "l.conll", "l.json", "l.csv", "l.parquet", "l.npz", "l.spacy", "l.hf"):
        file = tmp_path / name
        assert convener("predict", fitted, news, "--split", "test", "-o", file).code == 0, name
        read = convener("evaluate", file, news, "--split", "test", "--json")
        assert read.code == 0, read.err
        assert read.json["f1"] == pytest.approx(direct["f1"]), name


def test_evaluate_prints_majority_vote_beside(convener: Command, news: Path, fitted: Path) -> None:
    said = convener("evaluate", fitted, news, "--split", "test", "--bootstrap", 50).out
    assert "majority vote" in said
    assert "lenient" in said


def test_without_gold_the_figures_are_null(convener: Command, fitted: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    cv.write(cv.demo.corpus().test.without_gold(), plain)
    result = convener("evaluate", fitted, plain, "--json")
    assert result.code == 0
    assert result.json["f1"] is None
    assert result.json["majority_vote"] is None


def test_a_missing_train_names_the_option(convener: Command, news: Path, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    corpus = cv.read(news)
    cv.write(cv.Corpus(splits={"valid": corpus.valid}), folder, format="jsonl")
    refused = convener("fit", folder, "-o", tmp_path / "run")
    assert refused.code == 2
    assert "--train-from valid:0.8" in refused.err
    assert not (tmp_path / "run").exists()
    assert convener("fit", folder, "--train-from", "valid:0.8", "-o", tmp_path / "run").code == 0


def test_an_existing_run_is_kept(convener: Command, news: Path, fitted: Path) -> None:
    refused = convener("fit", news, "-o", fitted)
    assert refused.code == 2
    assert "--overwrite" in refused.err
    assert convener("fit", news, "-o", fitted, "--resume").code == 0
    assert convener("fit", news, "-o", fitted, "--overwrite").code == 0


def test_the_data_may_be_one_file(convener: Command, news: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    cv.write(cv.read(news, "train"), file)
    assert convener("fit", file, "-o", tmp_path / "run").code == 0
    assert convener("evaluate", tmp_path / "run", file).code == 0
    refused = convener("evaluate", tmp_path / "run", file, "--split", "test")
    assert refused.code == 2
    assert "not a folder of splits" in refused.err


def test_chosen_sources_are_remembered(convener: Command, news: Path, tmp_path: Path) -> None:
    words = ("--sources", "place_list", "--sources", "acronym")
    done = convener("fit", news, *words, "-o", tmp_path / "run", "--json")
    assert done.json["sources"] == ["place_list", "acronym"]
    assert convener("evaluate", tmp_path / "run", news, "--split", "test").code == 0


def test_models_lists_what_each_needs(convener: Command) -> None:
    listed = {row["name"]: row for row in convener("models", "--json").json["models"]}
    assert set(listed) == set(cv.available())
    assert listed["best-consensus"]["gold"] is True
    assert all(row["summary"] for row in listed.values())
    assert "majority-vote" in convener("models").out
