"""The command that trains an end model: train-tagger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from convener import io, taggers
from convener.cli import console, options
from convener.cli.data import read_data
from convener.cli.options import ReadArgs, parse_read_options, parse_settings
from convener.config import config_to_dict
from convener.data.corpus import Corpus
from convener.data.predictions import Predictions
from convener.data.tables import PERCENT, Table
from convener.errors import ConfigError, DataError
from convener.experiment.run import Run, RunWriter, TaggerRunConfig, is_complete, is_run, select_training_data
from convener.experiment.tagger_run import METRICS, TaggerScores, TrainingLabels, make_targets, score_tagger
from convener.taggers.targets import Targets


def train_tagger(
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="Folder of a label model, or a file of predictions.")
    ],
    data: options.DataArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write the tagger to.")],
    kind: Annotated[
        str, typer.Option(help="frozen (encoder stays fixed), finetuned (encoder is trained) or spacy.")
    ] = "frozen",
    encoder: Annotated[str | None, typer.Option(help="Encoder; see `convener encoder list`.")] = None,
    soft: Annotated[
        bool | None,
        typer.Option("--soft/--hard", help="Train on label probabilities or on hard labels."),
    ] = None,
    max_epochs: Annotated[int | None, typer.Option(help="Maximum number of epochs.")] = None,
    seed: options.Seed = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Setting of the tagger; repeatable."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Split with gold to evaluate on (default: valid, else test).")
    ] = None,
    format: options.InputFormat = None,
    read: options.ReadOptions = None,
    resume: options.Resume = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing tagger.")] = False,
    as_json: options.Json = False,
) -> None:
    """Train an end model on predicted labels; it needs only text afterwards."""
    given = {"encoder": encoder, "max_epochs": max_epochs, "seed": seed}
    overrides = {name: value for name, value in given.items() if value is not None}
    tagger = taggers.get_tagger(kind)(**parse_settings(set_), **overrides)
    if soft and not tagger.supports_soft_labels:
        raise ConfigError(f"a {tagger.display_name} does not support soft labels; omit --soft")
    is_soft = tagger.supports_soft_labels and soft is not False
    config = TaggerRunConfig(
        tagger=kind,
        labels=str(labels),
        targets="soft" if is_soft else "hard",
        settings=config_to_dict(tagger.config),
        reading=parse_read_options(None, read),
    )
    if is_complete(output, config, resume=resume, overwrite=overwrite):
        console.print_note(f"{output}: already complete")
        if as_json:
            console.print_json(Run.open(output).info | {"output": str(output)})
        return
    training_labels = _load_labels(labels, ReadArgs(path=data, format=format, options=config.reading))
    train = make_targets(training_labels.train, soft=is_soft, require_soft=bool(soft))
    valid = make_targets(training_labels.valid, soft=is_soft, require_soft=bool(soft))
    if train is None:
        raise DataError(f"{data}: no train split")
    writer = RunWriter(output, config, resume=resume)
    with console.show_logs():
        tagger.fit(train, valid, checkpoint_dir=writer.checkpoint_dir)
    run_info = writer.finish(
        tagger.save_files,
        {
            "tagger": kind,
            "targets": config.targets,
            "sentences": len(train),
            "tokens": len(train.data.tokens),
            "saw_gold": train.uses_gold,
        },
    )
    scores = score_tagger(tagger, training_labels, split)
    if as_json:
        console.print_json(
            run_info
            | {"output": str(output), "scores": None if scores is None else {"split": scores.split, "by": scores.rows}}
        )
        return
    if scores is not None:
        console.print_result(_score_table(scores))
    console.print_note(
        f"{tagger.display_name} trained on {len(train):,} sentences in {run_info['seconds']:.1f} s -> {output}"
    )
    console.print_note(f"next: convener predict {output} {data} -o FILE")


def _load_labels(path: Path, args: ReadArgs) -> TrainingLabels:
    """Training labels: predictions of a label model for train and valid, or the content of a file."""
    if taggers.is_tagger(path):
        raise ConfigError(f"{path}: a tagger; expected a label model or a file of predictions")
    if not is_run(path):
        content = io.read_content(path)
        corpus = _read_corpus(args)
        if isinstance(content, Predictions):
            return TrainingLabels(train=content, corpus=corpus)
        console.print_message("warning", f"{path}: contains no predictions; training on its gold labels")
        return TrainingLabels(train=Targets.from_gold(content), corpus=corpus)
    run = Run.open(path)
    model = run.label_model
    read_options = {**run.read_options, **args.options, "sources": model.fitted.sources}
    corpus = _read_corpus(ReadArgs(path=args.path, format=args.format, options=read_options))
    train, valid = select_training_data(corpus, run.train_split, str(args.path))
    with console.show_logs():
        return TrainingLabels(
            train=model.predict(train),
            valid=None if valid is None else model.predict(valid),
            model=model,
            corpus=corpus,
        )


def _read_corpus(args: ReadArgs) -> Corpus:
    """The data as a corpus; a single file is its train split."""
    content = read_data(args)
    return content if isinstance(content, Corpus) else Corpus(splits={"train": content})


def _score_table(scores: TaggerScores) -> Table:
    columns = ("precision", "recall", "F1")
    return Table(
        title=f"Entity-level scores on {scores.split}",
        columns=("", *columns),
        rows=[(name, *(row[metric] for metric in METRICS)) for name, row in scores.rows.items()],
        formats=dict.fromkeys(columns, PERCENT),
        notes=tuple(
            f"{name} uses gold labels: an upper bound, not a weakly supervised result"
            for name, row in scores.rows.items()
            if row.get("saw_gold")
        ),
    )
