"""The command that fits and evaluates several models: compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from convener import io
from convener.cli import console, options
from convener.cli.models import read_for_run
from convener.cli.options import ReadArgs, parse_settings
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.tables import Table
from convener.errors import DataError
from convener.experiment.benchmark import ALL_MODELS, Benchmark, Trial, TrialResult, make_trials, results_table
from convener.experiment.run import Run
from convener.report.comparison import render_comparison
from convener.storage import atomic_write

EVAL_SPLITS = ("test", "valid", "train")
"""Splits to evaluate on, in order of preference."""


def compare(
    data: options.DataArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for runs and results.")],
    models: Annotated[str, typer.Option(help="all, or comma-separated names; see `convener models`.")] = ALL_MODELS,
    seeds: Annotated[int, typer.Option(min=1, help="Random seeds per stochastic model.")] = 5,
    split: Annotated[str | None, typer.Option(help="Split to evaluate on (default: test).")] = None,
    encoder: options.FeatureEncoder = None,
    use_gold: options.UseGold = None,
    train_from: options.TrainFrom = None,
    sources: options.Sources = None,
    format: options.InputFormat = None,
    read: options.ReadOptions = None,
    as_json: options.Json = False,
) -> None:
    """Fit and evaluate label models on one corpus; re-running resumes.

    Writes one table and one HTML page.
    """
    trials = make_trials([name.strip() for name in models.split(",")], seeds)
    eval_split = _eval_split(data, split)

    read_args = ReadArgs(path=data, split=eval_split, format=format, options=parse_settings(read))

    def read_eval_data(run: Run) -> Dataset:
        return read_for_run(run, read_args)

    benchmark = Benchmark(
        folder=output,
        fit_arguments=_fit_arguments(data, encoder, bool(use_gold), train_from, sources, format, read),
        read_data=read_eval_data,
        eval_key=f"{data.resolve()} {eval_split}",
    )
    results = benchmark.run_all(trials)
    table = results_table(results, f"Label models on {data.name}, {eval_split or 'all sentences'}")
    _write_results(benchmark, results, table, output)
    if as_json:
        console.print_json({"models": table.to_records(), "output": str(output)})
    else:
        console.print_result(table)
    console.print_note(f"table.md, table.json and report.html are in {output}")


def _eval_split(data: Path, split: str | None) -> str | None:
    """Split to evaluate on; None if the data is a single file."""
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
    """Arguments of `convener fit`, without model, seed and output folder."""
    arguments = [str(data)]
    for option, value in (("--encoder", encoder), ("--train-from", train_from), ("--format", format)):
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
    """Write the table as text and JSON, and an HTML page with the first seed of every model."""
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
