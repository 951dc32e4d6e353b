"""The command that compares models: compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from convener import io
from convener.cli import console
from convener.cli.data import DataArgument
from convener.cli.models import read_for_model
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.tables import Table
from convener.errors import DataError
from convener.experiment.benchmark import ALL_MODELS, Benchmark, Trial, TrialResult, make_trials, results_table
from convener.models.base import LabelModel
from convener.report.comparison import render_comparison
from convener.storage import atomic_write

EVAL_SPLITS = ("test", "valid", "train")
"""The splits to judge by, the first that is there."""


def compare(
    data: DataArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for runs and results.")],
    models: Annotated[str, typer.Option(help="all, or names with commas between; see `convener models`.")] = ALL_MODELS,
    seeds: Annotated[int, typer.Option(min=1, help="For models that have chance in them.")] = 5,
    split: Annotated[str | None, typer.Option(help="To judge by; by default test, where there is one.")] = None,
    encoder: Annotated[str | None, typer.Option(help="For models that read the text.")] = None,
    use_gold: Annotated[bool, typer.Option("--use-gold", help="Let the gold of valid decide when to stop.")] = False,
    train_from: Annotated[
        str | None,
        typer.Option(metavar="SPLIT:SHARE", help="Make train of the first share of a split."),
    ] = None,
    sources: console.Sources = None,
    format: console.FormatName = None,
    read: console.ReadOption = None,
    as_json: console.Json = False,
) -> None:
    """Fit every model, judge all by the same gold, and write one table and one page.

    The same command goes on where it was stopped.
    """
    trials = make_trials([name.strip() for name in models.split(",")], seeds)
    eval_split = _eval_split(data, split)

    def read_eval_data(model: LabelModel, folder: Path) -> Dataset:
        return read_for_model(model, folder, data, eval_split, format, read)

    benchmark = Benchmark(
        folder=output,
        command=_fit_arguments(data, encoder, use_gold, train_from, sources, format, read),
        read_data=read_eval_data,
        eval_key=f"{data.resolve()} {eval_split}",
    )
    results = benchmark.run_all(trials)
    table = results_table(results, f"{data.name}, {eval_split or 'all'}: models compared")
    _write_results(benchmark, results, table, output)
    if as_json:
        console.print_json({"models": table.to_records(), "output": str(output)})
    else:
        console.print_result(table)
    console.print_note(f"table.md, table.json and report.html are in {output}")


def _eval_split(data: Path, split: str | None) -> str | None:
    """The split to judge by; None where the data is one file."""
    files = io.find_split_files(data)
    if not files or split is not None:
        return split
    return next((name for name in EVAL_SPLITS if name in files), None)


def _fit_arguments(
    data: Path,
    encoder: str | None,
    use_gold: bool,
    train_from: str | None,
    sources: list[str] | None,
    format: str | None,
    read: list[str] | None,
) -> list[str]:
    """The words after `convener fit`."""
    arguments = [str(data)]
    for option, value in (
        ("--encoder", encoder),
        ("--train-from", train_from),
        ("--format", format),
    ):
        arguments += [] if value is None else [option, value]
    arguments += ["--use-gold"] if use_gold else []
    for option, values in (("--sources", sources), ("--read", read)):
        for value in values or []:
            arguments += [option, value]
    return arguments


def _write_results(
    benchmark: Benchmark,
    results: dict[Trial, TrialResult],
    table: Table,
    output: Path,
) -> None:
    """The table as text and JSON, and a page with the first seed of every model."""
    predictions: dict[str, Predictions] = {}
    dataset: Dataset | None = None
    for trial, result in results.items():
        if trial.seed == 0 and "failed" not in result:
            dataset, predictions[trial.model] = benchmark.predict(trial)
    if dataset is None:
        failed = "; ".join(note for note in table.notes[1:])
        raise DataError(f"no model could be fitted: {failed}")
    texts = {
        "table.md": f"```\n{table}\n```\n",
        "table.json": json.dumps(table.to_records(), indent=2) + "\n",
    }
    if len(predictions) > 1:
        texts["report.html"] = render_comparison(dataset, predictions, title=table.title)
    for name, text in texts.items():
        with atomic_write(output / name) as draft:
            draft.write_text(text, encoding="utf-8")
