"""Commands about label models: fit, predict, evaluate, model list, model info."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated

import typer

from convener import io
from convener.cli import console, options
from convener.cli.field_docs import field_docs
from convener.cli.options import ReadArgs, ReadingOptions, parse_settings, with_reading_options
from convener.cli.reading import TEST_FIRST, choose_split, read_corpus, read_dataset
from convener.cli.streams import standard_input, standard_output
from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.tables import Table
from convener.errors import ConfigError
from convener.evaluation.evaluation import evaluate as evaluate_predictions
from convener.evaluation.metrics import Mode
from convener.evaluation.source_reliability import INTERVAL_NOTE, METRICS, interval_of
from convener.experiment.run import Run, RunConfig, fit_run, is_complete, is_run, select_training_data
from convener.io.formats import ReadOptions
from convener.models import get_model, list_models
from convener.models.base import LabelModel

model_app = typer.Typer(help="List label models and describe their settings.")


@with_reading_options
def fit(
    data: options.DataArgument,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write the run to.")],
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Label model; see `convener model list` (default: auto).")
    ] = None,
    seed: options.Seed = None,
    encoder: options.FeatureEncoder = None,
    use_valid_gold: options.UseValidGold = None,
    train_split: options.TrainSplit = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="TOML file with these options.")] = None,
    set_: options.Settings = None,
    source: options.Sources = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Fit a label model on the train split and write it, with its settings, to a folder."""
    run_config = RunConfig.resolve(
        config,
        model=model,
        encoder=encoder,
        use_valid_gold=use_valid_gold,
        train_split=train_split,
        model_settings=parse_settings(set_) | ({} if seed is None else {"seed": seed}),
        read_options=reading.to_dict(source),
    )
    label_model = run_config.build()
    if is_complete(output, run_config, resume=resume, overwrite=overwrite):
        console.print_note(f"{output}: already complete")
        if as_json:
            console.print_json(Run.open(output).info | {"output": str(output)})
        return
    if run_config.encoder is not None and not label_model.needs_features:
        console.print_message("warning", f"{label_model.name} does not use features; --encoder is ignored")
    if run_config.use_valid_gold and not label_model.uses_valid_gold:
        console.print_message(
            "warning", f"{label_model.name} does not use validation gold; --use-valid-gold is ignored"
        )
    corpus = read_corpus(ReadArgs(path=data, format=reading.input_format, options=run_config.read_options))
    train, valid = select_training_data(corpus, run_config.train_split, str(data))
    extra_info = {"data_path": str(data.resolve())}
    if reading.input_format is not None:
        extra_info["format"] = reading.input_format
    with console.show_logs():
        run_info = fit_run(label_model, train, valid, run_config, output, resume=resume, extra_info=extra_info)
    if as_json:
        console.print_json(run_info | {"output": str(output)})
        return
    console.print_result(_with_intervals(label_model.reliability()))
    for line in label_model.explain():
        console.print_note(line)
    console.print_note(
        f"{label_model.name} fitted on {len(train):,} sentences in {run_info['fit_seconds']:.1f} s -> {output}"
    )
    console.print_note(f"next: convener evaluate {output} {data}; convener report {output}")


def _with_intervals(reliability: Table) -> Table:
    """The same rows, with each metric and its bounds in one column."""
    records = reliability.to_records()
    return replace(
        reliability,
        columns=("source", "type", "marks", *METRICS),
        rows=[[*list(row.values())[:3], *(str(interval_of(row, metric)) for metric in METRICS)] for row in records],
        notes=(*reliability.notes, INTERVAL_NOTE),
    )


