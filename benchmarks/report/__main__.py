"""The report and the viewer: size of the file, time until one can use it, first page of a million.

`python -m benchmarks.report [SENTENCES]`, a million for the viewer by default. The demo's sentences
over and over; majority vote, since what is measured is not the model. Needs Chromium.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import convener as cv
from benchmarks.record import peak_memory, save
from convener.report.html import render_report
from convener.report.run_summary import RunSummary, summarize_run
from convener.report.viewer import Viewer, prepare_view

SIZES = (1_000, 10_000)
TIMES = 5
READY = "performance.now()"
"""Since the browser began to open the page."""


def repeated(sentences: int) -> cv.Dataset:
    """So many sentences of the demo, over and over."""
    parts = cv.demo.load_corpus()
    whole = cv.Dataset.concat([parts.train, parts.valid, parts.test])
    return whole.take(number % len(whole) for number in range(sentences))


def ready(browser: Any, address: str) -> list[float]:
    """Milliseconds from opening a page until its list can be used, several times."""
    found = []
    for _ in range(TIMES):
        tab = browser.new_page()
        tab.goto(address)
        tab.wait_for_selector("html[data-ready]")
        found.append(tab.evaluate("Number(document.documentElement.dataset.readyAt)"))
        tab.close()
    return sorted(found)


def typed(browser: Any, address: str) -> float:
    """Milliseconds from a changed filter to the new list."""
    tab = browser.new_page()
    tab.goto(address)
    tab.wait_for_selector("html[data-ready]")
    begin = tab.evaluate(READY)
    tab.select_option("#order", "entropy")
    tab.wait_for_function("document.documentElement.dataset.ready === '2'")
    end = float(tab.evaluate("Number(document.documentElement.dataset.readyAt)"))
    tab.close()
    return end - begin


def files(browser: Any, room: Path) -> cv.Table:
    """One file: how large, how long it takes to write, to open, to filter."""
    rows = []
    for size in SIZES:
        data = repeated(size)
        model = cv.MajorityVote().fit(data)
        begin = time.perf_counter()
        account = summarize_run(model, data)
        text = render_report(account)
        seconds = time.perf_counter() - begin
        path = room / f"{size}.html"
        path.write_text(text, encoding="utf-8")
        opened = ready(browser, path.as_uri())
        filtered = typed(browser, path.as_uri())
        size_mb = path.stat().st_size / 1e6
        rows.append((size, size_mb, seconds, opened[TIMES // 2] / 1e3, filtered))
    return cv.Table(
        title="One file",
        columns=("sentences", "MB", "s to write", "s to interactive", "ms to sort"),
        rows=rows,
        formats={"MB": ".2f", "s to write": ".1f", "s to interactive": ".2f", "ms to sort": ".0f"},
        notes=(f"to interactive: from opening to a list one can use, median of {TIMES}",),
    )


def viewer(browser: Any, room: Path, size: int) -> cv.Table:
    """The viewer: preparing once, then the first page, a filter, a search and a far page."""

    def told() -> RunSummary:
        data = repeated(size)
        return summarize_run(cv.MajorityVote().fit(data), data)

    begin = time.perf_counter()
    folder = prepare_view(room / "view", told)
    prepared = time.perf_counter() - begin
    disk = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
    begin = time.perf_counter()
    server = Viewer(folder)
    started = time.perf_counter() - begin
    threading.Thread(target=server.serve_forever, daemon=True).start()
    questions = {
        "filter": "odd=disagreement&order=entropy",
        "search": "text=minister",
        "search, in every sentence": "text=e",
        "last page": f"start={size - 25}",
    }
    rows = [
        ("prepare, once", prepared),
        ("start again", started),
        ("first page, interactive", ready(browser, server.address)[TIMES // 2] / 1e3),
    ]
    for name, query in questions.items():
        begin = time.perf_counter()
        with urlopen(f"{server.address}sentences?count=25&{query}") as answer:
            answer.read()
        rows.append((name, time.perf_counter() - begin))
    server.shutdown()
    return cv.Table(
        title=f"The viewer, {size:,} sentences",
        columns=("what", "seconds"),
        rows=rows,
        formats={"seconds": ".3f"},
        notes=(f"{disk:,.0f} MB on disk; peak memory of all {peak_memory() / 1e9:.1f} GB",),
    )


def main(size: int) -> None:
    """Measure, and write the figures."""
    from playwright.sync_api import sync_playwright

    place = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as room:
        browser = driver.chromium.launch(executable_path=place, args=["--no-sandbox"])
        tables = [files(browser, Path(room)), viewer(browser, Path(room), size)]
        browser.close()
    for table in tables:
        print(table, end="\n\n")
    print(save("report", tables, seed=0, packages=("jinja2", "playwright")))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
