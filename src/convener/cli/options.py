"""Arguments and options shared by several commands."""

from __future__ import annotations

import csv
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from convener.data.schemes import Scheme as SchemeName
from convener.data.validation import Unmarked
from convener.errors import ConfigError
from convener.io import canonical_split


def canonical_split_name(name: str | None) -> str | None:
    """Return "valid" for its other names, such as dev."""
    return None if name is None else canonical_split(name)


DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA", help="A file, or a folder with train, valid and test files.")
]
ModelDir = Annotated[
    Path, typer.Argument(metavar="MODEL_DIR", help="Folder of a fitted model, written by `convener fit`.")
]
DataPath = Annotated[
    Path | None,
    typer.Option("--data", metavar="DATA", help="Data to describe (default: the training data of the model)."),
]
Json = Annotated[bool, typer.Option("--json", metavar="", help="Print one JSON document on standard output.")]
Split = Annotated[
    str | None,
    typer.Option(metavar="SPLIT", callback=canonical_split_name, help="Split of a folder: train, valid or test."),
]
TrainFirstSplit = Annotated[
    str | None, typer.Option(metavar="SPLIT", callback=canonical_split_name, help="Split of a folder (default: train).")
]
TestFirstSplit = Annotated[
    str | None,
    typer.Option(metavar="SPLIT", callback=canonical_split_name, help="Split of a folder (default: test, else valid)."),
]
Sources = Annotated[
    list[str] | None,
    typer.Option(
        "--source",
        metavar="NAME,...",
        help="Sources to read: names, all, or recommended (default). Repeatable, or separated by commas.",
    ),
]
OutputFormat = Annotated[
    str | None, typer.Option(metavar="FORMAT", help="Output format (default: from the file suffix).")
]
Scheme = Annotated[SchemeName, typer.Option(help="Tagging scheme, for formats that write tags.")]
AllowLossy = Annotated[
    bool,
    typer.Option(
        "--allow-lossy", metavar="", help="Allow changes to votes and spans that the output format cannot represent."
    ),
]
Metadata = Annotated[
    bool | None,
    typer.Option(
        "--metadata/--no-metadata",
        metavar="",
        help="CoNLL and CSV: write everything, or the plain form for other tools (default: predictions are plain).",
    ),
]
Scores = Annotated[
    bool, typer.Option("--scores", metavar="", help="Plain CoNLL: scores of spans between token and tag.")
]
Probabilities = Annotated[
    bool,
    typer.Option(
        "--probabilities/--no-probabilities", metavar="", help="Write the label probabilities of every token."
    ),
]
Issues = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write every issue (overlaps, misaligned spans, repaired tags) to FILE."),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Random seed.")]
FeatureEncoder = Annotated[
    str | None, typer.Option(metavar="NAME", help="Encoder for models that use features; see `convener encoder list`.")
]
UseValidGold = Annotated[
    bool | None,
    typer.Option("--use-valid-gold", metavar="", help="Use gold labels of the validation split for early stopping."),
]
TrainSplit = Annotated[
    str | None,
    typer.Option(metavar="SPLIT:SHARE", help="Train on the first SHARE of SPLIT if there is no train split."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", "-S", metavar="KEY=VALUE", help="Setting of the model, tagger or encoder; repeatable."),
]
Resume = Annotated[bool, typer.Option("--resume", metavar="", help="Skip a finished run; resume an interrupted one.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", metavar="", help="Replace an existing run.")]
READING = "Reading"


@dataclass(frozen=True, kw_only=True)
class ReadArgs:
    """What to read and how; `options` are keywords of `convener.read`, as values or as strings."""

    path: Path
    split: str | None = None
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """The options of every command that reads data, in the help panel "Reading"."""

    input_format: Annotated[
        str | None,
        typer.Option(metavar="FORMAT", help="Input format (default: from the file suffix).", rich_help_panel=READING),
    ] = None
    types: Annotated[
        str | None,
        typer.Option(metavar="TYPE,...", help="Entity types (default: those of the data).", rich_help_panel=READING),
    ] = None
    unmarked: Annotated[
        Unmarked | None,
        typer.Option(
            help="What unmarked tokens mean: no opinion, or a vote for O (default: as the data states or shows).",
            rich_help_panel=READING,
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Encoding of text files, e.g. utf-16 or cp1252 (default: UTF-8).",
            rich_help_panel=READING,
        ),
    ] = None
    read_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="Another reader option, e.g. on_overlap=first; see `convener format list`. Repeatable.",
            rich_help_panel=READING,
        ),
    ] = None

    def to_dict(self, sources: Sequence[str] | None = None) -> dict[str, Any]:
        """Keywords of `convener.read`, with --source if the command has it."""
        options: dict[str, Any] = {"types": self.types, "unmarked": self.unmarked, "encoding": self.encoding}
        options = {name: value for name, value in options.items() if value is not None}
        if names := split_names(sources):
            options["sources"] = names[0] if names in (["all"], ["recommended"]) else tuple(names)
        return parse_settings(self.read_option) | options

    def args(self, path: Path, split: str | None = None, sources: Sequence[str] | None = None) -> ReadArgs:
        """The options together with what to read."""
        return ReadArgs(path=path, split=split, format=self.input_format, options=self.to_dict(sources))


def with_reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `reading` of a command by the fields of `ReadingOptions`, which typer then parses."""
    hints = get_type_hints(ReadingOptions, include_extras=True)
    added = [
        inspect.Parameter(item.name, inspect.Parameter.KEYWORD_ONLY, default=item.default, annotation=hints[item.name])
        for item in fields(ReadingOptions)
    ]

    @functools.wraps(command)
    def wrapper(**arguments: Any) -> None:
        given = {item.name: arguments.pop(item.name) for item in added}
        command(**arguments, reading=ReadingOptions(**given))

    signature = inspect.signature(command, eval_str=True)
    own = [
        item.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for item in signature.parameters.values()
        if item.name != "reading"
    ]
    wrapper.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {}
    return wrapper


def parse_settings(pairs: Iterable[str] | None) -> dict[str, Any]:
    """KEY=VALUE arguments as a mapping."""
    result: dict[str, Any] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"expected KEY=VALUE, got {pair!r}")
        result[key.strip()] = value.strip()
    return result


def split_names(values: Iterable[str] | None) -> list[str]:
    """The names in repeated and comma-separated values; a name that contains a comma stands in double quotes.

    >>> split_names(["names,places", '"Mr, Mrs"'])
    ['names', 'places', 'Mr, Mrs']
    """
    rows = csv.reader(values or (), skipinitialspace=True)
    return [name.strip() for row in rows for name in row if name.strip()]
