"""fit, predict, evaluate, model list, model info."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest
from seqeval.metrics import f1_score
from seqeval.scheme import IOB2

import convener as cv

from .conftest import Command

VOTE = ("--model", "majority-vote")


@pytest.fixture
def fitted(convener: Command, news: Path, tmp_path: Path) -> Path:
    done = convener("fit", news, *VOTE, "-o", tmp_path / "run")
    assert done.code == 0
    return tmp_path / "run"


def test_fit_writes_a_run_with_its_resolved_config(convener: Command, news: Path, tmp_path: Path) -> None:
    how = (*VOTE, "--seed", 7, "--set", "scheme=span")
    done = convener("fit", news, *how, "-o", tmp_path / "r", "--json")
    assert done.code == 0
    assert done.json["model"] == "majority-vote"
    assert done.json["uses_gold"] == "none"
    config = (tmp_path / "r" / "config.toml").read_text()
    assert "seed = 7" in config
    assert 'scheme = "span"' in config
    again = convener("fit", news, "--config", tmp_path / "r/config.toml", "-o", tmp_path / "s")
    assert again.code == 0
    assert (tmp_path / "s" / "config.toml").read_text() == config


def test_fit_selects_a_model_and_explains_it(convener: Command, news: Path, tmp_path: Path) -> None:
    done = convener("fit", news, "--encoder", "hashing", "-o", tmp_path / "r")
    assert done.code == 0
    assert "selected " in done.err
    assert "over a simple vote" in done.err
    info = json.loads((tmp_path / "r" / "run.json").read_text())
    assert info["model"] == "auto"
    assert len(info["explanation"]) == 3
    assert convener("evaluate", tmp_path / "r", news, "--split", "test", "--json").json["f1"] > 0.5


def test_fit_predict_evaluate_agree(convener: Command, news: Path, fitted: Path, tmp_path: Path) -> None:
    direct = convener("evaluate", fitted, news, "--split", "test", "--json").json
    assert {"precision", "recall", "f1", "mode", "per_type", "majority_vote"} <= set(direct)
    assert direct["f1"] == direct["majority_vote"]["f1"]
    for name in ("l.jsonl", "l.conll", "l.json", "l.csv", "l.parquet", "l.npz", "l.spacy", "l.hf"):
        file = tmp_path / name
        form = ("--metadata",) if name == "l.csv" else ()  # a spreadsheet has no texts to read back
        assert convener("predict", fitted, news, "--split", "test", "-o", file, *form).code == 0, name
        read = convener("evaluate", file, news, "--split", "test", "--json")
        assert read.code == 0, read.err
        assert read.json["f1"] == pytest.approx(direct["f1"]), name


def test_predict_writes_plain_files(convener: Command, news: Path, fitted: Path, tmp_path: Path) -> None:
    def written(name: str, *options: str) -> str:
        done = convener("predict", fitted, news, "--split", "test", "-o", tmp_path / name, *options)
        assert done.code == 0, done.err
        return (tmp_path / name).read_text(encoding="utf-8")

    assert written("l.conll").splitlines()[0] == "Northwind B-ORG"
    assert written("s.conll", "--scores").splitlines()[0].split(" ")[::2] == ["Northwind", "B-ORG"]
    assert written("m.conll", "--metadata").startswith("# convener")
    assert written("l.csv").splitlines()[0].endswith("start,end,text,label,score")
    refused = convener("evaluate", tmp_path / "l.csv", news, "--split", "test")
    assert (refused.code, "spreadsheet of spans" in refused.err) == (2, True)


def test_probabilities_can_be_left_out(convener: Command, news: Path, fitted: Path, tmp_path: Path) -> None:
    small, large = tmp_path / "s.jsonl", tmp_path / "l.jsonl"
    convener("predict", fitted, news, "--split", "test", "-o", large)
    assert convener("predict", fitted, news, "--split", "test", "-o", small, "--no-probabilities").code == 0
    assert small.stat().st_size < 0.7 * large.stat().st_size
    left, right = cv.read_predictions(small), cv.read_predictions(large)
    assert left.probabilities is None
    assert left.labels.tolist() == right.labels.tolist()
    assert left.spans.score is not None
    assert right.spans.score is not None
    assert left.spans.score.tolist() == right.spans.score.tolist()
    done = convener("convert", large, tmp_path / "c.jsonl", "--no-probabilities")
    assert done.code == 0, done.err
    assert (tmp_path / "c.jsonl").stat().st_size == small.stat().st_size


def test_evaluate_prints_majority_vote(convener: Command, news: Path, fitted: Path) -> None:
    output = convener("evaluate", fitted, news, "--split", "test", "--bootstrap-samples", 50).out
    assert "majority vote" in output
    assert "conlleval" in output


def test_without_gold_the_scores_are_null(convener: Command, fitted: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    cv.write(cv.demo.load_corpus().test.without_gold(), plain)
    result = convener("evaluate", fitted, plain, "--json")
    assert result.code == 0
    assert result.json["f1"] is None
    assert result.json["majority_vote"] is None


def test_a_missing_train_names_the_option(convener: Command, news: Path, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    corpus = cv.read_corpus(news)
    cv.write(cv.Corpus(splits={"valid": corpus.valid}), folder, format="jsonl")
    refused = convener("fit", folder, *VOTE, "-o", tmp_path / "run")
    assert refused.code == 2
    assert "--train-split valid:0.8" in refused.err
    assert not (tmp_path / "run").exists()
    assert convener("fit", folder, *VOTE, "--train-split", "valid:0.8", "-o", tmp_path / "run").code == 0


def test_an_existing_run_is_kept(convener: Command, news: Path, fitted: Path) -> None:
    refused = convener("fit", news, *VOTE, "-o", fitted)
    assert refused.code == 2
    assert "--overwrite" in refused.err
    assert convener("fit", news, *VOTE, "-o", fitted, "--resume").code == 0
    assert convener("fit", news, *VOTE, "-o", fitted, "--overwrite").code == 0


def test_the_data_may_be_one_file(convener: Command, news: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.jsonl"
    cv.write(cv.read(news, "train"), file)
    assert convener("fit", file, *VOTE, "-o", tmp_path / "run").code == 0
    assert convener("evaluate", tmp_path / "run", file).code == 0
    refused = convener("evaluate", tmp_path / "run", file, "--split", "test")
    assert refused.code == 2
    assert "is a single file" in refused.err


def test_the_run_stores_selected_sources(convener: Command, news: Path, tmp_path: Path) -> None:
    arguments = ("--source", "place_list,acronym")
    done = convener("fit", news, *arguments, "-o", tmp_path / "run", "--json")
    assert done.json["sources"] == ["place_list", "acronym"]
    assert convener("evaluate", tmp_path / "run", news, "--split", "test").code == 0


def test_models_lists_what_each_needs(convener: Command) -> None:
    listed = {row["model"]: row for row in convener("model", "list", "--json").json["models"]}
    assert set(listed) == set(cv.list_models())
    assert listed["best-consensus"]["needs_gold"] is True
    assert all(row["description"] for row in listed.values())
    assert "majority-vote" in convener("model", "list").out


def test_train_from_is_for_data_without_train(convener: Command, news: Path, tmp_path: Path) -> None:
    refused = convener("fit", news, *VOTE, "-o", tmp_path / "run", "--train-split", "train:0.8")
    assert refused.code == 2
    assert "has a train split" in refused.err


def test_strict_mode_drops_illegal_tags_of_a_file(convener: Command, tmp_path: Path) -> None:
    (tmp_path / "p.conll").write_text("Ada\tI-PER\nmet\tO\nBob\tB-PER\nJr\tB-PER\n")
    (tmp_path / "g.conll").write_text("Ada\tB-PER\nmet\tO\nBob\tB-PER\nJr\tB-PER\n")
    recalls = [
        convener("evaluate", tmp_path / "p.conll", tmp_path / "g.conll", "--mode", mode, "--json")
        for mode in ("conlleval", "strict")
    ]
    assert [round(output.json["recall"], 2) for output in recalls] == [1.0, 0.67]


def test_the_run_stores_read_options(convener: Command, news: Path, tmp_path: Path) -> None:
    arguments = ("--unmarked", "outside")
    assert convener("fit", news, *VOTE, "-o", tmp_path / "run", *arguments).code == 0
    again = convener("evaluate", tmp_path / "run", news, "--split", "test")
    assert again.code == 0, again.err


def test_gold_of_unknown_types_does_not_stop_a_prediction(convener: Command, tmp_path: Path) -> None:
    votes = {"a": [[(0, 1, "PER")]] * 3}
    cv.write(cv.Dataset.from_spans(["PER"], [["Ada", "left"]] * 3, votes), tmp_path / "t.jsonl")
    other = cv.Dataset.from_spans(["LOC", "PER"], [["Ada", "Bonn"]] * 3, votes, gold=[[(1, 2, "LOC")]] * 3)
    cv.write(other, tmp_path / "o.jsonl")
    assert convener("fit", tmp_path / "t.jsonl", *VOTE, "-o", tmp_path / "run").code == 0
    score = convener("evaluate", tmp_path / "run", tmp_path / "o.jsonl", "--json")
    assert score.code == 0, score.err
    assert score.json["recall"] == 0


def test_predict_on_data_without_votes(convener: Command, fitted: Path, tmp_path: Path) -> None:
    sources = cv.demo.load_corpus().train.sources
    record = {"tokens": ["nothing", "here"], "votes": {name: [] for name in sources}}
    (tmp_path / "q.jsonl").write_text(json.dumps(record) + "\n")
    done = convener("predict", fitted, tmp_path / "q.jsonl", "-o", tmp_path / "out.jsonl")
    assert done.code == 0, done.err


def test_a_model_that_uses_gold_is_marked_in_its_scores(convener: Command, news: Path, tmp_path: Path) -> None:
    convener("fit", news, "--model", "best-consensus", "-o", tmp_path / "bc")
    assert "uses gold labels" in convener("evaluate", tmp_path / "bc", news, "--split", "test").out
    convener("predict", tmp_path / "bc", news, "--split", "test", "-o", tmp_path / "bc.jsonl")
    read = convener("evaluate", tmp_path / "bc.jsonl", news, "--split", "test", "--json")
    assert read.json["uses_gold"] == "test"


def test_resume_prints_json_and_refuses_a_model_without_config(
    convener: Command, news: Path, fitted: Path, tmp_path: Path
) -> None:
    assert convener("fit", news, *VOTE, "-o", fitted, "--resume", "--json").json["model"]
    cv.load_model(fitted).save(tmp_path / "bare")
    refused = convener("fit", news, *VOTE, "-o", tmp_path / "bare", "--resume")
    assert refused.code == 2
    assert "not a run" in refused.err


def test_use_gold_warns_if_it_is_ignored(convener: Command, news: Path, tmp_path: Path) -> None:
    done = convener("fit", news, *VOTE, "-o", tmp_path / "run", "--use-valid-gold", "--json")
    assert done.json["uses_gold"] == "none"
    assert "--use-valid-gold is ignored" in done.err


def test_sources_with_commas_in_their_names(convener: Command, tmp_path: Path) -> None:
    votes = {"a, b": [[(0, 1, "PER")]] * 3, "c": [[]] * 3}
    cv.write(cv.Dataset.from_spans(["PER"], [["Ada"]] * 3, votes), tmp_path / "t.jsonl")
    arguments = ("--source", '"a, b"', "-o", tmp_path / "run", "--json")
    assert convener("fit", tmp_path / "t.jsonl", *VOTE, *arguments).json["sources"] == ["a, b"]
    done = convener("predict", tmp_path / "run", tmp_path / "t.jsonl", "-o", tmp_path / "o.jsonl")
    assert done.code == 0, done.err


def test_joining_spans_needs_lossy(convener: Command, tmp_path: Path) -> None:
    votes = {"a": [[(0, 1, "PER"), (1, 2, "PER")]]}
    cv.write(cv.Dataset.from_spans(["PER"], [["Ada", "Bob"]], votes), tmp_path / "t.jsonl")
    convener("fit", tmp_path / "t.jsonl", *VOTE, "--set", "scheme=bio", "-o", tmp_path / "run")
    arguments = ("predict", tmp_path / "run", tmp_path / "t.jsonl", "-o", tmp_path / "o.conll")
    assert convener(*arguments, "--scheme", "io").code == 2
    assert convener(*arguments, "--scheme", "io", "--allow-lossy").code == 0


def test_a_model_is_described_with_its_settings(convener: Command) -> None:
    found = convener("model", "info", "hmm", "--json").json
    assert found["supports_coarse"] is True
    assert found["description"]
    assert {row["setting"] for row in found["settings"]} == {item.name for item in fields(cv.HMM.Config)}
    assert all(row["meaning"] for row in found["settings"])
    shown = convener("model", "info", "hmm").out
    assert "Settings of hmm" in shown
    assert ">>>" not in shown
    refused = convener("model", "info", "hnm")
    assert "did you mean 'hmm'" in refused.err


@pytest.mark.parametrize("name", cv.list_models())
def test_every_setting_of_every_model_is_explained(convener: Command, name: str) -> None:
    assert all(row["meaning"] for row in convener("model", "info", name, "--json").json["settings"])


def test_fit_prints_the_types_that_a_source_votes_for(convener: Command, news: Path, tmp_path: Path) -> None:
    done = convener("fit", news, *VOTE, "-o", tmp_path / "run")
    rows = [line for line in done.out.splitlines() if line.startswith("place_list")]
    assert [row.split()[1] for row in rows] == ["LOC"]
    assert "fitted on" in done.err
    assert convener("fit", news, *VOTE, "-o", tmp_path / "quiet", "--quiet").err == ""


def test_the_default_split_of_scores_is_test(convener: Command, news: Path, fitted: Path) -> None:
    done = convener("evaluate", fitted, news)
    assert done.err == "split: test\n"
    assert done.out == convener("evaluate", fitted, news, "--split", "test").out


def test_strict_mode_warns_where_it_differs_from_seqeval(convener: Command, tmp_path: Path) -> None:
    (tmp_path / "p.conll").write_text("Ada B-PER\nmet O\nBob I-PER\nJr B-PER\n\n")
    (tmp_path / "g.conll").write_text("Ada B-PER\nmet O\nBob I-PER\nJr B-PER\n\n")
    arguments = ("evaluate", tmp_path / "p.conll", tmp_path / "g.conll", "--mode", "strict", "--json")
    read = convener(*arguments)
    assert "seqeval's strict mode drops these spans" in " ".join(read.err.split())
    assert "illegal tag (predictions): I-PER dropped" in " ".join(read.err.split())
    same = convener(*arguments, "--read-option", "on_illegal=drop")
    tags = [["B-PER", "O", "I-PER", "B-PER"]]
    assert same.json["f1"] == pytest.approx(f1_score(tags, tags, mode="strict", scheme=IOB2)) == 1
    assert read.json["f1"] < 1
    assert "seqeval" not in convener(*arguments[:3], "--json").err


def test_other_names_of_valid_are_accepted(convener: Command, fitted: Path, news: Path, tmp_path: Path) -> None:
    for name in ("dev", "validation", "val"):
        done = convener("predict", fitted, news, "--split", name, "-o", tmp_path / "v.jsonl")
        assert done.code == 0, done.err
        assert convener("evaluate", fitted, news, "--split", name).code == 0
    assert len(cv.read_predictions(tmp_path / "v.jsonl")) == len(cv.demo.load_corpus().valid)
