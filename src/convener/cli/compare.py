"""Commands about several models: compare, benchmark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from convener.cli import console, options
from convener.cli.options import ReadingOptions, split_names, with_reading_options
from convener.cli.reading import TEST_FIRST, TRAIN_FIRST, choose_split, read_dataset
from convener.cli.report import args_for_report
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.tables import Table
from convener.errors import ConfigError, DataError
from convener.experiment.benchmark import ALL_MODELS, Benchmark, Trial, TrialResult, make_trials, results_table
from convener.experiment.run import Run, RunOptions
from convener.report.comparison import render_comparison
from convener.report.run_summary import predict_for_report
from convener.storage import atomic_write


@with_reading_options
def compare(
    model_dirs: Annotated[
        list[Path], typer.Argument(metavar="MODEL_DIR...", help="Folders of fitted models, written by `convener fit`.")
    ],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="HTML file to write.")] = Path(
        "comparison.html"
    ),
    data: options.DataPath = None,
    split: options.TrainFirstSplit = None,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Write an HTML page that compares fitted models on the same sentences."""
    runs = {name: Run.open(folder) for name, folder in _unique_names(model_dirs).items()}
    path = data or next(iter(runs.values())).data_path
    args = choose_split(reading.args(path, split), TRAIN_FIRST)
    predictions: dict[str, Predictions] = {}
    datasets: list[Dataset] = []
    for name, run in runs.items():
        model, dataset = run.label_model, read_dataset(args_for_report(run, args), run=run)
        with console.show_logs():
            predictions[name] = predict_for_report(model, model.encode(dataset))
        datasets.append(dataset)
    reference = max(datasets, key=lambda dataset: len(dataset.sources))
    html = render_comparison(reference, predictions)
    with atomic_write(output) as draft:
        draft.write_text(html, encoding="utf-8")
    if as_json:
        console.print_json({"output": str(output), "models": list(predictions)})
    console.print_note(f"{len(predictions)} models -> {output}")


@with_reading_options
def benchmark(
    data: options.DataArgument,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder for runs and results.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help="Label models (default: all); see `convener model list`. Repeatable, or separated by commas.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Random seeds per stochastic model.")] = 5,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT",
            callback=options.canonical_split_name,
            help="Split to evaluate on (default: test, else valid).",
        ),
    ] = None,
    encoder: options.FeatureEncoder = None,
    use_valid_gold: options.UseValidGold = None,
    train_split: options.TrainSplit = None,
    source: options.Sources = None,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Fit and evaluate label models on one corpus; re-running resumes.

    Writes one table and one HTML page.
    """
    trials = make_trials(split_names(model) or [ALL_MODELS], seeds)
    args = choose_split(reading.args(data, split), TEST_FIRST)
    study = Benchmark(
        folder=output,
        data_path=data,
        format=reading.input_format,
        run_options=RunOptions(encoder=encoder, use_valid_gold=bool(use_valid_gold), train_split=train_split),
        read_options=reading.to_dict(source),
        read_data=lambda run: read_dataset(args, run=run),
        eval_key=f"{data.resolve()} {args.split}",
    )
    results = study.run_all(trials)
    table = results_table(results, f"Label models on {data.name}, {args.split or 'all sentences'}")
    _write_results(study, results, table, output)
    if as_json:
        console.print_json({"models": console.to_records(table), "output": str(output)})
    else:
        console.print_result(table)
    console.print_note(f"table.md, table.json and report.html are in {output}")


def _unique_names(folders: Sequence[Path]) -> dict[str, Path]:
    """Folders by name, or by path if the names are not unique."""
    for names in ([folder.resolve().name for folder in folders], [str(folder) for folder in folders]):
        if len(set(names)) == len(folders):
            return dict(zip(names, folders, strict=True))
    raise ConfigError(f"the same model is given twice: {' '.join(map(str, folders))}")


def _write_results(study: Benchmark, results: dict[Trial, TrialResult], table: Table, output: Path) -> None:
    """Write the table as text and JSON, and an HTML page with the first seed of every model."""
    predictions: dict[str, Predictions] = {}
    dataset: Dataset | None = None
    for trial, result in results.items():
        if trial.seed == 0 and "error" not in result:
            dataset, predictions[trial.model] = study.predict(trial)
    if dataset is None:
        failed = "; ".join(note for note in table.notes[1:])
        raise DataError(f"no model could be fitted: {failed}")
    texts = {
        "table.md": f"```\n{table}\n```\n",
        "table.json": json.dumps(console.to_records(table), indent=2) + "\n",
    }
    if len(predictions) > 1:
        texts["report.html"] = render_comparison(dataset, predictions, title=table.title)
    for name, text in texts.items():
        with atomic_write(output / name) as draft:
            draft.write_text(text, encoding="utf-8")
