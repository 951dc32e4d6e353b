"""The command that compares models: compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from convener import contest, io
from convener.cli import terminal
from convener.cli.data import Data
from convener.cli.runs import read_for
from convener.data import Dataset
from convener.errors import DataError
from convener.io.files import whole
from convener.models import LabelModel
from convener.predictions import Predictions
from convener.report.comparison import comparison_page
from convener.tables import Table

MEASURED = ("test", "valid", "train")
"""The splits to judge by, the first that is there."""


def compare(
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for runs and results.")],
    models: Annotated[
        str, typer.Option(help="all, or names with commas between; see `convener models`.")
    ] = contest.ALL,
    seeds: Annotated[int, typer.Option(min=1, help="For models that have chance in them.")] = 5,
    split: Annotated[
        str | None, typer.Option(help="To judge by; by default test, where there is one.")
    ] = None,
    encoder: Annotated[str | None, typer.Option(help="For models that read the text.")] = None,
    use_gold: Annotated[
        bool, typer.Option("--use-gold", help="Let the gold of valid decide when to stop.")
    ] = False,
    train_from: Annotated[
        str | None,
        typer.Option(metavar="SPLIT:SHARE", help="Make train of the first share of a split."),
    ] = None,
    sources: terminal.Sources = None,
    format: terminal.FormatName = None,
    read: terminal.Reading = None,
    as_json: terminal.Json = False,
) -> None:
    """Fit every model, judge all by the same gold, and write one table and one page.

    The same command goes on where it was stopped.
    """
    everybody = contest.entrants([name.strip() for name in models.split(",")], seeds)
    judged = _split(data, split)

    def data_of(model: LabelModel, folder: Path) -> Dataset:
        return read_for(model, folder, data, judged, format, read)

    held = contest.Contest(
        folder=output,
        command=_command(data, encoder, use_gold, train_from, sources, format, read),
        data_of=data_of,
        asked=f"{data.resolve()} {judged}",
    )
    found = held.hold(everybody)
    table = contest.table(found, f"{data.name}, {judged or 'all'}: models compared")
    _write(held, found, table, output)
    if as_json:
        terminal.show_json({"models": table.to_records(), "output": str(output)})
    else:
        terminal.show(table)
    terminal.note(f"table.md, table.json and report.html are in {output}")


def _split(data: Path, split: str | None) -> str | None:
    """The split to judge by; None where the data is one file."""
    files = io.split_files(data)
    if not files or split is not None:
        return split
    return next((name for name in MEASURED if name in files), None)


def _command(
    data: Path,
    encoder: str | None,
    use_gold: bool,
    train_from: str | None,
    sources: list[str] | None,
    format: str | None,
    read: list[str] | None,
) -> list[str]:
    """The words after `convener fit`."""
    words = [str(data)]
    for option, value in (
        ("--encoder", encoder),
        ("--train-from", train_from),
        ("--format", format),
    ):
        words += [] if value is None else [option, value]
    words += ["--use-gold"] if use_gold else []
    for option, values in (("--sources", sources), ("--read", read)):
        for value in values or []:
            words += [option, value]
    return words


def _write(
    held: contest.Contest,
    found: dict[contest.Entrant, contest.Outcome],
    table: Table,
    output: Path,
) -> None:
    """The table as text and JSON, and a page with the first seed of every model."""
    answers: dict[str, Predictions] = {}
    shown: Dataset | None = None
    for entrant, outcome in found.items():
        if entrant.seed == 0 and "failed" not in outcome:
            shown, answers[entrant.model] = held.answer(entrant)
    if shown is None:
        failed = "; ".join(note for note in table.notes[1:])
        raise DataError(f"no model could be fitted: {failed}")
    texts = {
        "table.md": f"```\n{table}\n```\n",
        "table.json": json.dumps(table.to_records(), indent=2) + "\n",
    }
    if len(answers) > 1:
        texts["report.html"] = comparison_page(shown, answers, title=table.title)
    for name, text in texts.items():
        with whole(output / name) as draft:
            draft.write_text(text, encoding="utf-8")
