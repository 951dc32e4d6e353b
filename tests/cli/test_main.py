"""Errors of commands, help, doctor and demo."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import convener as cv
from convener.cli import main
from convener.cli.demo import DEMO_MODELS

from .conftest import Command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fti"], "fti"),
        (["fit", "nowhere", "-o", "x"], "nowhere: no such file or folder"),
        (["fit", "nowhere"], "output"),
        (["model", "list", "--jsn"], "--json"),
        (["fit", ".", "-o", "x", "--model", "majorty-vote"], "did you mean 'majority-vote'"),
        (["fit", ".", "-o", "x", "--set", "scheme"], "expected KEY=VALUE, got 'scheme'"),
        (["fit", ".", "-o", "x", "--set", "sed=1"], "did you mean 'seed'"),
        (["fit", ".", "-o", "x", "--config", "no.toml"], "no.toml: cannot be read"),
        (["evaluate", "nowhere", "nowhere"], "nowhere: no such file or folder"),
        (["predict", "nowhere", "nowhere", "-o", "x.jsonl"], "not a saved model"),
        (["encode", "nowhere", "--encoder", "hashing"], "nowhere: no such file or folder"),
        (["encode", "nowhere", "--encoder", "hashign"], "did you mean 'hashing'"),
        (["encode", "nowhere", "--encoder", "hashing", "--set", "widht=3"], "did you mean 'width'"),
        (["encode", "nowhere", "--encoder", "."], ".: not a model folder (expected config.json)"),
        (["encode", "nowhere", "--encoder", "a/b/c"], "expected a folder or a name on the hub"),
        (["encode", "nowhere", "--dtype", "float8"], "float8"),
        (["cache", "prune"], "nothing selected; use --older-than, --max-size"),
        (["cache", "prune", "--older-than", "-1"], "--older-than"),
        (["encoder", "install", "mpent"], "did you mean 'mpnet'"),
        (["encoder", "remove", "hashing"], "no packaged encoder 'hashing'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    convener: Command,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = convener(*arguments)
    assert refused.code == 2
    assert refused.out == ""
    assert refused.err.startswith("error: ")
    assert refused.err.count("\n") == 1
    assert message in refused.err
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(cv.DataError):
        main(["analyze", "nowhere", "--debug"])


def test_without_arguments_the_help_is_shown(convener: Command) -> None:
    alone = convener()
    assert "Usage" in alone.out + alone.err
    assert "error" not in alone.err
    assert "demo" in convener("--help").out
    assert cv.__version__ in convener("--version").out


def test_completion_is_offered(convener: Command) -> None:
    assert "--install-completion" in convener("--help").out


def test_doctor_reports_versions(convener: Command) -> None:
    found = convener("doctor", "--json").json
    assert found["versions"]["convener"] == cv.__version__
    assert found["versions"]["numpy"]
    assert {"encoders", "spacy", "arrow", "report"} <= set(found["extras"])
    assert "convener" in convener("doctor").out


def test_doctor_reports_encoders_and_cache(convener: Command, cache: Path) -> None:
    found = convener("doctor", "--json").json
    assert found["encoders"]["hashing"] == "built in"
    assert found["encoders"]["minilm"].endswith("model")
    assert found["encoders"]["mpnet"] is None
    assert "encoder mpnet: convener encoder install mpnet" in found["suggestions"]
    assert found["cache"] == {"folder": str(cache), "features": 0, "size_mb": 0}
    assert not cache.exists()
    cv.encode(cv.demo.load_corpus(), "hashing", dtype="float32")
    kept = convener("doctor", "--json").json["cache"]
    rows = sum(len(part.tokens) + len(part) for part in cv.demo.load_corpus().splits.values())
    assert kept["features"] == 3
    assert kept["size_mb"] == pytest.approx(rows * 256 * 4 / 1e6, rel=0.02)
    output = convener("doctor").out
    assert str(cache) in output
    assert "missing: encoder mpnet" in output


def test_doctor_names_what_is_missing(convener: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONVENER_DATA", str(tmp_path / "none"))
    assert "CONVENER_DATA" in convener("doctor").out


def test_demo_runs_the_pipeline(convener: Command, tmp_path: Path) -> None:
    output = convener("demo", "-o", tmp_path / "demo")
    assert output.code == 0
    assert not output.err
    scores = json.loads((tmp_path / "demo" / "scores.json").read_text(encoding="utf-8"))
    assert [row["model"] for row in scores] == list(DEMO_MODELS)
    assert all(f"{row['model']} " in output.out for row in scores)
    f1 = {row["model"]: row["f1"] for row in scores}
    assert f1["auto"] > f1["majority-vote"] + 0.01
    assert f1["sparse-chmm"] > f1["majority-vote"] + 0.01
    assert "[Oslo](LOC)" in output.out.partition("4. Labels")[2].partition("5. Written")[0]
    report = tmp_path / "demo" / "report.html"
    assert report.read_text(encoding="utf-8").startswith("<!")
    assert f"Report: {report}" in output.out
    assert f"  convener fit {tmp_path / 'demo'}/corpus -o my-run " in output.out
    assert cv.load_model(tmp_path / "demo" / "run").name == "auto"
    assert set(cv.read_corpus(tmp_path / "demo" / "corpus").splits) == {"train", "valid", "test"}
    assert cv.read_predictions(tmp_path / "demo" / "predictions.jsonl").probabilities is not None
    assert convener("demo", "-o", tmp_path / "demo").code == 0


def test_the_labels_of_the_demo_are_highlighted_on_a_terminal(
    convener: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("convener.cli.demo.DEMO_MODELS", ("majority-vote",))
    monkeypatch.setenv("FORCE_COLOR", "1")
    output = convener("demo", "-o", tmp_path / "demo").out
    assert "\x1b[1;36mMaria Lopez\x1b[0m" in output
    assert "[Maria Lopez]" not in output


def test_demo_does_not_overwrite_other_files(convener: Command, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    refused = convener("demo", "-o", tmp_path)
    assert refused.code == 2
    assert (tmp_path / "thesis.txt").exists()


def test_an_interrupt_leaves_nothing_behind(news: Path, tmp_path: Path) -> None:
    """The signal arrives while the run is being written."""
    code = (
        "import os, signal, sys; from convener import storage; from convener.cli import main;"
        "storage.write_model_files = lambda *_: os.kill(os.getpid(), signal.SIGINT); main(sys.argv[1:])"
    )
    arguments = ["fit", str(news), "--model", "majority-vote", "-o", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert "Interrupted" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_not_an_error() -> None:
    command = f"{sys.executable} -m convener model list | head -c 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
