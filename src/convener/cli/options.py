"""Arguments and options shared by several commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from convener.errors import ConfigError

DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA", help="A file, or a folder with train, valid and test files.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
Split = Annotated[str | None, typer.Option(help="Split of a folder: train, valid or test.")]
Sources = Annotated[
    list[str] | None,
    typer.Option(help="all, recommended (default), or the name of a source; repeatable."),
]
InputFormat = Annotated[str | None, typer.Option("--format", help="Input format (default: from the file suffix).")]
OutputFormat = Annotated[str | None, typer.Option("--to", help="Output format (default: from the file suffix).")]
ReadOptions = Annotated[
    list[str] | None,
    typer.Option("--read", metavar="KEY=VALUE", help="Reader option, e.g. on_overlap=first; repeatable."),
]
Scheme = Annotated[str, typer.Option(help="Tagging scheme to write: bio, io, iobes or biluo.")]
Seed = Annotated[int | None, typer.Option(help="Random seed.")]
FeatureEncoder = Annotated[str | None, typer.Option(help="Encoder for models that use features.")]
UseGold = Annotated[
    bool | None, typer.Option("--use-gold", help="Use gold labels of the validation split for early stopping.")
]
TrainFrom = Annotated[
    str | None,
    typer.Option(metavar="SPLIT:SHARE", help="Train on the first SHARE of SPLIT if there is no train split."),
]
Resume = Annotated[bool, typer.Option("--resume", help="Skip a finished run; resume an interrupted one.")]


@dataclass(frozen=True, kw_only=True)
class ReadArgs:
    """What to read and how: the arguments of `convener.read` as given on the command line."""

    path: Path
    split: str | None = None
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def parse_settings(pairs: Iterable[str] | None) -> dict[str, str]:
    """KEY=VALUE arguments as a mapping."""
    result = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"expected KEY=VALUE, got {pair!r}")
        result[key.strip()] = value.strip()
    return result


def parse_read_options(sources: list[str] | None, pairs: list[str] | None) -> dict[str, Any]:
    """Options of `convener.read` from --sources and --read."""
    options: dict[str, Any] = dict(parse_settings(pairs))
    if sources:
        keyword = sources[0] if len(sources) == 1 else None
        options["sources"] = keyword if keyword in ("all", "recommended") else tuple(sources)
    return options
