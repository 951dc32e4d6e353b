"""`python -m benchmarks.speed.segment [LARGEST]`: cost of the segment models beside others, and at growing sizes.

CPU seconds of one thread. Models alternate on real sets. Each generated corpus runs in a process of its own, whose peak
memory is measured.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before the libraries are loaded: one thread each
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import convener as cv
from benchmarks.harness.cli import available, simple_parser
from benchmarks.harness.data import DATA, DEMO, Splits, is_available, splits
from benchmarks.harness.results import RESULTS, save_tables
from benchmarks.harness.timing import call_in_process, is_installed, peak_memory, reset_peak_memory, resident_memory
from benchmarks.speed.hmm import LENGTH, corpus
from benchmarks.speed.skweak_hmm import fit_skweak
from convener.data.features import EncoderSpec, Features

SEED = 0
MODELS = ("segment", "neural-segment", "auto", "sparse-chmm", "dws", "hmm")
BASES = ("segment", "neural-segment")
"""Models whose CPU time is the unit of the ratios."""
SETS, ENCODER = ("LaptopReview", "CoNLL"), "minilm"
ROUNDS = 3
SIZES = (100_000, 1_000_000, 10_000_000)
SMOKE_SIZES = (5_000,)
SOURCES, WORKERS, ANSWERS, WIDTH = 8, 20, 5, 32
KINDS = {"functions": "segment", "crowd": "segment", "features": "neural-segment"}
"""Generated corpora, and the model that is fitted to each."""
NOTE = (
    "CPU seconds of one thread, default settings, no gold. A fit includes what the base class does: labels of train, "
    "reliability of the sources, and the comparison with simple votes, which fits `segment` once more."
)


class Cost(NamedTuple):
    """CPU seconds of a fit on train and of a prediction of test, and F1 on test."""

    fit: float
    predict: float
    f1: float | None


def model_cost(name: str, data: Splits) -> Cost:
    """Fit and predict with one model; "skweak" is its HMM."""
    if name == "skweak":
        return Cost(*fit_skweak(data.train, data.test))
    begin = time.process_time()
    fitted = cv.get_model(name)(seed=SEED).fit(data.train, data.valid)
    middle = time.process_time()
    predictions = fitted.predict(data.test)
    end = time.process_time()
    return Cost(middle - begin, end - middle, cv.evaluate(predictions, data.test).f1)


def comparison_table(name: str, encoder: str, rounds: int) -> cv.Table:
    """All models on one data set, one after the other in each round: medians, and medians of the ratios in a round."""
    data = splits(name, encoder)
    names = (*MODELS, *(["skweak"] if is_installed("skweak") else []))
    for model in MODELS:  # compiles
        cv.get_model(model)(seed=SEED).fit(data.train[:60], data.valid[:10]).predict(data.test[:10])
    costs = {model: list[Cost]() for model in names}
    for _ in range(rounds):
        for model in names:
            costs[model].append(model_cost(model, data))
    rows = []
    for model in names:
        fit, predict = np.median([each[:2] for each in costs[model]], axis=0).tolist()
        ratios = [_ratio(costs, model, base) for base in BASES]
        rows.append((model, fit, *ratios, len(data.test.tokens) / predict, costs[model][0].f1))
    columns = ("model", "fit s", *(f"fit / {base}" for base in BASES), "predict tokens/s", "test F1")
    formats = {"fit s": ".2f", **{f"fit / {base}": ".2f" for base in BASES}, "predict tokens/s": ",.0f"}
    return cv.Table(
        title=f"{name}, {len(data.train.tokens):,} tokens of train, {len(data.train.sources)} sources",
        columns=columns,
        rows=rows,
        formats=formats | {"test F1": ".2%"},
        notes=(f"features of {encoder}, given; medians of {rounds} rounds in which the models alternate",),
    )


def _ratio(costs: dict[str, list[Cost]], model: str, base: str) -> float:
    return float(np.median([x.fit / y.fit for x, y in zip(costs[model], costs[base], strict=True)]))


def growing_corpus(kind: str, tokens: int) -> cv.Dataset:
    """A generated corpus of labeling functions, of a crowd, or of labeling functions with features."""
    sentences, rng = tokens // LENGTH, np.random.default_rng(SEED)
    data = corpus(sentences, LENGTH, WORKERS if kind == "crowd" else SOURCES)
    if kind == "features":
        return replace(data, features=_features(data, rng))
    if kind == "functions":
        return data
    for worker in range(WORKERS):  # each sentence is read by ANSWERS workers in a row
        reads = (np.arange(sentences) + worker) % WORKERS < ANSWERS
        data.votes[~np.repeat(reads, LENGTH), worker] = -1
    return replace(data, unmarked=("outside",) * WORKERS)


def _features(data: cv.Dataset, rng: np.random.Generator) -> Features:
    """Random vectors around one of each label."""
    means = rng.standard_normal((len(data.tags), WIDTH), np.float32)
    tokens = np.empty((len(data.tokens), WIDTH), np.float16)
    for first in range(0, len(tokens), 1 << 16):
        labels = data.gold[first : first + (1 << 16)]
        tokens[first : first + len(labels)] = means[labels] + rng.standard_normal((len(labels), WIDTH), np.float32)
    sentences = np.zeros((len(data), WIDTH), np.float16)
    return Features(tokens, sentences, EncoderSpec("random", ""))


def measure(kind: str, tokens: int) -> dict[str, Any]:
    """Seconds and peak memory of a fit and of a prediction."""
    warnings.simplefilter("ignore", cv.ConvenerWarning)
    torch.set_num_threads(1)
    data, model = growing_corpus(kind, tokens), cv.get_model(KINDS[kind])
    model(seed=SEED).fit(data[:100]).predict(data[:100])  # compiles
    row: dict[str, Any] = {"corpus": kind, "model": model.name, "tokens": tokens, "data": _size(data)}
    fitted = model(seed=SEED)
    for name, run in (("fit", fitted.fit), ("predict", fitted.predict)):
        before = resident_memory()
        reset_peak_memory()
        begin = time.process_time()
        result = run(data)
        row |= {f"{name} seconds": time.process_time() - begin, f"{name} peak": peak_memory() - before}
        del result
    curves = fitted.diagnostics().learning_curves
    return row | {"iterations": sum(len(curve) for curve in curves.values())}


def _size(data: cv.Dataset) -> int:
    """Bytes of the votes and features."""
    return data.votes.nbytes + (data.features.tokens.nbytes if data.features is not None else 0)


def growth_table(rows: list[dict[str, Any]]) -> cv.Table:
    """Time and memory by corpus and size."""
    names = ("fit seconds", "predict seconds", "fit peak", "predict peak", "data")
    scales = (1e6, 1e6, 1, 1, 1)
    return cv.Table(
        title=f"Growing corpora, sentences of {LENGTH} tokens",
        columns=(
            *("corpus", "model", "tokens", "iterations", "fit s/M tokens", "predict s/M tokens"),
            *("fit peak B/token", "predict peak B/token", "data B/token"),
        ),
        rows=[
            (
                *(row[name] for name in ("corpus", "model", "tokens", "iterations")),
                *(scale * row[name] / row["tokens"] for name, scale in zip(names, scales, strict=True)),
            )
            for row in rows
        ],
        formats={"fit s/M tokens": ".2f", "predict s/M tokens": ".2f"}
        | dict.fromkeys(("fit peak B/token", "predict peak B/token", "data B/token"), ".0f"),
        notes=(
            f"functions: {SOURCES} labeling functions; crowd: {WORKERS} workers, {ANSWERS} answers per sentence; "
            f"features: functions, with {WIDTH} float16 features per token",
            "iterations: steps of EM, or epochs of the network",
            "peak: growth of resident memory during the call; data: votes and token features, loaded before",
            "arrays of more than 32 MB get fresh pages from the system each time, which is most of what a token "
            "costs more in the largest corpora; networks keep features as float32",
        ),
    )


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line."""
    parser = simple_parser("speed.segment", __doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("largest", nargs="?", type=int, default=SIZES[-1], help="tokens of the largest corpus")
    args = parser.parse_args(argv)
    sizes = SMOKE_SIZES if args.smoke else [size for size in SIZES if size <= args.largest]
    names, encoder = ((DEMO,), "hashing") if args.smoke else (SETS, ENCODER)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cv.ConvenerWarning)
            tables = [
                comparison_table(name, encoder, 1 if args.smoke else args.rounds)
                for name in available(names, is_available, f"not in {DATA}")
            ]
    finally:
        torch.set_num_threads(threads)
    rows = [call_in_process("benchmarks.speed.segment:measure", kind, size) for kind in KINDS for size in sizes]
    tables.append(growth_table(rows))
    save_tables(results, "speed/segment", tables, seed=SEED, packages=("numba", "torch", "skweak"), note=NOTE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
