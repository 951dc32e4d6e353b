"""Output of commands: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from convener import progress
from convener.data.issues import Issues
from convener.data.tables import Table
from convener.storage import atomic_write

STDERR = Console(stderr=True, soft_wrap=True)
STYLES = {"error": "bold red", "warning": "yellow", "stopped": "yellow"}
MAX_LISTED = 10
"""Issues printed one by one; the rest is counted."""


def print_message(kind: str, message: str) -> None:
    """Print one line such as `warning: ...` on standard error."""
    STDERR.print(Text.assemble((f"{kind}: ", STYLES.get(kind, "bold")), message))


def print_note(message: str) -> None:
    """Print a remark on standard error, unless the user asked for quiet."""
    if not progress.is_quiet():
        STDERR.print(Text(message, style="dim"))


def print_result(result: Any) -> None:
    """Print a table or text on standard output."""
    typer.echo(str(result))


def print_json(document: Mapping[str, Any]) -> None:
    """Print a JSON document on standard output."""
    typer.echo(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))


def spinner(message: str) -> AbstractContextManager[Any]:
    """Show a spinner on a terminal while something runs; prints nothing elsewhere."""
    return nullcontext() if progress.is_quiet() else STDERR.status(message)


def to_records(table: Table) -> list[dict[str, Any]]:
    """The rows of a table for --json: the keys are the column names in snake case.

    >>> to_records(Table(title="", columns=("last used", "size MB"), rows=[("today", 1.5)]))
    [{'last_used': 'today', 'size_mb': 1.5}]
    """
    return [{name.lower().replace(" ", "_"): value for name, value in row.items()} for row in table.to_records()]


def print_issues(issues: Issues, *, list_hint: str = "convener convert --issues FILE") -> None:
    """Print the number of issues by kind and the first few; `list_hint` names the option that writes all."""
    for kind, count in issues.counts().items():
        print_message("warning", f"{kind}: {count:,} issue{'s' if count > 1 else ''}")
    for issue in issues.items[:MAX_LISTED]:
        print_note(f"  {issue}")
    if len(issues) > MAX_LISTED:
        print_note(f"  ... and {len(issues) - MAX_LISTED:,} more (write all with {list_hint})")


def write_issues(issues: Issues, path: Path) -> None:
    """Write all issues to a text file, one per line."""
    with atomic_write(path) as draft:
        draft.write_text("".join(f"{issue}\n" for issue in issues), encoding="utf-8")


class _NoteHandler(logging.Handler):
    """Prints log messages of the library as remarks on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        print_note(record.getMessage())


@contextmanager
def show_logs() -> Iterator[None]:
    """Print log messages of the library, such as the reason why a fit stopped."""
    logger, handler = logging.getLogger("convener"), _NoteHandler(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
