"""suggest-answers, and what `report` prints for a crowd."""

from __future__ import annotations

from pathlib import Path

import pytest

import convener as cv
from tests.helpers.crowd import CrowdConfig, make_crowd
from tests.report.html_reader import parse_page

from .conftest import Command


@pytest.fixture
def run(convener: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A crowd and a model that is fitted to it."""
    monkeypatch.chdir(tmp_path)
    crowd = make_crowd(1, CrowdConfig(documents=40, length=20, workers=6, annotated=0.4, spans=2.0))
    cv.write(crowd.data, tmp_path / "crowd.jsonl")
    assert convener("fit", "crowd.jsonl", "-o", "run", "--model", "segment").code == 0
    return tmp_path / "run"


def test_suggest_answers_prints_documents_and_workers(convener: Command, run: Path) -> None:
    done = convener("suggest-answers", run, "-n", 3)
    assert done.code == 0
    data = cv.read("crowd.jsonl")
    assert done.out.strip() == str(cv.suggest_answers(data, cv.load_model(run).predict(data), number=3)).strip()


def test_suggest_answers_as_json(convener: Command, run: Path) -> None:
    found = convener("suggest-answers", run, "-n", 4, "--json").json
    assert len(found["documents"]) == 4
    assert {each["worker"] for each in found["workers"]} == {f"worker-{k}" for k in range(6)}


def test_labeling_functions_are_no_crowd(convener: Command, news: Path, tmp_path: Path) -> None:
    assert convener("fit", news, "-o", tmp_path / "vote", "--model", "majority-vote").code == 0
    done = convener("suggest-answers", tmp_path / "vote")
    assert done.code == 2
    assert "expected a crowd" in done.err


def test_the_report_of_a_crowd_lists_documents_and_workers(convener: Command, run: Path, tmp_path: Path) -> None:
    done = convener("report", run)
    assert done.code == 0
    assert "Documents that deserve another answer" in done.out
    assert "Fix next" not in done.out
    page = parse_page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "Ask next" in page.texts("h2")
    assert "Fix next" not in page.texts("h2")
    assert len(page.tables["Workers to ask"]) == 1 + 6
    assert len(page.tables["Documents that deserve another answer"]) == 1 + 20
    found = convener("report", run, "--json").json
    assert len(found["answers"]["workers"]) == 6


def test_the_report_of_labeling_functions_has_no_answers(convener: Command, news: Path, tmp_path: Path) -> None:
    assert convener("fit", news, "-o", tmp_path / "vote", "--model", "majority-vote").code == 0
    done = convener("report", tmp_path / "vote", "-o", tmp_path / "page.html", "--json")
    assert "answers" not in done.json
    assert "Fix next" in parse_page((tmp_path / "page.html").read_text(encoding="utf-8")).texts("h2")
