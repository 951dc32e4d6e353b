"""A headless browser, and pages to open in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import convener as cv
from convener.report.html import render_report
from convener.report.run_summary import RunSummary, summarize_run
from tests.report.conftest import fitted_hmm

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "browser tests need chromium (on Debian: apt-get install chromium, tests/chromium.sh)"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Headless Chromium; without it tests are skipped with a reason, or fail in CI."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Containers have no sandbox for root; only our own pages are opened.
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def corpus() -> cv.Corpus:
    return cv.demo.load_corpus()


@pytest.fixture(scope="session")
def summary(corpus: cv.Corpus) -> RunSummary:
    """HMM on the train split of the demo corpus."""
    return summarize_run(fitted_hmm(corpus), corpus.train, title="demo")


@pytest.fixture(scope="session")
def demo_page(summary: RunSummary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_report(summary), encoding="utf-8")
    return path


Opener = Callable[..., Any]


@pytest.fixture
def opened(chromium: Any) -> Iterator[Opener]:
    """Opens a file or URL; console output and requests to other hosts fail the test."""
    contexts, messages, requests = [], [], []

    def open_page(address: Path | str, *, anchor: str = "", **settings: Any) -> Any:
        context = chromium.new_context(accept_downloads=True, **settings)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: messages.append(message.text))
        tab.on("pageerror", lambda error: messages.append(str(error)))
        tab.on("dialog", lambda dialog: messages.append(f"dialog: {dialog.message}"))
        tab.on("request", lambda request: requests.append(request.url))
        url = address.as_uri() if isinstance(address, Path) else address
        tab.goto(url + anchor)
        if settings.get("java_script_enabled", True):
            tab.wait_for_selector("html[data-ready]")
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert messages == []
    assert [url for url in requests if not url.startswith(("file:", "blob:", "http://127.0.0.1"))] == []


def numbers(tab: Any) -> list[int]:
    """Numbers of the sentences on the page."""
    return [int(text[1:]) for text in tab.locator(".sentence .meta a").all_text_contents()]


def fill_query(tab: Any, **fields: str) -> None:
    """Fill the query form and wait until the list shows the result.

    Playwright fires a change event even if the value stays the same, so this waits after every field: the
    page marks the list as busy from that event until the latest result is drawn.
    """
    for name, value in fields.items():
        field = tab.locator(f"#{name}")
        field.fill(value) if name == "text" else field.select_option(value)
        tab.wait_for_selector("#list[aria-busy=false]", state="attached")
