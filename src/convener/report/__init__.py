"""What can be looked at: the report of a run as one page, the viewer, figures as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convener.data import Dataset
from convener.io.files import whole
from convener.report.account import Account, Teller, account_of
from convener.report.story import page

__all__ = ["Account", "account_of", "page", "write_report"]


def write_report(
    model: Teller,
    data: Dataset,
    path: str | Path,
    *,
    title: str = "",
    facts: Mapping[str, Any] | None = None,
) -> Account:
    """Write one HTML file that shows what a fitted model makes of some data.

    >>> from tempfile import mkdtemp
    >>> import convener as cv
    >>> corpus = cv.demo.corpus()
    >>> path = Path(mkdtemp()) / "report.html"
    >>> account = write_report(cv.MajorityVote().fit(corpus.train), corpus.valid, path)
    >>> path.is_file(), account.fixes[0].source in corpus.train.sources
    (True, True)
    """
    account = account_of(model, data, title=title, facts=facts)
    with whole(Path(path)) as draft:
        draft.write_text(page(account), encoding="utf-8")
    return account
