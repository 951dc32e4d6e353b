"""The demo: the whole way on the embedded corpus."""

from __future__ import annotations

import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from convener import demo as embedded
from convener import io
from convener.cli import console
from convener.data.corpus import Corpus
from convener.data.tables import PERCENT, Table
from convener.errors import ConvenerWarning, DataError
from convener.evaluation.evaluation import evaluate
from convener.evaluation.source_analysis import analyze
from convener.experiment import run
from convener.models import installed_models
from convener.models.base import LabelModel
from convener.storage import atomic_write

README = """What `convener demo` wrote
corpus/       the demo corpus with the votes of its sources, as a Wrench folder
run/          the fitted majority vote: the model, config.toml and run.json
labels.jsonl  its labels for the test sentences, with probabilities
labels.conll  the same, one token a line, without text and probabilities
scores.json   the table of scores
"""
NEXT_STEPS = """Next
  convener analyze {0}/corpus --split train          how good your sources are
  convener fit {0}/corpus -o my-run                   chooses a model by itself
  convener evaluate my-run {0}/corpus --split test   how good the labels are
  convener models                                    what else there is
Your own data: convener convert --help lists the formats; docs/quickstart.md shows the way."""

VOTE_MODEL, SELECTOR_MODEL = "majority-vote", "auto"
"""What the demo keeps a run of, and the model that only chooses among the others."""


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for what the demo writes.")] = Path(
        "convener-demo"
    ),
    as_json: console.Json = False,
) -> None:
    """See the whole way: sources, models that need no encoder, a table, files in a folder."""
    if output.is_file():
        raise DataError(f"{output}: is a file; the demo writes a folder")
    corpus = embedded.load_corpus()
    models = [model for model in installed_models() if not model.needs_features and model.name != SELECTOR_MODEL]
    scores = [_evaluate_model(model, corpus) for model in models]
    with atomic_write(output) as draft:
        _write_files(corpus, scores, draft)
    if as_json:
        console.print_json({"scores": scores, "output": str(output)})
        return
    console.print_result(f"1. Text and labeling functions\n{_format_example(corpus)}\n")
    console.print_result(f"2. {analyze(corpus.train)}\n")
    console.print_result(f"3. {_score_table(scores)}\n")
    console.print_result(f"4. Written to {output}/")
    console.print_result("\n".join(f"   {line}" for line in README.splitlines()[1:]) + "\n")
    console.print_result(NEXT_STEPS.format(output))


def _evaluate_model(model_class: type[LabelModel], corpus: Corpus) -> dict[str, Any]:
    """Fit one model on train, measure it on test."""
    if console.STDERR.is_terminal:
        console.print_note(f"fitting {model_class.name} (what is compiled is kept for the next time)")
    model = model_class()
    with warnings.catch_warnings():  # the demo's sources link nothing, for one
        warnings.simplefilter("ignore", ConvenerWarning)
        result = evaluate(model.fit(corpus.train).predict(corpus.test), corpus.test)
    return {
        "model": model.name,
        "sees_gold": model.supervised,
        "precision": result.precision,
        "recall": result.recall,
        "f1": result.f1,
        "mode": result.mode,
    }


def _score_table(scores: list[dict[str, Any]]) -> Table:
    ordered = sorted(scores, key=lambda row: row["model"] != VOTE_MODEL)
    return Table(
        title="Scores on the test sentences",
        columns=("model", "precision", "recall", "f1", "sees gold"),
        rows=tuple(
            (
                row["model"],
                row["precision"],
                row["recall"],
                row["f1"],
                "yes" if row["sees_gold"] else "no",
            )
            for row in ordered
        ),
        formats=dict.fromkeys(("precision", "recall", "f1"), PERCENT),
        notes=(
            "a model that sees gold is a reference, not a result",
            f"entity level, {ordered[0]['mode']} mode",
        ),
    )


def _format_example(corpus: Corpus) -> str:
    """One sentence and what its sources say."""
    data = corpus.train
    number = max(range(len(data)), key=lambda m: int((data[m].votes > 0).any(axis=0).sum()))
    sentence = data[number : number + 1]
    words = sentence.tokens.to_list()
    lines = ["   " + (sentence.text.sentences[0] if sentence.text else " ".join(words))]
    for column, name in enumerate(sentence.sources):
        spans = sentence.tags.spans(sentence.votes[:, column], sentence.offsets)
        marked_spans = [f"{' '.join(words[s.start : s.end])} = {data.tags.types[s.type]}" for s in spans]
        if marked_spans:
            lines.append(f"     {name:<22}{', '.join(marked_spans)}")
    return "\n".join(lines)


def _write_files(corpus: Corpus, scores: list[dict[str, Any]], folder: Path) -> None:
    folder.mkdir()
    io.write(corpus, folder / "corpus", format="wrench")
    config = run.RunConfig.resolve(None, model=VOTE_MODEL)
    model = config.build()
    run.fit(model, corpus.train, corpus.valid, config, folder / "run")
    predictions = model.predict(corpus.test)
    io.write(predictions, folder / "labels.jsonl")
    with warnings.catch_warnings():  # the README beside it says what a CoNLL file leaves out
        warnings.simplefilter("ignore", ConvenerWarning)
        io.write(predictions, folder / "labels.conll")
    if find_spec("spacy") is not None:
        io.write(predictions, folder / "labels.spacy")
    (folder / "scores.json").write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
    (folder / "README.txt").write_text(README, encoding="utf-8")
