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

from convener.errors import ConfigError
from convener.io import Report

ERR = Console(stderr=True, soft_wrap=True)
COLOURS = {"error": "bold red", "warning": "yellow", "stopped": "yellow"}
LISTED = 10

Json = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Split = Annotated[str | None, typer.Option(help="Which split of a folder: train, valid or test.")]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        help="all, recommended (default), or the name of a source; several by repeating it."
    ),
]
FormatName = Annotated[
    str | None, typer.Option("--format", help="Format of DATA where its suffix does not tell.")
]
Reading = Annotated[
    list[str] | None,
    typer.Option("--read", metavar="KEY=VALUE", help="A reading option, such as on_overlap=first."),
]


def say(kind: str, message: str) -> None:
    """One line on standard error."""
    ERR.print(Text.assemble((f"{kind}: ", COLOURS.get(kind, "bold")), message))


def note(message: str) -> None:
    """A remark on standard error."""
    ERR.print(Text(message, style="dim"))


def show(result: Any) -> None:
    """A table or text on standard output."""
    typer.echo(str(result))


def show_json(document: Mapping[str, Any]) -> None:
    """A JSON document on standard output."""
    typer.echo(json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False))


def working(what: str) -> AbstractContextManager[Any]:
    """A sign of life on a terminal while something takes its time; silent elsewhere."""
    return ERR.status(what)


def settings(pairs: Iterable[str] | None) -> dict[str, str]:
    """KEY=VALUE words as a mapping."""
    result = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"expected KEY=VALUE, got {pair!r}")
        result[key.strip()] = value.strip()
    return result


def reading(sources: list[str] | None, pairs: list[str] | None) -> dict[str, Any]:
    """Options for `read` from --sources and --read."""
    options: dict[str, Any] = dict(settings(pairs))
    if sources:
        word = sources[0] if len(sources) == 1 else None
        options["sources"] = word if word in ("all", "recommended") else tuple(sources)
    return options


def show_report(report: Report, *, all_in: str = "convener convert --cases FILE") -> None:
    """What had to be decided: the counts, the first cases, and what lists all of them."""
    if not report.cases:
        return
    for kind, count in report.counts().items():
        say("warning", f"{count} x {kind}")
    for case in report.cases[:LISTED]:
        note(f"  {case}")
    if len(report) > LISTED:
        note(f"  ... and {len(report) - LISTED} more ({all_in} lists all)")


class _Notes(logging.Handler):
    """What the library logs, as remarks on standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        note(record.getMessage())


@contextmanager
def remarks() -> Iterator[None]:
    """Show what the library logs, such as why a fit stopped."""
    logger, handler = logging.getLogger("convener"), _Notes(logging.INFO)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
