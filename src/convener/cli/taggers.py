"""The command that trains a tagger."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from convener import config, io, models, taggers
from convener.cli import console
from convener.cli.data import DataArgument, read_data
from convener.config import config_to_dict
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.tables import PERCENT, Table
from convener.errors import ConfigError, DataError
from convener.evaluation.evaluation import Evaluation, evaluate
from convener.experiment import run
from convener.models.base import LabelModel
from convener.taggers.base import Tagger
from convener.taggers.targets import Targets

METRICS = ("precision", "recall", "f1")


@dataclass(frozen=True, kw_only=True)
class TaggerRunConfig:
    """All that decides how a tagger is trained, besides the data."""

    tagger: str
    labels: str
    targets: Literal["soft", "hard"]
    settings: dict[str, Any]
    reading: dict[str, Any] = field(default_factory=dict)

    def to_toml(self) -> str:
        """As TOML."""
        return config.to_toml(config_to_dict(self))


def train_tagger(
    labels: Annotated[Path, typer.Argument(metavar="LABELS", help="A run to label train with, or labels.")],
    data: DataArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the tagger.")],
    kind: Annotated[str, typer.Option(help="frozen (features), finetuned (the whole encoder) or spacy.")] = "frozen",
    encoder: Annotated[str | None, typer.Option(help="Which encoder; see `encoder list`.")] = None,
    soft: Annotated[
        bool | None,
        typer.Option("--soft/--hard", help="Learn probabilities, or the labels alone."),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many epochs.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the tagger; repeatable."),
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Which split to score by its gold. Default: valid, or test.")
    ] = None,
    format: console.FormatName = None,
    read: console.ReadOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep what is there; go on if unfinished.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing tagger.")] = False,
    as_json: console.Json = False,
) -> None:
    """Train a tagger on labels: it then reads text alone, without any source."""
    options = {"encoder": encoder, "epochs": epochs, "seed": seed}
    overrides = {name: value for name, value in options.items() if value is not None}
    new_tagger = taggers.get_tagger(kind)(**console.parse_settings(set_), **overrides)
    if soft and not new_tagger.supports_soft_labels:
        raise ConfigError(f"a {new_tagger.name} learns labels alone: leave out --soft")
    is_soft = new_tagger.supports_soft_labels and soft is not False
    config = TaggerRunConfig(
        tagger=kind,
        labels=str(labels),
        targets="soft" if is_soft else "hard",
        settings=config_to_dict(new_tagger.config),
        reading=console.parse_read_options(None, read),
    )
    if run.is_complete(output, config, resume=resume, overwrite=overwrite):
        console.print_note(f"{output}: already complete")
        if as_json:
            console.print_json(run.read_run_info(output) | {"output": str(output)})
        return
    label_source = _load_labels(labels, data, format, config.reading)
    require_soft = bool(soft)
    train, valid = (_make_targets(part, soft=is_soft, require_soft=require_soft) for part in label_source.labels)
    if train is None:
        raise DataError(f"{data}: there is no train to label")
    writer = run.RunWriter(output, config, resume=resume)
    with console.show_logs():
        new_tagger.fit(train, valid, checkpoint_dir=writer.checkpoint_dir)
    run_info = writer.finish(
        new_tagger.save_files,
        {
            "tagger": kind,
            "targets": config.targets,
            "sentences": len(train),
            "tokens": len(train.data.tokens),
            "saw_gold": train.uses_gold,
        },
    )
    scores = _evaluate_tagger(new_tagger, label_source, split)
    if as_json:
        console.print_json(run_info | {"output": str(output), "scores": scores})
        return
    if scores is not None:
        console.print_result(_score_table(scores))
    console.print_note(
        f"{new_tagger.name} trained on {len(train):,} sentences in {run_info['seconds']:.1f} s -> {output}"
    )
    console.print_note(f"next: convener predict {output} {data} -o FILE")


@dataclass(frozen=True, eq=False)
class _LabelSource:
    """Where labels come from: those of train and valid, the model that made them, all data."""

    labels: tuple[Predictions | Targets | None, Predictions | Targets | None]
    model: LabelModel | None
    corpus: Corpus


def _load_labels(labels: Path, data: Path, format: str | None, read_options: dict[str, Any]) -> _LabelSource:
    """A run labels train and valid; a file is labels already, of its own sentences."""
    if taggers.is_tagger(labels):
        raise ConfigError(f"{labels}: a tagger; labels are to come from a run or a file")
    if not run.is_run(labels):
        content = io.read_content(labels)
        corpus = _as_corpus(read_data(data, None, format=format, options=read_options))
        if isinstance(content, Predictions):
            return _LabelSource((content, None), None, corpus)
        console.print_message("warning", f"{labels}: holds no labels of a model; its gold is learned")
        return _LabelSource((Targets.from_gold(content), None), None, corpus)
    model = models.load_model(labels)
    options = run.saved_read_options(labels) | read_options | {"sources": model.fitted.sources}
    corpus = _as_corpus(read_data(data, None, format=format, options=options))
    config = run.RunConfig(train_from=run.saved_train_split(labels))
    train, valid = run.select_training_data(corpus, config, str(data))
    with console.show_logs():
        predictions = model.predict(train), None if valid is None else model.predict(valid)
    return _LabelSource(predictions, model, corpus)


def _as_corpus(content: Dataset | Corpus) -> Corpus:
    return content if isinstance(content, Corpus) else Corpus(splits={"train": content})


def _make_targets(predictions: Predictions | Targets | None, *, soft: bool, require_soft: bool) -> Targets | None:
    """Soft targets where there are probabilities, or where there must be."""
    if predictions is None or isinstance(predictions, Targets):
        return predictions
    has_probabilities = predictions.probabilities is not None
    return (
        Targets.from_soft_labels(predictions)
        if soft and (has_probabilities or require_soft)
        else Targets.from_hard_labels(predictions)
    )


def _evaluate_tagger(new_tagger: Tagger[Any], label_source: _LabelSource, split: str | None) -> dict[str, Any] | None:
    """Figures of the tagger, of the label model and of majority vote; None without gold."""
    corpus = label_source.corpus
    names = [split] if split else [name for name in ("valid", "test", "train") if name in corpus]
    splits_with_gold = [name for name in names if corpus[name].gold is not None]
    if not splits_with_gold:
        return None
    dataset = corpus[splits_with_gold[0]]
    evaluations = {new_tagger.name: evaluate(new_tagger.predict(dataset), dataset)}
    if label_source.model is not None:
        evaluations[label_source.model.name] = evaluate(label_source.model.predict(dataset), dataset)
    rows = {name: _metric_values(result) for name, result in evaluations.items()}
    majority_vote = evaluations[new_tagger.name].majority_vote
    if majority_vote is not None:
        rows["majority vote (IO)"] = {name: getattr(majority_vote.micro, name) for name in METRICS}
    return {"split": splits_with_gold[0], "by": rows}


def _metric_values(evaluation: Evaluation) -> dict[str, Any]:
    return {name: getattr(evaluation, name) for name in METRICS} | {"saw_gold": evaluation.uses_gold}


def _score_table(scores: dict[str, Any]) -> Table:
    columns = ("precision", "recall", "F1")
    return Table(
        title=f"Entity-level scores on {scores['split']}",
        columns=("", *columns),
        rows=[(name, *(row[figure] for figure in METRICS)) for name, row in scores["by"].items()],
        formats=dict.fromkeys(columns, PERCENT),
        notes=tuple(
            f"{name} saw gold: a reference, not a result" for name, row in scores["by"].items() if row.get("saw_gold")
        ),
    )