@with_reading_options
def predict(
    model_dir: Annotated[Path, typer.Argument(metavar="MODEL_DIR", help="Folder written by `fit` or `train-tagger`.")],
    data: options.DataArgument,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="File to write.")],
    split: options.Split = None,
    output_format: options.OutputFormat = None,
    scheme: options.Scheme = "bio",
    allow_lossy: options.AllowLossy = False,
    metadata: options.Metadata = None,
    scores: options.Scores = False,
    probabilities: options.Probabilities = True,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Predict labels with a fitted model or tagger and write them.

    CoNLL (token and tag) and CSV (one row per span) are written as other tools read them; --metadata adds the votes.
    DATA and FILE may be - for standard input (text, or JSON Lines) and standard output (JSON Lines).
    """
    with standard_input(data) as path:
        predictions, _ = _predict(Run.open(model_dir), reading.args(path, split))
    with standard_output(output, output_format, as_json=as_json) as path:
        io.write(
            predictions,
            path,
            format=output_format,
            scheme=scheme,
            allow_lossy=allow_lossy,
            metadata=metadata,
            scores=scores,
            probabilities=probabilities,
        )
    if as_json:
        console.print_json({"output": str(output), "spans": len(predictions.spans)})
        return
    console.print_note(f"{predictions!r} -> {output}")


@with_reading_options
def evaluate(
    model_or_predictions: Annotated[
        Path,
        typer.Argument(metavar="MODEL_OR_PREDICTIONS", help="Folder of a model or tagger, or a file of predictions."),
    ],
    data: options.DataArgument,
    *,
    split: options.TestFirstSplit = None,
    mode: Annotated[
        Mode, typer.Option(help="An I- tag that continues nothing starts a span (conlleval) or is ignored (strict).")
    ] = "conlleval",
    bootstrap_samples: Annotated[
        int, typer.Option(metavar="N", min=0, help="Bootstrap samples for 95% intervals; 0 for none.")
    ] = 0,
    source: options.Sources = None,
    predictions_option: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Reader option for the file of predictions; repeatable."),
    ] = None,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Precision, recall and F1 against gold, compared with majority vote."""
    data_issues = Issues()
    path, args = model_or_predictions, choose_split(reading.args(data, split, source), TEST_FIRST)
    if is_run(path):
        if source or predictions_option:
            raise ConfigError(f"{path}: a saved model; --source and --predictions-option are for files of predictions")
        predictions, dataset = _predict(Run.open(path), args, issues=data_issues)
    else:
        on_illegal = {"on_illegal": "drop" if mode == "strict" else "start"}
        predictions_options = ReadOptions.from_dict(on_illegal | parse_settings(predictions_option))
        issues = Issues()
        predictions = io.load_predictions(path, format=None, options=predictions_options, issues=issues)
        console.print_issues(issues)
        if predictions.data.sources:
            args = replace(args, options={"sources": predictions.data.sources} | dict(args.options))
        dataset = read_dataset(args, issues=data_issues)
    num_illegal = sum(issue.kind == "illegal tag" and issue.source == "gold" for issue in data_issues)
    if mode == "strict" and num_illegal:
        console.print_message(
            "warning",
            "the gold labels have illegal tags, and each starts a span here; seqeval's strict mode drops these spans "
            "from the gold, so its scores differ. For the same scores, pass --read-option on_illegal=drop",
        )
    with console.spinner("evaluating"):
        result = evaluate_predictions(predictions, dataset, mode=mode, bootstrap_samples=bootstrap_samples)
    if as_json:
        console.print_json(result.to_json())
    else:
        console.print_result(result)


@model_app.command("list")
def list_models_command(as_json: options.Json = False) -> None:
    """List the label models and what they need."""
    classes = [get_model(name) for name in list_models()]
    table = Table(
        title="Label models",
        columns=("model", "needs features", "needs gold", "description"),
        rows=[(model.name, model.needs_features, model.supervised, model.summary) for model in classes],
        notes=("settings of a model: convener model info NAME",),
    )
    if as_json:
        console.print_json({"models": console.to_records(table)})
    else:
        console.print_result(table)


@model_app.command("info")
def model_info(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Label model; see `convener model list`.")],
    as_json: options.Json = False,
) -> None:
    """Describe a label model and list its settings, for `fit --set KEY=VALUE`."""
    model = get_model(name)
    docs, defaults = field_docs(model.Config), model.Config()
    settings = Table(
        title=f"Settings of {name}",
        columns=("setting", "default", "meaning"),
        rows=[
            (item.name, "none" if (value := getattr(defaults, item.name)) is None else value, docs[item.name])
            for item in fields(model.Config)
        ],
    )
    description = inspect.cleandoc(model.__doc__ or "").partition("\n>>> ")[0].strip()
    if as_json:
        flags = {"needs_features": model.needs_features, "needs_gold": model.supervised}
        flags |= {"needs_gold_to_predict": model.needs_gold_to_predict}
        flags |= {"uses_valid_gold": model.uses_valid_gold, "supports_coarse": model.supports_coarse}
        document = {"model": name, **flags, "description": description, "settings": console.to_records(settings)}
        console.print_json(document)
        return
    console.print_result(f"{description}\n\n{settings}")


def _predict(run: Run, args: ReadArgs, issues: Issues | None = None) -> tuple[Predictions, Dataset]:
    """Predictions of a label model or tagger, and the data they refer to."""
    model, dataset = run.model, read_dataset(args, run=run, issues=issues)
    with console.show_logs():
        if not isinstance(model, LabelModel):
            return model.predict(dataset), dataset
        dataset = model.encode(dataset)
    with console.spinner("predicting"):
        return model.predict(dataset), dataset
