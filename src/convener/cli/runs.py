"""Commands about models: fit, predict, evaluate, models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from convener import io, run
from convener.cli import terminal
from convener.cli.data import Data, read_split
from convener.corpus import Corpus
from convener.data import Dataset
from convener.errors import ConfigError, NoTypesError
from convener.evaluate import Mode
from convener.evaluate import evaluate as evaluate_predictions
from convener.models import LabelModel, available, installed
from convener.predictions import Predictions
from convener.tables import Table
from convener.tagger import Tagger, is_tagger
from convener.tagger import load as load_tagger


def fit(
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write the run to.")],
    model: Annotated[
        str | None, typer.Option(help="Which model; see `convener models`. Default: auto.")
    ] = None,
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
    sources: terminal.Sources = None,
    format: terminal.FormatName = None,
    read: terminal.Reading = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Keep what is there; go on if unfinished."),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing run.")
    ] = False,
    as_json: terminal.Json = False,
) -> None:
    """Fit a label model on train and write it, with its settings, to a folder."""
    resolved = run.RunConfig.resolve(
        config,
        model=model,
        encoder=encoder,
        use_gold=use_gold,
        train_from=train_from,
        settings=terminal.settings(set_) | ({} if seed is None else {"seed": seed}),
        reading=terminal.reading(sources, read),
    )
    chosen = resolved.build()
    if run.is_complete(output, resolved, resume=resume, overwrite=overwrite):
        terminal.note(f"{output}: already complete")
        if as_json:
            terminal.show_json(run.facts(output) | {"run": str(output)})
        return
    if resolved.encoder is not None and not chosen.needs_features:
        terminal.say("warning", f"{chosen.name} reads no features; --encoder changes nothing")
    if resolved.use_gold and not chosen.uses_valid_gold:
        terminal.say("warning", f"{chosen.name} has no use for gold; --use-gold changes nothing")
    report = io.Report()
    with terminal.working(f"reading {data}"):
        content = io.read(data, format=format, report=report, **resolved.reading)
    terminal.show_report(report)
    corpus = content if isinstance(content, Corpus) else Corpus(splits={"train": content})
    train, valid = run.training_data(corpus, resolved, str(data))
    with terminal.remarks():
        told = {"data": str(data.resolve()), **({"format": format} if format else {})}
        facts = run.fit(chosen, train, valid, resolved, output, resume=resume, told=told)
    if as_json:
        terminal.show_json(facts | {"run": str(output)})
        return
    terminal.show(chosen.reliability())
    for line in chosen.why():
        terminal.note(line)
    terminal.note(
        f"{chosen.name} fitted on {len(train):,} sentences in {facts['seconds']:.1f} s -> {output}"
    )
    split = " --split test" if data.is_dir() else ""
    terminal.note(f"next: convener evaluate {output} {data}{split}; convener report {output}")


def predict(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="What `fit` or `train-tagger` wrote.")
    ],
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="File; the suffix decides.")],
    split: terminal.Split = None,
    format: terminal.FormatName = None,
    to: Annotated[
        str | None, typer.Option(help="Format of the output where its suffix does not tell.")
    ] = None,
    scheme: Annotated[str, typer.Option(help="Tags to write: bio, io, iobes or biluo.")] = "bio",
    lossy: Annotated[
        bool, typer.Option("--lossy", help="Write even where votes or spans cannot be kept.")
    ] = False,
    read: terminal.Reading = None,
    as_json: terminal.Json = False,
) -> None:
    """Label data with a fitted model and write the labels."""
    labels, _ = _predicted(folder, data, split, format, read)
    io.write(labels, output, format=to, scheme=scheme, lossy=lossy)
    if as_json:
        terminal.show_json({"output": str(output), "spans": len(labels.spans)})
        return
    terminal.note(f"{labels!r} -> {output}")


def evaluate(
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="A file of labels, a run, or a tagger.")
    ],
    data: Data,
    split: terminal.Split = None,
    mode: Annotated[
        Mode, typer.Option(help="A stray I- begins a span, or is dropped.")
    ] = "lenient",
    bootstrap: Annotated[
        int, typer.Option(min=0, help="Resamplings for 95 % intervals; 0 for none.")
    ] = 0,
    sources: terminal.Sources = None,
    format: terminal.FormatName = None,
    read: terminal.Reading = None,
    labels_read: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A reading option for a file of labels."),
    ] = None,
    as_json: terminal.Json = False,
) -> None:
    """Precision, recall and F1 against gold, with majority vote beside them."""
    if run.is_run(labels):
        if sources or labels_read:
            raise ConfigError(f"{labels}: a run has its own sources; leave out --sources")
        predictions, dataset = _predicted(labels, data, split, format, read)
    else:
        how: dict[str, Any] = {"on_illegal": "drop" if mode == "strict" else "begin"}
        predictions = io.read_predictions(labels, **(how | terminal.settings(labels_read)))
        options = terminal.reading(sources, read)
        if predictions.data.sources:
            options.setdefault("sources", predictions.data.sources)
        dataset = read_split(data, split, format=format, options=options)
    with terminal.working("evaluating"):
        result = evaluate_predictions(predictions, dataset, mode=mode, bootstrap=bootstrap)
    if as_json:
        terminal.show_json(result.to_json())
    else:
        terminal.show(result)


def _predicted(
    folder: Path, data: Path, split: str | None, format: str | None, read: list[str] | None
) -> tuple[Predictions, Dataset]:
    """What a run or a tagger says of data."""
    model = load_tagger(folder) if is_tagger(folder) else run.load(folder)
    dataset = read_for(model, folder, data, split, format, read)
    with terminal.remarks():
        if not isinstance(model, LabelModel):
            return model.predict(dataset), dataset
        dataset = model.encoded(dataset)
    with terminal.working("predicting"):
        return model.predict(dataset), dataset


def read_for(
    model: LabelModel | Tagger[Any],
    folder: Path,
    data: Path,
    split: str | None,
    format: str | None,
    read: list[str] | None,
) -> Dataset:
    """Data as the model's own was read, with its sources; with its types where none are shown."""
    options: dict[str, Any] = run.reading(folder) | terminal.settings(read)
    if isinstance(model, LabelModel):
        options["sources"] = model.fitted.sources
    try:
        return read_split(data, split, format=format, options=options)
    except NoTypesError:
        options["types"] = model.fitted.types
        return read_split(data, split, format=format, options=options)


def models(as_json: terminal.Json = False) -> None:
    """The label models and what they need."""
    classes = installed()
    missing = sorted(set(available()) - {item.name for item in classes})
    if as_json:
        terminal.show_json(
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
    terminal.show(
        Table(
            title="Label models",
            columns=("model", "features", "sees gold", "what it does"),
            rows=tuple(rows),
            notes=tuple(f"{name}: pip install 'convener[encoders]'" for name in missing),
        )
    )
