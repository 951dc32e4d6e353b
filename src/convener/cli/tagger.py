"""The command that trains a tagger."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from convener import io, run, tagger, toml
from convener.cli import terminal
from convener.cli.data import Data, read_data
from convener.corpus import Corpus
from convener.data import Dataset
from convener.errors import ConfigError, DataError
from convener.evaluate import evaluate
from convener.evaluate.evaluation import Evaluation
from convener.models import LabelModel
from convener.predictions import Predictions
from convener.settings import to_mapping
from convener.tables import PERCENT, Table
from convener.tagger import Tagger, Targets

FIGURES = ("precision", "recall", "f1")


@dataclass(frozen=True, kw_only=True)
class TaggerRun:
    """All that decides how a tagger is trained, besides the data."""

    tagger: str
    labels: str
    targets: Literal["soft", "hard"]
    settings: dict[str, Any]
    reading: dict[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """As TOML."""
        return toml.text(to_mapping(self))


def train_tagger(
    labels: Annotated[
        Path, typer.Argument(metavar="LABELS", help="A run to label train with, or labels.")
    ],
    data: Data,
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the tagger.")],
    kind: Annotated[
        str, typer.Option(help="frozen (features), finetuned (the whole encoder) or spacy.")
    ] = "frozen",
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
    format: terminal.FormatName = None,
    read: terminal.Reading = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what is there; go on if unfinished.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an existing tagger.")
    ] = False,
    as_json: terminal.Json = False,
) -> None:
    """Train a tagger on labels: it then reads text alone, without any source."""
    given = {"encoder": encoder, "epochs": epochs, "seed": seed}
    chosen = {name: value for name, value in given.items() if value is not None}
    new = tagger.get(kind)(**terminal.settings(set_), **chosen)
    if soft and not new.learns_soft:
        raise ConfigError(f"a {new.name} learns labels alone: leave out --soft")
    is_soft = new.learns_soft and soft is not False
    config = TaggerRun(
        tagger=kind,
        labels=str(labels),
        targets="soft" if is_soft else "hard",
        settings=to_mapping(new.config),
        reading=terminal.reading(None, read),
    )
    if run.is_complete(output, config, resume=resume, overwrite=overwrite):
        terminal.note(f"{output}: already complete")
        if as_json:
            terminal.show_json(run.facts(output) | {"output": str(output)})
        return
    source = _source(labels, data, format, config.reading)
    must = bool(soft)
    train, valid = (_targets(part, soft=is_soft, must=must) for part in source.labels)
    if train is None:
        raise DataError(f"{data}: there is no train to label")
    work = run.Work(output, config, resume=resume)
    with terminal.remarks():
        new.fit(train, valid, journal=work.journal)
    facts = work.keep(
        new.write_all,
        {
            "tagger": kind,
            "targets": config.targets,
            "sentences": len(train),
            "tokens": len(train.data.tokens),
            "saw_gold": train.gold,
        },
    )
    scores = _scores(new, source, split)
    if as_json:
        terminal.show_json(facts | {"output": str(output), "scores": scores})
        return
    if scores is not None:
        terminal.show(_table(scores))
    terminal.note(
        f"{new.name} trained on {len(train):,} sentences in {facts['seconds']:.1f} s -> {output}"
    )
    terminal.note(f"next: convener predict {output} {data} -o FILE")


@dataclass(frozen=True, eq=False)
class _Source:
    """Where labels come from: those of train and valid, the model that made them, all data."""

    labels: tuple[Predictions | Targets | None, Predictions | Targets | None]
    model: LabelModel | None
    corpus: Corpus


def _source(labels: Path, data: Path, format: str | None, reading: dict[str, Any]) -> _Source:
    """A run labels train and valid; a file is labels already, of its own sentences."""
    if tagger.is_tagger(labels):
        raise ConfigError(f"{labels}: a tagger; labels are to come from a run or a file")
    if not run.is_run(labels):
        content = io.read_content(labels)
        corpus = _corpus(read_data(data, None, format=format, options=reading))
        if isinstance(content, Predictions):
            return _Source((content, None), None, corpus)
        terminal.say("warning", f"{labels}: holds no labels of a model; its gold is learned")
        return _Source((Targets.of_gold(content), None), None, corpus)
    model = run.load(labels)
    options = run.reading(labels) | reading | {"sources": model.fitted.sources}
    corpus = _corpus(read_data(data, None, format=format, options=options))
    config = run.RunConfig(train_from=run.train_from(labels))
    train, valid = run.training_data(corpus, config, str(data))
    with terminal.remarks():
        found = model.predict(train), None if valid is None else model.predict(valid)
    return _Source(found, model, corpus)


def _corpus(content: Dataset | Corpus) -> Corpus:
    return content if isinstance(content, Corpus) else Corpus(splits={"train": content})


def _targets(labels: Predictions | Targets | None, *, soft: bool, must: bool) -> Targets | None:
    """Soft targets where there are probabilities, or where there must be."""
    if labels is None or isinstance(labels, Targets):
        return labels
    there = labels.probabilities is not None
    return Targets.soft(labels) if soft and (there or must) else Targets.hard(labels)


def _scores(new: Tagger[Any], source: _Source, split: str | None) -> dict[str, Any] | None:
    """Figures of the tagger, of the label model and of majority vote; None without gold."""
    corpus = source.corpus
    names = [split] if split else [name for name in ("valid", "test", "train") if name in corpus]
    chosen = [name for name in names if corpus[name].gold is not None]
    if not chosen:
        return None
    dataset = corpus[chosen[0]]
    found = {new.name: evaluate(new.predict(dataset), dataset)}
    if source.model is not None:
        found[source.model.name] = evaluate(source.model.predict(dataset), dataset)
    rows = {name: _figures(result) for name, result in found.items()}
    vote = found[new.name].majority_vote
    if vote is not None:
        rows["majority vote (IO)"] = {name: getattr(vote.micro, name) for name in FIGURES}
    return {"split": chosen[0], "by": rows}


def _figures(result: Evaluation) -> dict[str, Any]:
    return {name: getattr(result, name) for name in FIGURES} | {"saw_gold": result.saw_gold}


def _table(scores: dict[str, Any]) -> Table:
    columns = ("precision", "recall", "F1")
    return Table(
        title=f"Entity-level scores on {scores['split']}",
        columns=("", *columns),
        rows=[(name, *(row[figure] for figure in FIGURES)) for name, row in scores["by"].items()],
        formats=dict.fromkeys(columns, PERCENT),
        notes=tuple(
            f"{name} saw gold: a reference, not a result"
            for name, row in scores["by"].items()
            if row.get("saw_gold")
        ),
    )
