"""`python -m benchmarks.speed.report [SENTENCES]`: size of a report, time until it is usable, the viewer.

A million sentences for the viewer by default: the demo corpus repeated, labeled by majority vote, as
the model is not measured. Times in the browser need Playwright and Chromium and are skipped without.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import convener as cv
from benchmarks.harness.cli import simple_parser
from benchmarks.harness.results import RESULTS, save_tables
from benchmarks.harness.timing import is_installed, peak_memory
from convener.report.html import render_report
from convener.report.run_summary import RunSummary, summarize_run
from convener.report.viewer import Viewer, prepare_view

SIZES, VIEWER_SIZE, REPEATS = (1_000, 10_000), 1_000_000, 5
SMOKE_SIZE = 50


def repeat_demo(sentences: int) -> cv.Dataset:
    """So many sentences, the demo corpus repeated."""
    corpus = cv.demo.load_corpus()
    whole = cv.Dataset.concat([corpus.train, corpus.valid, corpus.test])
    return whole.take(number % len(whole) for number in range(sentences))


def summarize(sentences: int) -> RunSummary:
    """The summary of a majority vote."""
    data = repeat_demo(sentences)
    return summarize_run(cv.MajorityVote().fit(data), data)


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """A browser; None where Playwright or Chromium is not installed."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        print("chromium: not installed; skipped", file=sys.stderr)
    if path is None or not is_installed("playwright"):
        yield None
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def seconds_to_interactive(browser: Any, address: str, repeats: int) -> float | None:
    """Median time from opening a page until its list is usable."""
    if browser is None:
        return None
    times = []
    for _ in range(repeats):
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("html[data-ready]")
        times.append(page.evaluate("Number(document.documentElement.dataset.readyAt)"))
        page.close()
    return float(sorted(times)[repeats // 2]) / 1e3


def milliseconds_to_sort(browser: Any, address: str) -> float | None:
    """Time from a changed order to the new list."""
    if browser is None:
        return None
    page = browser.new_page()
    page.goto(address)
    page.wait_for_selector("html[data-ready]")
    begin = page.evaluate("performance.now()")
    page.select_option("#order", "entropy")
    page.wait_for_function("document.documentElement.dataset.ready === '2'")
    end = float(page.evaluate("Number(document.documentElement.dataset.readyAt)"))
    page.close()
    return end - float(begin)


def file_table(browser: Any, folder: Path, sizes: Sequence[int], repeats: int) -> cv.Table:
    """The report as one file: size, time to write, to open and to sort."""
    rows = []
    for size in sizes:
        begin = time.perf_counter()
        text = render_report(summarize(size))
        seconds = time.perf_counter() - begin
        path = folder / f"{size}.html"
        path.write_text(text, encoding="utf-8")
        opened = seconds_to_interactive(browser, path.as_uri(), repeats)
        rows.append((size, path.stat().st_size / 1e6, seconds, opened, milliseconds_to_sort(browser, path.as_uri())))
    return cv.Table(
        title="One file",
        columns=("sentences", "MB", "s to write", "s to interactive", "ms to sort"),
        rows=rows,
        formats={"MB": ".2f", "s to write": ".1f", "s to interactive": ".2f", "ms to sort": ".0f"},
        notes=(f"to interactive: from opening until the list is usable, median of {repeats}; to write: with the vote",),
    )


def viewer_table(browser: Any, folder: Path, size: int, repeats: int) -> cv.Table:
    """The viewer: preparation, start, first page, a filter, searches and the last page."""
    begin = time.perf_counter()
    prepared_dir = prepare_view(folder / "view", lambda: summarize(size))
    prepared = time.perf_counter() - begin
    disk = sum(file.stat().st_size for file in prepared_dir.iterdir()) / 1e6
    begin = time.perf_counter()
    server = Viewer(prepared_dir)
    started = time.perf_counter() - begin
    threading.Thread(target=server.serve_forever, daemon=True).start()
    rows = [
        ("prepare, once", prepared),
        ("start again", started),
        ("first page, interactive", seconds_to_interactive(browser, server.address, repeats)),
    ]
    queries = {
        "sort": "order=entropy",
        "search": "text=minister",
        "search, in every sentence": "text=e",
        "last page": f"start={max(0, size - 25)}",
    }
    for name, query in queries.items():
        begin = time.perf_counter()
        with urlopen(f"{server.address}sentences?count=25&{query}") as answer:
            answer.read()
        rows.append((name, time.perf_counter() - begin))
    server.shutdown()
    server.server_close()
    return cv.Table(
        title=f"The viewer, {size:,} sentences",
        columns=("what", "seconds"),
        rows=rows,
        formats={"seconds": ".3f"},
        notes=(f"{disk:,.0f} MB on disk; peak memory of the process {peak_memory() / 1e9:.1f} GB",),
    )


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line."""
    parser = simple_parser("speed.report", __doc__)
    parser.add_argument("sentences", nargs="?", type=int, default=VIEWER_SIZE)
    args = parser.parse_args(argv)
    sizes, size, repeats = ((SMOKE_SIZE,), SMOKE_SIZE, 1) if args.smoke else (SIZES, args.sentences, REPEATS)
    with chromium() as browser, tempfile.TemporaryDirectory() as folder:
        tables = [
            file_table(browser, Path(folder), sizes, repeats),
            viewer_table(browser, Path(folder), size, repeats),
        ]
    save_tables(results, "speed/report", tables, seed=0, packages=("jinja2", "playwright"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
