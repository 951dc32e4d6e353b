"""`python -m benchmarks.speed.hmm [LARGEST]`: fit and predict of the HMM at growing sizes, and skweak's.

CPU seconds of one thread. Each size runs in a process of its own, whose peak memory is measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import convener as cv
from benchmarks.harness.cli import simple_parser
from benchmarks.harness.data import filler_tokens, make_dataset
from benchmarks.harness.results import RESULTS, pyplot, save_figure, save_tables
from benchmarks.harness.timing import call_in_process, is_installed, peak_memory
from benchmarks.paper import recipes
from benchmarks.speed.skweak_hmm import fit_skweak
from convener.data.ragged import lengths_to_offsets

SEED = 0
TYPES = ("PER", "LOC")
SIZES = (100_000, 1_000_000, 10_000_000, 50_000_000)
SMOKE_SIZES = (5_000,)
STEPS = 5
LENGTH, SOURCES, DOCUMENTS = 20, 8, 2000


def corpus(sentences: int, length: int, sources: int) -> cv.Dataset:
    """Sentences of one length; each source finds 60 % of the entities and marks a few others."""
    rng = np.random.default_rng(SEED)
    count = sentences * length
    offsets = lengths_to_offsets(np.full(sentences, length))
    tags = cv.TagSet(TYPES)
    begins = rng.random(count) < 0.06
    gold = np.where(begins, 2 * rng.integers(2, size=count, dtype=np.int16) + 1, 0).astype(np.int16)
    inside = np.flatnonzero(begins[:-1] & ~begins[1:] & (rng.random(count - 1) < 0.5)) + 1
    gold[inside] = gold[inside - 1] + 1
    gold, _ = tags.repair(gold, offsets, "drop")
    votes = np.zeros((count, sources), np.int16)
    for source in range(sources):
        column = np.where(rng.random(count, np.float32) < 0.6, gold, 0).astype(np.int16)
        wrong = np.flatnonzero((gold == 0) & (rng.random(count, np.float32) < 0.004))
        column[wrong] = 2 * rng.integers(2, size=len(wrong), dtype=np.int16) + 1
        votes[:, source] = tags.repair(column, offsets)[0]
    return make_dataset(TYPES, filler_tokens(count), offsets, votes, gold)


def measure(tokens: int) -> dict[str, Any]:
    """Seconds and peak memory of a fit of five steps and a prediction."""
    data = corpus(tokens // LENGTH, LENGTH, SOURCES)
    model = cv.get_model("hmm")
    model(**recipes.em_steps(2)).fit(data[:100]).predict(data[:100])  # compiles
    before = peak_memory()
    begin = time.process_time()
    fitted = model(**recipes.em_steps(STEPS)).fit(data)
    middle = time.process_time()
    fitted.predict(data)
    end = time.process_time()
    return {"tokens": tokens, "fit": middle - begin, "predict": end - middle, "peak": peak_memory() - before}


def scaling_table(rows: list[dict[str, Any]]) -> cv.Table:
    """Time and memory by corpus size."""
    return cv.Table(
        title=f"Growing corpora, {SOURCES} sources, sentences of {LENGTH} tokens, {STEPS} steps",
        columns=("tokens", "fit s", "fit ns/token/step", "predict tokens/s", "peak bytes/token"),
        rows=[
            (
                row["tokens"],
                round(row["fit"], 2),
                round(1e9 * row["fit"] / row["tokens"] / STEPS, 1),
                round(row["tokens"] / row["predict"]),
                round(row["peak"] / row["tokens"]),
            )
            for row in rows
        ],
        notes=("peak: growth of resident memory over the loaded corpus",),
    )


def comparison_table(documents: int, repeats: int) -> cv.Table:
    """Both models on the same votes; without skweak ours alone."""
    data = corpus(documents, LENGTH, SOURCES)
    tokens = len(data.tokens)
    cv.get_model("hmm")().fit(data[:50]).predict(data[:50])  # compiles
    fits, predictions = [], []
    for _ in range(repeats):
        begin = time.process_time()
        fitted = cv.get_model("hmm")().fit(data)
        middle = time.process_time()
        labels = fitted.predict(data)
        fits.append(middle - begin)
        predictions.append(time.process_time() - middle)
    fit, predict = float(np.median(fits)), float(np.median(predictions))
    rows: list[tuple[Any, ...]] = [
        (f"convener hmm, median of {repeats}", fit, tokens / predict, cv.evaluate(labels, data).f1)
    ]
    if is_installed("skweak"):
        skweak_fit, skweak_predict, f1 = fit_skweak(data, data)
        rows.append(("skweak", skweak_fit, tokens / skweak_predict, f1))
        rows.append(("ratio", skweak_fit / fit, skweak_predict / predict, None))
    return cv.Table(
        title=f"{documents:,} documents x {LENGTH} tokens x {SOURCES} sources",
        columns=("model", "fit s", "predict tokens/s", "F1"),
        rows=rows,
    )


def _plot(rows: list[dict[str, Any]], results: Path) -> list[Path]:
    plt = pyplot()
    if plt is None:
        return []
    figure, axes = plt.subplots(figsize=(5, 3.5))
    tokens = [row["tokens"] for row in rows]
    axes.loglog(tokens, [row["fit"] for row in rows], "o-", label=f"fit, {STEPS} steps")
    axes.loglog(tokens, [row["predict"] for row in rows], "s-", label="predict")
    axes.loglog(tokens, [rows[0]["fit"] * n / tokens[0] for n in tokens], ":", label="linear")
    axes.set_xlabel("tokens")
    axes.set_ylabel("CPU seconds, one thread")
    axes.legend()
    return [save_figure(figure, results / "speed/hmm.svg")]


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line."""
    parser = simple_parser("speed.hmm", __doc__)
    parser.add_argument("largest", nargs="?", type=int, default=SIZES[-1], help="tokens of the largest corpus")
    args = parser.parse_args(argv)
    sizes = SMOKE_SIZES if args.smoke else [size for size in SIZES if size <= args.largest]
    rows = [call_in_process("benchmarks.speed.hmm:measure", size) for size in sizes]
    tables = [scaling_table(rows), comparison_table(50 if args.smoke else DOCUMENTS, 1 if args.smoke else 7)]
    packages = ("numba", "skweak", "spacy")
    save_tables(results, "speed/hmm", tables, seed=SEED, packages=packages, figures=_plot(rows, results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
