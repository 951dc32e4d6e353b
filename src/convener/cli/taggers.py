"""The command that trains an end model: train-tagger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convener import io, taggers
from convener.cli import console, options
from convener.cli.options import ReadArgs, ReadingOptions, parse_settings, with_reading_options
from convener.cli.reading import read_corpus
from convener.config import config_to_dict
from convener.data.issues import Issues
from convener.data.predictions import UPPER_BOUND, Predictions, is_upper_bound
from convener.data.tables import PERCENT, Table
from convener.errors import ConfigError, DataError
from convener.experiment.run import Run, RunWriter, TaggerRunConfig, is_complete, is_run, select_training_data
from convener.experiment.tagger_run import METRICS, TaggerScores, TrainingLabels, make_targets, score_tagger
from convener.io.formats import ReadOptions
from convener.taggers.targets import Targets


@with_reading_options
def train_tagger(
    model_or_predictions: Annotated[
        Path,
        typer.Argument(metavar="MODEL_OR_PREDICTIONS", help="Folder of a label model, or a file of predictions."),
    ],
    data: options.DataArgument,
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write the tagger to.")],
    tagger: Annotated[
        str,
        typer.Option(metavar="NAME", help="frozen (encoder stays fixed), finetuned (encoder is trained) or spacy."),
    ] = "frozen",
    encoder: Annotated[str | None, typer.Option(metavar="NAME", help="Encoder; see `convener encoder list`.")] = None,
    soft_labels: Annotated[
        bool | None,
        typer.Option("--soft-labels/--hard-labels", metavar="", help="Train on label probabilities or on hard labels."),
    ] = None,
    max_epochs: Annotated[int | None, typer.Option(metavar="N", help="Maximum number of epochs.")] = None,
    seed: options.Seed = None,
    set_: options.Settings = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="SPLIT",
            callback=options.canonical_split_name,
            help="Split with gold to evaluate on (default: valid, else test).",
        ),
    ] = None,
    resume: options.Resume = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", metavar="", help="Replace an existing tagger.")] = False,
    as_json: options.Json = False,
    reading: ReadingOptions,
) -> None:
    """Train an end model on predicted labels; it needs only text afterwards."""
    given = {"encoder": encoder, "max_epochs": max_epochs, "seed": seed}
    overrides = {name: value for name, value in given.items() if value is not None}
    model = taggers.get_tagger(tagger)(**parse_settings(set_), **overrides)
    if soft_labels and not model.supports_soft_labels:
        raise ConfigError(f"a {model.display_name} does not support soft labels; omit --soft-labels")
    is_soft = model.supports_soft_labels and soft_labels is not False
    config = TaggerRunConfig(
        tagger=tagger,
        labels_path=str(model_or_predictions),
        targets="soft" if is_soft else "hard",
        tagger_settings=config_to_dict(model.config),
        read_options=reading.to_dict(),
    )
    if is_complete(output, config, resume=resume, overwrite=overwrite):
        console.print_note(f"{output}: already complete")
        if as_json:
            console.print_json(Run.open(output).info | {"output": str(output)})
        return
    training_labels = _load_labels(model_or_predictions, reading.args(data))
    train = make_targets(training_labels.train, soft=is_soft, require_soft=bool(soft_labels))
    valid = make_targets(training_labels.valid, soft=is_soft, require_soft=bool(soft_labels))
    if train is None:
        raise DataError(f"{data}: no train split")
    writer = RunWriter(output, config, resume=resume)
    with console.show_logs():
        model.fit(train, valid, checkpoint_dir=writer.checkpoint_dir)
    run_info = writer.finish(
        model.save_files,
        {
            "tagger": tagger,
            "targets": config.targets,
            "sentences": len(train),
            "tokens": len(train.data.tokens),
            "uses_gold": train.uses_gold,
        },
    )
    scores = score_tagger(model, training_labels, split)
    if as_json:
        score_json = None if scores is None else {"split": scores.split, "by": scores.rows}
        console.print_json(run_info | {"output": str(output), "scores": score_json})
        return
    if scores is not None:
        console.print_result(_score_table(scores))
    console.print_note(
        f"{model.display_name} trained on {len(train):,} sentences in {run_info['fit_seconds']:.1f} s -> {output}"
    )
    console.print_note(f"next: convener predict {output} {data} -o FILE")


def _load_labels(path: Path, args: ReadArgs) -> TrainingLabels:
    """Training labels: predictions of a label model for train and valid, or the content of a file."""
    if taggers.is_tagger(path):
        raise ConfigError(f"{path}: a tagger; expected a label model or a file of predictions")
    if not is_run(path):
        issues = Issues()
        content = io.load_content(path, format=None, options=ReadOptions(), issues=issues)
        console.print_issues(issues)
        corpus = read_corpus(args)
        if isinstance(content, Predictions):
            return TrainingLabels(train=content, corpus=corpus)
        console.print_message("warning", f"{path}: contains no predictions; training on its gold labels")
        return TrainingLabels(train=Targets.from_gold(content), corpus=corpus)
    run = Run.open(path)
    model = run.label_model
    corpus = read_corpus(args, run=run)
    train, valid = select_training_data(corpus, run.train_split, str(args.path))
    with console.show_logs():
        return TrainingLabels(
            train=model.predict(train),
            valid=None if valid is None else model.predict(valid),
            model=model,
            corpus=corpus,
        )


def _score_table(scores: TaggerScores) -> Table:
    columns = ("precision", "recall", "F1")
    return Table(
        title=f"Entity-level scores on {scores.split}",
        columns=("", *columns),
        rows=[(name, *(row[metric] for metric in METRICS)) for name, row in scores.rows.items()],
        formats=dict.fromkeys(columns, PERCENT),
        notes=tuple(
            f"{name} uses gold labels: {UPPER_BOUND}"
            for name, row in scores.rows.items()
            if is_upper_bound(row["uses_gold"])
        ),
    )
