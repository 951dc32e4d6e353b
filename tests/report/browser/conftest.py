"""A real browser, and pages to open in it."""

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

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "tests of pages need chromium (on Debian: apt-get install chromium, tests/chromium.sh)"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, headless; a clear word where there is none, and a failure in CI."""
    place = next(filter(None, map(shutil.which, NAMES)), None)
    if place is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Containers have no sandbox for root; nothing but our own pages is opened.
        browser = driver.chromium.launch(executable_path=place, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def corpus() -> cv.Corpus:
    return cv.demo.load_corpus()


@pytest.fixture(scope="session")
def account(corpus: cv.Corpus) -> RunSummary:
    """The demo's train, as hmm sees it."""
    return summarize_run(cv.HMM().fit(corpus.train), corpus.train, title="demo")


@pytest.fixture(scope="session")
def demo_page(account: RunSummary, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_report(account), encoding="utf-8")
    return path


Opener = Callable[..., Any]


@pytest.fixture
def opened(chromium: Any) -> Iterator[Opener]:
    """Opens a file or an address; any word on the console, and any request elsewhere, fails."""
    contexts, said, asked = [], [], []

    def open_page(address: Path | str, *, anchor: str = "", **settings: Any) -> Any:
        context = chromium.new_context(accept_downloads=True, **settings)
        contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("dialog", lambda dialog: said.append(f"dialog: {dialog.message}"))
        tab.on("request", lambda request: asked.append(request.url))
        url = address.as_uri() if isinstance(address, Path) else address
        tab.goto(url + anchor)
        if settings.get("java_script_enabled", True):
            tab.wait_for_selector("html[data-ready]")
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "blob:", "http://127.0.0.1"))] == []


def numbers(tab: Any) -> list[int]:
    """The sentences on the page, by number."""
    return [int(text[1:]) for text in tab.locator(".sentence .meta a").all_text_contents()]


def chosen(tab: Any, **fields: str) -> None:
    """Fill the form of the list, and wait until the list shows the answer.

    Playwright fires a change event even where the value stays the same, so every field is waited
    for: the page marks the list as busy from that event until the newest answer is drawn.
    """
    for name, value in fields.items():
        field = tab.locator(f"#{name}")
        field.fill(value) if name == "text" else field.select_option(value)
        tab.wait_for_selector("#list[aria-busy=false]", state="attached")
