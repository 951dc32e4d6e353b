"""report, compare, plot, view, and prepared reports in the cache."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import get_args
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

import convener as cv
from convener.cache import list_cache
from convener.cli import main
from convener.cli import report as module
from convener.cli.console import to_records
from convener.report import figures
from convener.report.html import estimate_table, recommendation_table
from convener.report.run_summary import summarize_run
from convener.report.sentence_index import Query
from convener.report.viewer import Viewer
from tests.report.html_reader import parse_page

from .conftest import Command


def fitted(folder: Path, data: Path, *arguments: object) -> Path:
    with pytest.raises(SystemExit) as stop:
        main(["fit", str(data), "-o", str(folder), *map(str, arguments)])
    assert not stop.value.code
    return folder


@pytest.fixture(scope="module")
def runs(news: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs on the demo corpus: majority vote and HMM, with all sources and with some."""
    folder = tmp_path_factory.mktemp("runs")
    fitted(folder / "vote", news, "--model", "majority-vote")
    fitted(folder / "hmm", news, "--model", "hmm", "--set", "steps=5")
    few = ("--source", "place_list,first_name", "--source", "acronym")
    fitted(folder / "few", news, "--model", "majority-vote", *few)
    fitted(folder / "hmm-few", news, "--model", "hmm", "--set", "steps=5", *few)
    return folder


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# report


def test_report_prints_tables_and_writes_a_page(convener: Command, runs: Path, tmp_path: Path) -> None:
    done = convener("report", runs / "vote")
    assert done.code == 0
    data = cv.demo.load_corpus().train
    summary = summarize_run(cv.load_model(runs / "vote"), data)
    assert str(estimate_table(summary)) in done.out
    assert str(recommendation_table(summary)) in done.out
    assert "report.html: " in done.err
    assert "open it in a browser" in done.err
    found = parse_page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert found.texts("h1") == ["vote"]
    assert len(found.json("records")) == len(data)
    settings = dict(found.tables["Settings"][1:])
    assert (settings["split"], settings["model"]) == ("train", "majority-vote")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_warnings_are_printed_first(convener: Command, runs: Path) -> None:
    err = convener("report", runs / "few", "--split", "test").err.replace("\n", " ")
    assert "note: Sources with fewer than 30 spans" in err
    assert err.startswith(("warning: ", "note: "))


def test_report_as_json(convener: Command, runs: Path, tmp_path: Path) -> None:
    done = convener("report", runs / "vote", "--split", "test", "-o", "deep/r.html", "--json")
    assert done.code == 0
    document = done.json
    assert set(document) == {"sentences", "warnings", "sources", "recommendations", "output"}
    summary = summarize_run(cv.load_model(runs / "vote"), cv.demo.load_corpus().test)
    assert document["sentences"] == len(summary.data)
    assert document["sources"] == to_records(estimate_table(summary))
    assert document["recommendations"] == to_records(recommendation_table(summary))
    assert document["output"] == "deep/r.html"
    assert (tmp_path / "deep" / "r.html").is_file()


def test_other_data_and_its_splits(convener: Command, runs: Path, news: Path, tmp_path: Path) -> None:
    part = cv.read(news, "valid")
    cv.write(part, tmp_path / "part.jsonl")
    done = convener("report", runs / "vote", "--data", "part.jsonl", "--json")
    assert done.json["sentences"] == len(part)
    refused = convener("report", runs / "vote", "--split", "dev2")
    assert refused.code == 2
    assert refused.err.count("\n") == 1
    assert "dev2" in refused.err
    refused = convener("report", runs / "vote", "--data", "part.jsonl", "--split", "test")
    assert refused.code == 2
    assert "is a single file" in refused.err


def test_a_folder_without_train_needs_a_split(convener: Command, runs: Path, news: Path, tmp_path: Path) -> None:
    cv.write(cv.Corpus(splits={"valid": cv.read(news, "valid")}), tmp_path / "v", format="jsonl")
    refused = convener("report", runs / "vote", "--data", "v")
    assert refused.code == 2
    assert "--split {valid}" in refused.err
    assert convener("report", runs / "vote", "--data", "v", "--split", "valid").code == 0


