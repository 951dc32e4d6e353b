"""Commands about models: fit, predict, evaluate, models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from convener import io
from convener.cli import console
from convener.cli.data import DataArgument, read_split
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.tables import Table
from convener.errors import ConfigError, NoTypesError
from convener.evaluation.evaluation import evaluate as evaluate_predictions
from convener.evaluation.metrics import Mode
from convener.experiment import run
from convener.models import installed_models, list_models, load_model
from convener.models.base import LabelModel
from convener.taggers import is_tagger, load_tagger
from convener.taggers.base import Tagger


def fit(
    data: DataArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write the run to.")],
    model: Annotated[str | None, typer.Option(help="Which model; see `convener models`. Default: auto.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    encoder: Annotated[str | None, typer.Option(help="For models that read the text.")] = None,
    use_gold: Annotated[
        bool | None,
        typer.Option("--use-gold", help="Let the gold of valid decide when to stop."),
    ] = None,
    train_from: Annotated[
        str | None,
        typer.Option(metavar="SPLIT:SHARE", help="Make train of the first share of a split."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with these options.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the model; repeatable."),
    ] = None,
    sources: console.Sources = None,
    format: console.FormatName = None,
    read: console.ReadOption = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Keep what is there; go on if unfinished."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing run.")] = False,
    as_json: console.Json = False,
) -> None:
    """Fit a label model on train and write it, with its settings, to a folder."""
    run_config = run.RunConfig.resolve(
        config,
        model=model,
        encoder=encoder,
        use_gold=use_gold,
        train_from=train_from,
        settings=console.parse_settings(set_) | ({} if seed is None else {"seed": seed}),
        reading=console.parse_read_options(sources, read),
    )
    label_model = run_config.build()
    if run.is_complete(output, run_config, resume=resume, overwrite=overwrite):
        console.print_note(f"{output}: already complete")
        if as_json:
            console.print_json(run.read_run_info(output) | {"run": str(output)})
        return
    if run_config.encoder is not None and not label_model.needs_features:
        console.print_message("warning", f"{label_model.name} reads no features; --encoder changes nothing")
    if run_config.use_gold and not label_model.uses_valid_gold:
        console.print_message("warning", f"{label_model.name} has no use for gold; --use-gold changes nothing")
    issues = io.Issues()
    with console.spinner(f"reading {data}"):
        content = io.read(data, format=format, issues=issues, **run_config.reading)
    console.print_issues(issues)
    corpus = content if isinstance(content, Corpus) else Corpus(splits={"train": content})
    train, valid = run.select_training_data(corpus, run_config, str(data))
    with console.show_logs():
        extra_info = {"data": str(data.resolve()), **({"format": format} if format else {})}
        run_info = run.fit(label_model, train, valid, run_config, output, resume=resume, extra_info=extra_info)
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
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="What `fit` or `train-tagger` wrote.")],
    data: DataArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="File; the suffix decides.")],
    split: console.Split = None,
    format: console.FormatName = None,
    to: Annotated[str | None, typer.Option(help="Format of the output where its suffix does not tell.")] = None,
    scheme: Annotated[str, typer.Option(help="Tags to write: bio, io, iobes or biluo.")] = "bio",
    lossy: Annotated[bool, typer.Option("--lossy", help="Write even where votes or spans cannot be kept.")] = False,
    read: console.ReadOption = None,
    as_json: console.Json = False,
) -> None:
    """Label data with a fitted model and write the labels."""
    predictions, _ = _predict(folder, data, split, format, read)
    io.write(predictions, output, format=to, scheme=scheme, lossy=lossy)
    if as_json:
        console.print_json({"output": str(output), "spans": len(predictions.spans)})
        return
    console.print_note(f"{predictions!r} -> {output}")


def evaluate(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="A file of labels, a run, or a tagger.")],
    data: DataArgument,
    split: console.Split = None,
    mode: Annotated[Mode, typer.Option(help="A stray I- begins a span, or is dropped.")] = "lenient",
    bootstrap: Annotated[int, typer.Option(min=0, help="Resamplings for 95 % intervals; 0 for none.")] = 0,
    sources: console.Sources = None,
    format: console.FormatName = None,
    read: console.ReadOption = None,
    labels_read: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A reading option for a file of labels."),
    ] = None,
    as_json: console.Json = False,
) -> None:
    """Precision, recall and F1 against gold, with majority vote beside them."""
    if run.is_run(labels):
        if sources or labels_read:
            raise ConfigError(f"{labels}: a run has its own sources; leave out --sources")
        predictions, dataset = _predict(labels, data, split, format, read)
    else:
        prediction_options: dict[str, Any] = {"on_illegal": "drop" if mode == "strict" else "begin"}
        predictions = io.read_predictions(labels, **(prediction_options | console.parse_settings(labels_read)))
        options = console.parse_read_options(sources, read)
        if predictions.data.sources:
            options.setdefault("sources", predictions.data.sources)
        dataset = read_split(data, split, format=format, options=options)
    with console.spinner("evaluating"):
        result = evaluate_predictions(predictions, dataset, mode=mode, bootstrap_samples=bootstrap)
    if as_json:
        console.print_json(result.to_json())
    else:
        console.print_result(result)


def _predict(
    folder: Path, data: Path, split: str | None, format: str | None, read: list[str] | None
) -> tuple[Predictions, Dataset]:
    """What a run or a tagger says of data."""
    model = load_tagger(folder) if is_tagger(folder) else load_model(folder)
    dataset = read_for_model(model, folder, data, split, format, read)
    with console.show_logs():
        if not isinstance(model, LabelModel):
            return model.predict(dataset), dataset
        dataset = model.encode(dataset)
    with console.spinner("predicting"):
        return model.predict(dataset), dataset


def read_for_model(
    model: LabelModel | Tagger[Any],
    folder: Path,
    data: Path,
    split: str | None,
    format: str | None,
    read: list[str] | None,
) -> Dataset:
    """Data as the model's own was read, with its sources; with its types where none are shown."""
    options: dict[str, Any] = run.saved_read_options(folder) | console.parse_settings(read)
    if isinstance(model, LabelModel):
        options["sources"] = model.fitted.sources
    try:
        return read_split(data, split, format=format, options=options)
    except NoTypesError:
        options["types"] = model.fitted.types
        return read_split(data, split, format=format, options=options)


def models(as_json: console.Json = False) -> None:
    """The label models and what they need."""
    classes = installed_models()
    missing = sorted(set(list_models()) - {item.name for item in classes})
    if as_json:
        console.print_json(
            {
                "models": [
                    {
                        "name": item.name,
                        "features": item.needs_features,
                        "gold": item.supervised,
                        "summary": item.summary,
                    }
                    for item in classes
                ]
            }
        )
        return
    rows = [
        (
            item.name,
            "yes" if item.needs_features else "no",
            "yes" if item.supervised else "no",
            item.summary,
        )
        for item in classes
    ]
    console.print_result(
        Table(
            title="Label models",
            columns=("model", "features", "sees gold", "what it does"),
            rows=tuple(rows),
            notes=tuple(f"{name}: pip install 'convener[encoders]'" for name in missing),
        )
    )
