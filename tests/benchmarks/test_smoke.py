"""Every benchmark runs at toy size and writes rows and pages."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from benchmarks.harness.cli import BENCHMARKS

PEERS = ("skweak", "jax", "dynamax")
"""Compared implementations that a benchmark leaves out, by name, where they are not installed."""
DIRECTORIES = {"paper": "paper", "quality": "quality", "worlds": "worlds", "crowd": "crowd"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all benchmarks: `quality` uses the fits of `paper`."""
    return tmp_path_factory.mktemp("results")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_writes_rows_and_a_page(name: str, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert importlib.import_module(BENCHMARKS[name]).main(["--smoke"], results=results) == 0
    errors = capsys.readouterr().err
    for line in (line for line in errors.splitlines() if line.endswith("not installed; skipped")):
        assert line.partition(":")[0] in (*PEERS, "chromium", "playwright"), line
    directory = results / DIRECTORIES.get(name, "speed")
    pattern = name if directory.name == "speed" else "*"
    pages, files = sorted(directory.glob(f"{pattern}.md")), sorted(directory.glob(f"{pattern}.jsonl"))
    assert pages
    assert files
    for page in pages:
        assert "## Provenance" in page.read_text(encoding="utf-8")
    for file in files:
        assert [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
def test_a_stored_fit_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.harness import jobs
    from benchmarks.paper import parts

    assert parts.main(["exponents", "--smoke"], results=tmp_path) == 0
    rows = (tmp_path / "paper/exponents.jsonl").read_bytes()
    monkeypatch.setattr(jobs, "fit_and_score", lambda job: pytest.fail(f"{job.key} was made again"))
    assert parts.main(["exponents", "--smoke"], results=tmp_path) == 0
    assert (tmp_path / "paper/exponents.jsonl").read_bytes() == rows