def test_export_of_uncertain_sentences(convener: Command, runs: Path, tmp_path: Path) -> None:
    done = convener("report", runs / "vote", "--export-uncertain", "next.jsonl", "--number", 7)
    assert done.code == 0
    assert "7 sentences to annotate -> next.jsonl" in done.err
    data = cv.demo.load_corpus().train
    summary = summarize_run(cv.load_model(runs / "vote"), data)
    chosen = summary.sentence_index.find(Query(order="entropy"))[:7].tolist()
    found = cv.read_predictions(tmp_path / "next.jsonl")
    assert [sentence.tokens for sentence in found.data] == [data[n].tokens for n in chosen]
    bounds = [data.offsets[n : n + 2].tolist() for n in chosen]
    expected = [label for a, b in bounds for label in summary.predictions.labels[a:b].tolist()]
    assert found.labels.tolist() == expected
    assert found.data.gold is None
    assert convener("report", runs / "vote", "--export-uncertain", "n.conll", "--number", 10**6).code == 0
    assert len(cv.read_predictions(tmp_path / "n.conll")) == len(data)


def test_a_run_without_data_path(convener: Command, runs: Path, news: Path, tmp_path: Path) -> None:
    cv.load_model(runs / "vote").save(tmp_path / "by-hand")
    refused = convener("report", "by-hand")
    assert refused.code == 2
    assert "by-hand: the run does not record its data path; pass --data" in refused.err
    assert convener("report", "by-hand", "--data", news).code == 0


