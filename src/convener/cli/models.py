"""Commands about label models: fit, predict, evaluate, models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from convener import io
from convener.cli import console, options
from convener.cli.data import read_data, read_split
from convener.cli.options import ReadArgs, parse_read_options, parse_settings
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.tables import Table
from convener.errors import ConfigError, NoTypesError
from convener.evaluation.evaluation import evaluate as evaluate_predictions
from convener.evaluation.metrics import Mode
from convener.experiment.run import Run, RunConfig, fit_run, is_complete, is_run, select_training_data
from convener.models import get_model, list_models
from convener.models.base import LabelModel


def fit(
    data: options.DataArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write the run to.")],
    model: Annotated[str | None, typer.Option(help="Label model; see `convener models` (default: auto).")] = None,
    seed: options.Seed = None,
    encoder: options.FeatureEncoder = None,
    use_gold: options.UseGold = None,
    train_from: options.TrainFrom = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with these options.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Setting of the model; repeatable."),
    ] = None,
    sources: options.Sources = None,
    format: options.InputFormat = None,
    read: options.ReadOptions = None,
    resume: options.Resume = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing run.")] = False,
    as_json: options.Json = False,
) -> None:
    """Fit a label model on the train split and write it, with its settings, to a folder."""
    run_config = RunConfig.resolve(
        config,
        model=model,
        encoder=encoder,
        use_gold=use_gold,
        train_from=train_from,
        settings=parse_settings(set_) | ({} if seed is None else {"seed": seed}),
        reading=parse_read_options(sources, read),
    )
    label_model = run_config.build()
    if is_complete(output, run_config, resume=resume, overwrite=overwrite):
        console.print_note(f"{output}: already complete")
        if as_json:
            console.print_json(Run.open(output).info | {"run": str(output)})
        return
    if run_config.encoder is not None and not label_model.needs_features:
        console.print_message("warning", f"{label_model.name} does not use features; --encoder is ignored")
    if run_config.use_gold and not label_model.uses_valid_gold:
        console.print_message("warning", f"{label_model.name} does not use validation gold; --use-gold is ignored")
    content = read_data(ReadArgs(path=data, format=format, options=run_config.reading))
    corpus = content if isinstance(content, Corpus) else Corpus(splits={"train": content})
    train, valid = select_training_data(corpus, run_config.train_from, str(data))
    with console.show_logs():
        extra_info = {"data": str(data.resolve()), **({"format": format} if format else {})}
        run_info = fit_run(label_model, train, valid, run_config, output, resume=resume, extra_info=extra_info)
    if as_json:
        console.print_json(run_info | {"run": str(output)})
        return
    console.print_result(label_model.reliability())
    for line in label_model.explain():
        console.print_note(line)
    console.print_note(
        f"{label_model.name} fitted on {len(train):,} sentences in {run_info['seconds']:.1f} s -> {output}"
    )
    split = " --split test" if data.is_dir() else ""
    console.print_note(f"next: convener evaluate {output} {data}{split}; convener report {output}")


def predict(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder written by `fit` or `train-tagger`.")],
    data: options.DataArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="File to write.")],
    split: options.Split = None,
    format: options.InputFormat = None,
    to: options.OutputFormat = None,
    scheme: options.Scheme = "bio",
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Allow changes to votes and spans that the output format cannot represent.")
    ] = False,
    read: options.ReadOptions = None,
    as_json: options.Json = False,
) -> None:
    """Predict labels with a fitted model or tagger and write them."""
    read_args = ReadArgs(path=data, split=split, format=format, options=parse_settings(read))
    predictions, _ = _predict(Run.open(folder), read_args)
    io.write(predictions, output, format=to, scheme=scheme, lossy=lossy)
    if as_json:
        console.print_json({"output": str(output), "spans": len(predictions.spans)})
        return
    console.print_note(f"{predictions!r} -> {output}")


def evaluate(
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="A file of predictions, or the folder of a model or tagger.")
    ],
    data: options.DataArgument,
    split: options.Split = None,
    mode: Annotated[
        Mode, typer.Option(help="An I- tag that continues nothing starts a span (conlleval) or is ignored (strict).")
    ] = "conlleval",
    bootstrap: Annotated[int, typer.Option(min=0, help="Bootstrap samples for 95% intervals; 0 for none.")] = 0,
    sources: options.Sources = None,
    format: options.InputFormat = None,
    read: options.ReadOptions = None,
    labels_read: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Reader option for the file of predictions; repeatable."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Precision, recall and F1 against gold, compared with majority vote."""
    read_args = ReadArgs(path=data, split=split, format=format, options=parse_read_options(sources, read))
    if is_run(labels):
        if sources or labels_read:
            raise ConfigError(f"{labels}: a saved model; --sources and --labels-read are for files of predictions")
        predictions, dataset = _predict(Run.open(labels), read_args)
    else:
        prediction_options: dict[str, Any] = {"on_illegal": "drop" if mode == "strict" else "start"}
        predictions = io.read_predictions(labels, **(prediction_options | parse_settings(labels_read)))
        if predictions.data.sources:
            read_args = replace(read_args, options={"sources": predictions.data.sources} | dict(read_args.options))
        dataset = read_split(read_args)
    with console.spinner("evaluating"):
        result = evaluate_predictions(predictions, dataset, mode=mode, bootstrap_samples=bootstrap)
    if as_json:
        console.print_json(result.to_json())
    else:
        console.print_result(result)


def models(as_json: options.Json = False) -> None:
    """List the label models and what they need."""
    classes = [get_model(name) for name in list_models()]
    if as_json:
        records = [
            {
                "name": model.name,
                "features": model.needs_features,
                "gold": model.supervised,
                "summary": model.summary,
            }
            for model in classes
        ]
        console.print_json({"models": records})
        return
    console.print_result(
        Table(
            title="Label models",
            columns=("model", "needs features", "needs gold", "description"),
            rows=[
                (
                    model.name,
                    "yes" if model.needs_features else "no",
                    "yes" if model.supervised else "no",
                    model.summary,
                )
                for model in classes
            ],
        )
    )


def read_for_run(run: Run, args: ReadArgs) -> Dataset:
    """Read one Dataset with the read options and sources of a run; `args.options` take precedence.

    If the file names no entity types, those of the model are used.
    """
    read_options: dict[str, Any] = {**run.read_options, **args.options}
    if isinstance(run.model, LabelModel):
        read_options["sources"] = run.model.fitted.sources
    try:
        return read_split(replace(args, options=read_options))
    except NoTypesError:
        return read_split(replace(args, options={**read_options, "types": run.model.fitted.types}))


def _predict(run: Run, args: ReadArgs) -> tuple[Predictions, Dataset]:
    """Predictions of a label model or tagger, and the data they refer to."""
    model, dataset = run.model, read_for_run(run, args)
    with console.show_logs():
        if not isinstance(model, LabelModel):
            return model.predict(dataset), dataset
        dataset = model.encode(dataset)
    with console.spinner("predicting"):
        return model.predict(dataset), dataset
