"""Screenshots for the docs: `make screenshots` writes them to docs/images."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import convener as cv
from convener.report.html import render_report
from convener.report.run_summary import summarize_run
from tests.conftest import DATA
from tests.report.browser.conftest import Opener

FOLDER = os.environ.get("CONVENER_SCREENSHOTS")
MODEL = "auto" if FOLDER else "segment"
"""The default model for the docs, a fast one for tests."""
DESK: dict[str, Any] = {"viewport": {"width": 1280, "height": 860}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2}
SHOTS = {
    "first": ("#top", DESK),
    "sources": ("#sources", DESK),
    "sentence": ("#list", DESK),
    "dark": ("#top", {**DESK, "color_scheme": "dark"}),
    "phone": ("#top", PHONE),
}


def load_corpus(name: str) -> cv.Corpus:
    if name == "demo":
        return cv.demo.load_corpus()
    if not (DATA / "BC5CDR").is_dir():
        pytest.skip(f"no data sets at {DATA}: set CONVENER_DATA to the folder that holds them")
    return cv.read_corpus(DATA / "BC5CDR")


@pytest.fixture(scope="module", params=["demo", "bc5cdr"])
def reported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    corpus = load_corpus(request.param)
    model = cv.get_model(MODEL)().fit(corpus.train, corpus.valid)
    summary = summarize_run(model, corpus.train, title=f"{request.param}, {MODEL}")
    path = tmp_path_factory.mktemp("shots") / f"{request.param}.html"
    path.write_text(render_report(summary), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", SHOTS)
def test_screenshot(name: str, reported: Path, opened: Opener, tmp_path: Path) -> None:
    part, settings = SHOTS[name]
    tab = opened(reported, **settings)
    tab.evaluate("part => document.querySelector(part).scrollIntoView({behavior: 'instant'})", part)
    path = Path(FOLDER or tmp_path) / f"report-{reported.stem}-{name}.png"
    tab.screenshot(path=path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 20_000  # an empty page is much smaller