def test_data_that_was_moved(convener: Command, runs: Path, news: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vote", tmp_path / "vote")
    info = json.loads((tmp_path / "vote" / "run.json").read_text())
    gone = tmp_path / "gone"
    (tmp_path / "vote" / "run.json").write_text(json.dumps(info | {"data_path": str(gone)}))
    refused = convener("report", "vote")
    assert refused.code == 2
    assert "does not exist any more; pass --data" in refused.err.replace("\n", "")
    assert convener("report", "vote", "--data", news).code == 0
    assert not gone.exists()


def test_report_without_a_run(convener: Command, tmp_path: Path) -> None:
    assert convener("report", "nothing").code == 2
    assert convener("report").code == 2
    assert list(tmp_path.iterdir()) == []


# compare


def test_comparing_needs_two_models(convener: Command, runs: Path) -> None:
    refused = convener("report", runs / "vote", runs / "hmm")
    assert refused.code == 2
    assert "unexpected extra argument" in refused.err
    refused = convener("compare", runs / "vote")
    assert refused.code == 2
    assert "at least two models, got 1" in refused.err


def test_comparison_of_two_models(convener: Command, runs: Path, tmp_path: Path) -> None:
    arguments = (runs / "vote", runs / "hmm", "--split", "test", "-o", "two.html")
    done = convener("compare", *arguments, "--json")
    assert done.code == 0
    assert done.json == {"output": "two.html", "models": ["vote", "hmm"]}
    assert "2 models -> two.html" in done.err
    found = parse_page((tmp_path / "two.html").read_text(encoding="utf-8"))
    test = cv.demo.load_corpus().test
    for name, row in zip(("vote", "hmm"), found.tables["Models"][1:], strict=False):
        expected = cv.evaluate(cv.load_model(runs / name).predict(test), test)
        assert (row[0], row[3]) == (name, f"{expected.f1:.2%}")


def test_comparison_of_runs_with_different_sources(convener: Command, runs: Path, tmp_path: Path) -> None:
    """All sources are shown, in any order of the runs."""
    for pair in (("few", "vote"), ("vote", "few")):
        done = convener("compare", *(runs / name for name in pair))
        assert done.code == 0, done.err
        found = parse_page((tmp_path / "comparison.html").read_text(encoding="utf-8"))
        tracks = found.json("setup")["tracks"]
        assert [name for kind, name in tracks if kind == "model"] == list(pair)
        sources = [name for kind, name in tracks if kind == "source"]
        assert sources == list(cv.demo.load_corpus().train.sources)


def test_comparison_of_runs_with_equal_names(convener: Command, runs: Path, tmp_path: Path) -> None:
    for parent in ("a", "b"):
        shutil.copytree(runs / "vote", tmp_path / parent / "run")
    shutil.copytree(runs / "few", tmp_path / "run")
    done = convener("compare", "a/run", "b/run", "run", "--json")
    assert done.json["models"] == ["a/run", "b/run", "run"]
    refused = convener("compare", "run", "run")
    assert refused.code == 2
    assert "the same model is given twice: run run" in refused.err


# plot


@pytest.mark.parametrize("kind", get_args(module.FigureName))
def test_every_figure(convener: Command, runs: Path, tmp_path: Path, kind: str) -> None:
    done = convener("plot", runs / "hmm-few", kind, "--split", "valid", "-o", f"{kind}.svg")
    assert done.code == 0, done.err
    assert (tmp_path / f"{kind}.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert f"{kind} -> {kind}.svg" in done.err


def test_the_command_accepts_all_figures() -> None:
    assert get_args(module.FigureName) == tuple(figures.FIGURES)


def test_figures_that_are_unavailable(convener: Command, runs: Path, news: Path, tmp_path: Path) -> None:
    cv.write(cv.read(news, "test").without_gold(), tmp_path / "bare.jsonl")
    for kind in ("estimated-vs-gold", "calibration", "confusion"):
        refused = convener("plot", runs / "vote", kind, "--data", "bare.jsonl", "-o", "p.png")
        assert refused.code == 2
        assert f"'{kind}' needs gold labels; this data has none" in refused.err
    refused = convener("plot", runs / "vote", "training-curves", "-o", "p.png")
    assert refused.code == 2
    assert "majority-vote provides nothing to plot for 'training-curves'" in refused.err
    refused = convener("plot", runs / "vote", "transitions", "-o", "p.gif")
    assert refused.code == 2
    assert ".png, .svg, .pdf" in refused.err
    assert convener("plot", runs / "vote", "pie", "-o", "p.png").code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["bare.jsonl"]


# view


@contextmanager
def viewing(*arguments: object) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A viewer in a separate process, and its address."""
    command = [sys.executable, "-m", "convener", "view", *map(str, arguments), "--no-browser"]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def stopped(process: subprocess.Popen[str]) -> str:
    """Interrupt the viewer; returns its standard error."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    return err


def test_view_serves_until_it_is_interrupted(runs: Path, cache: Path) -> None:
    test = cv.demo.load_corpus().test
    with viewing(runs / "vote", "--split", "test") as (process, address):
        assert urlsplit(address).hostname == "127.0.0.1"
        with urlopen(address) as page:
            assert parse_page(page.read().decode()).texts("h1") == ["vote"]
        with urlopen(f"{address}sentences?count=1") as answer:
            found = json.load(answer)
        assert found["total"] == len(test)
        assert found["records"][0]["t"] == test[0].tokens
        err = stopped(process)
    assert f"{len(test)} sentences; press Ctrl-C to stop" in err
    assert "stopped: Interrupted" in err
    (entry,) = list_cache(cache)
    assert (entry.kind, entry.label, entry.details["sentences"]) == ("reports", "vote", len(test))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Viewer]:
    """Viewers started in this process; they end immediately."""
    found: list[Viewer] = []
    monkeypatch.setattr(Viewer, "serve_forever", lambda viewer: found.append(viewer))
    return found


def test_a_view_is_prepared_once_per_content(
    convener: Command,
    runs: Path,
    cache: Path,
    tmp_path: Path,
    served: list[Viewer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def counted(*arguments: object, **more: object) -> object:
        calls.append(arguments)
        return summarize_run(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "summarize_run", counted)
    cv.write(cv.demo.load_corpus().valid, tmp_path / "valid.jsonl")
    view = ("view", runs / "vote", "--no-browser")
    first = convener(*view, "--data", "valid.jsonl")
    assert first.code == 0, first.err
    assert first.out.strip() == served[0].address
    assert convener(*view, "--data", "valid.jsonl").code == 0
    assert len(calls) == 1
    changes: list[tuple[object, ...]] = [
        (*view, "--split", "test"),
        (*view, "--data", "valid.jsonl", "--input-format", "jsonl"),
        (*view, "--data", "valid.jsonl", "--read-option", "on_overlap=first"),
        ("view", runs / "few", "--no-browser", "--data", "valid.jsonl"),
    ]
    for number, arguments in enumerate(changes, start=2):
        assert convener(*arguments).code == 0
        assert len(calls) == len(list_cache(cache)) == number
    cv.write(cv.demo.load_corpus().test, tmp_path / "valid.jsonl")
    assert convener(*view, "--data", "valid.jsonl").code == 0
    assert len(calls) == 6
    assert len(served[-1].sentence_index) == len(cv.demo.load_corpus().test)


def test_a_browser_is_opened_on_loopback_only(
    convener: Command,
    runs: Path,
    cache: Path,
    served: list[Viewer],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(module.webbrowser, "open", opened.append)
    assert convener("view", runs / "vote").code == 0
    assert opened == [served[0].address]
    output = convener("view", runs / "vote", "--host", "0.0.0.0")
    assert output.code == 0
    assert opened == [served[0].address]
    address = output.out.strip()
    assert address == served[1].address
    token = urlsplit(address).path.strip("/")
    assert len(token) >= 32
    assert token not in output.err


def test_another_interface_needs_the_token(runs: Path, cache: Path) -> None:
    with viewing(runs / "vote", "--host", "0.0.0.0") as (process, address):
        local = address.replace("0.0.0.0", "127.0.0.1")
        with pytest.raises(HTTPError, match="403"):
            urlopen(f"http://127.0.0.1:{urlsplit(address).port}/")
        with urlopen(local) as page:
            assert page.status == 200
        token = urlsplit(address).path.strip("/")
        assert token not in stopped(process)


def test_view_of_unknown_run_or_split(convener: Command, runs: Path, cache: Path, served: list[Viewer]) -> None:
    assert convener("view", "nothing").code == 2
    refused = convener("view", runs / "vote", "--split", "dev2", "--no-browser")
    assert refused.code == 2
    assert "dev2" in refused.err
    assert served == []
    assert not cache.exists()


def test_a_port_in_use(convener: Command, runs: Path, cache: Path, served: list[Viewer]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = convener("view", runs / "vote", "--no-browser", "--port", port)
    assert refused.code == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in refused.err


def test_views_are_listed_and_removed(convener: Command, runs: Path, cache: Path, served: list[Viewer]) -> None:
    for split in ("test", "valid"):
        assert convener("view", runs / "vote", "--no-browser", "--split", split).code == 0
    rows = convener("cache", "list", "--json").json["entries"]
    assert [(row["label"], row["sentences"]) for row in rows] == [
        ("vote", len(cv.demo.load_corpus()[split])) for split in ("valid", "test")
    ]
    listed = convener("cache", "list").out
    assert f"Cache entries in {cache}: 2" in listed
    assert all(row["key"] in listed for row in rows)
    old = list_cache(cache)[0]
    for file in old.path.iterdir():
        os.utime(file, (1e9, 1e9))
    shown = convener("cache", "prune", "--older-than", 30, "--dry-run", "--json").json
    assert [row["key"] for row in shown["entries"]] == [old.key]
    assert len(list_cache(cache)) == 2
    assert convener("cache", "prune", "--encoder", "hashing", "--json").json["entries"] == []
    assert convener("cache", "prune", "--incomplete", "--json").json["entries"] == []
    convener("cache", "prune", "--older-than", 30)
    assert [entry.key for entry in list_cache(cache)] != [old.key]
    assert len(list_cache(cache)) == 1
    assert len(convener("cache", "prune", "--all", "--json").json["entries"]) == 1
    assert list_cache(cache) == []
    assert f"Cache entries in {cache}: 0" in convener("cache", "list").out
