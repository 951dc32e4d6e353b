"""What commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from convener.data.issues import Issues
from convener.errors import ConfigError

STDERR = Console(stderr=True, soft_wrap=True)
STYLES = {"error": "bold red", "warning": "yellow", "stopped": "yellow"}
MAX_LISTED = 10
Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Split = Annotated[str | None, typer.Option(help="Which split of a folder: train, valid or test.")]
Sources = Annotated[
    list[str] | None,
    typer.Option(help="all, recommended (default), or the name of a source; several by repeating it."),
]
FormatName = Annotated[str | None, typer.Option("--format", help="Format of DATA where its suffix does not tell.")]
ReadOption = Annotated[
    list[str] | None,
    typer.Option("--read", metavar="KEY=VALUE", help="A reading option, such as on_overlap=first."),
]


def print_message(kind: str, message: str) -> None:
    """One line on standard error."""
    STDERR.print(Text.assemble((f"{kind}: ", STYLES.get(kind, "bold")), message))


def print_note(message: str) -> None:
    """A remark on standard error."""
    STDERR.print(Text(message, style="dim"))


def print_result(result: Any) -> None:
    """A table or text on standard output."""
    typer.echo(str(result))


def print_json(document: Mapping[str, Any]) -> None:
    """A JSON document on standard output."""
    typer.echo(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))


def spinner(message: str) -> AbstractContextManager[Any]:
    """A sign of life on a terminal while something takes its time; silent elsewhere."""
    return STDERR.status(message)


def parse_settings(pairs: Iterable[str] | None) -> dict[str, str]:
    """KEY=VALUE words as a mapping."""
    result = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"expected KEY=VALUE, got {pair!r}")
        result[key.strip()] = value.strip()
    return result


def parse_read_options(sources: list[str] | None, pairs: list[str] | None) -> dict[str, Any]:
    """Options for `read` from --sources and --read."""
    options: dict[str, Any] = dict(parse_settings(pairs))
    if sources:
        keyword = sources[0] if len(sources) == 1 else None
        options["sources"] = keyword if keyword in ("all", "recommended") else tuple(sources)
    return options


def print_issues(issues: Issues, *, list_hint: str = "convener convert --cases FILE") -> None:
    """What had to be decided: the counts, the first cases, and what lists all of them."""
    if not issues.items:
        return
    for kind, count in issues.counts().items():
        print_message("warning", f"{count} x {kind}")
    for case in issues.items[:MAX_LISTED]:
        print_note(f"  {case}")
    if len(issues) > MAX_LISTED:
        print_note(f"  ... and {len(issues) - MAX_LISTED} more ({list_hint} lists all)")


class _NoteHandler(logging.Handler):
    """What the library logs, as remarks on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        print_note(record.getMessage())


@contextmanager
def show_logs() -> Iterator[None]:
    """Show what the library logs, such as why a fit stopped."""
    logger, handler = logging.getLogger("convener"), _NoteHandler(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
