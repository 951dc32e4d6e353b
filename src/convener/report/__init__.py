"""Reports of fitted label models: HTML page, viewer, figures as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convener.data.dataset import Dataset
from convener.report.html import render_report
from convener.report.run_summary import ReportableModel, RunSummary, summarize_run
from convener.storage import atomic_write

__all__ = ["RunSummary", "render_report", "summarize_run", "write_report"]


def write_report(
    model: ReportableModel,
    data: Dataset,
    path: str | Path,
    *,
    title: str = "",
    run_info: Mapping[str, Any] | None = None,
) -> RunSummary:
    """Write a self-contained HTML report of a fitted model on some data; returns its content.

    >>> from tempfile import mkdtemp
    >>> import convener as cv
    >>> corpus = cv.demo.load_corpus()
    >>> path = Path(mkdtemp()) / "report.html"
    >>> summary = write_report(cv.MajorityVote().fit(corpus.train), corpus.valid, path)
    >>> path.is_file(), summary.recommendations[0].source in corpus.train.sources
    (True, True)
    """
    summary = summarize_run(model, data, title=title, run_info=run_info)
    with atomic_write(Path(path)) as draft:
        draft.write_text(render_report(summary), encoding="utf-8")
    return summary
