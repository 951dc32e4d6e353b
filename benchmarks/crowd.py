"""`python -m benchmarks.crowd [PART ...]`: F1 and estimated worker quality on crowds whose truth is known.

generated   random text, five seeds: no model can learn from it
conll       CoNLL, annotated by simulated workers, five seeds: models with features can learn from the text
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

import convener as cv
from benchmarks.harness.cli import SMOKE_ENCODER, simple_parser
from benchmarks.harness.data import DEMO, is_available, splits
from benchmarks.harness.results import RESULTS, save_tables
from benchmarks.worlds.annotators import CrowdHabits, annotate, unread
from tests.helpers.crowd import STATISTICS, CrowdConfig, estimated_f1, make_crowd, rank_correlation, score_model

VOTE = "simple vote"
CLASSICS = (VOTE, "bsc", "dawid-skene", "hmm", "segment")
MODELS = (*CLASSICS, "neural-segment", "auto")
GENERATED_MODELS = ("majority-vote", "bsc", "dawid-skene", "snorkel", "hmm", "segment", "auto")
SHARES = (0.08, 0.04, 0.02)
ENCODER = "minilm"
_SCHEMES = ("io", "span")
SMOKE_CROWD = CrowdConfig(documents=50, length=20, workers=8, annotated=0.4, spans=2.0)
SMOKE_HABITS = CrowdHabits(workers=8)
SMOKE_STEPS = {"max_steps": 3}
GENERATED_NOTE = (
    "F1 by span against the generated gold, fitted and predicted on the same documents, gold hidden. "
    "Rank correlation: Spearman's, over the workers, of the true F1 by span and the F1 that "
    "reliability() estimates (mean over the types a worker gives). Spammers found: share of the true "
    f"spammers among as many workers with the lowest estimates. Crowd: {STATISTICS}. In the tables of 4 % and 2 %, a "
    "worker annotates that share. `auto` has features of the `hashing` encoder"
)
CONLL_NOTE = (
    "The text of CoNLL's train split ({text}), annotated by simulated workers; gold is used for the simulation and the "
    "scores only. Features: `{encoder}`. F1 by span, in percent, on the annotated text, and on test, which nobody "
    "annotated. The simple vote is the better one of majority vote by token (IO) and the union of spans, chosen with "
    "gold. Workers: rank correlation (Spearman's, over the workers) of true and estimated F1, and the share of the "
    "workers and types whose true F1 lies in the interval of reliability(). {habits}."
)


class CrowdScores(NamedTuple):
    """Scores of one model on one crowd; NaN where the model gives none."""

    f1: float
    precision: float
    recall: float
    unread_f1: float
    rank: float
    coverage: float


def score(name: str, crowd: cv.Dataset, test: cv.Dataset, settings: Mapping[str, object]) -> CrowdScores:
    """Fit a model to a crowd and score it on its text, and on a text that nobody annotated."""
    if name == VOTE:
        found = [cv.evaluate(cv.MajorityVote(scheme=scheme).fit(crowd).predict(crowd), crowd) for scheme in _SCHEMES]
        best = max(found, key=lambda each: each.f1)
        return CrowdScores(best.f1, best.precision, best.recall, np.nan, np.nan, np.nan)
    model = cv.get_model(name)(**settings).fit(crowd)
    found_on_crowd = cv.evaluate(model.predict(crowd), crowd)
    learns_text = name in MODELS[len(CLASSICS) :]
    on_test = cv.evaluate(model.predict(unread(test, crowd)), test).f1 if learns_text else np.nan
    truth = true_f1(crowd)
    mean_truth = np.array([np.nanmean(row) if (row >= 0).any() else 0.0 for row in truth])
    rank = rank_correlation(estimated_f1(model), mean_truth)
    return CrowdScores(
        found_on_crowd.f1,
        found_on_crowd.precision,
        found_on_crowd.recall,
        on_test,
        rank,
        interval_coverage(model, crowd, truth),
    )


def true_f1(crowd: cv.Dataset) -> np.ndarray:
    """F1 of each worker and type on the sentences that the worker read; NaN for a type it never gives.  -> (K, E)"""
    result = np.full((len(crowd.sources), len(crowd.tags.types)), np.nan)
    for k, column in enumerate(crowd.votes.T):
        read = crowd.take(np.flatnonzero(column[crowd.offsets[:-1]] >= 0))
        marked = read.tags.spans(read.votes[:, k], read.offsets, on_illegal="start")
        true = read.tags.spans(read.gold, read.offsets)
        for e in np.unique(marked.type).tolist():
            mine, gold = set(marked.take(marked.type == e)), set(true.take(true.type == e))
            result[k, e] = 2 * len(mine & gold) / (len(mine) + len(gold))
    return result


def interval_coverage(model: cv.LabelModel, crowd: cv.Dataset, truth: np.ndarray) -> float:
    """Share of the rows of reliability() whose interval contains the true F1; truth (K, E)."""
    sources, types = list(crowd.sources), list(crowd.tags.types)
    inside = []
    for row in model.reliability().to_records():
        value = truth[sources.index(row["source"]), types.index(row["type"])]
        inside.append(row["F1 low"] - 1e-9 <= value <= row["F1 high"] + 1e-9)
    return float(np.mean(inside)) if inside else float("nan")


def table(title: str, form: str, columns: Sequence[str], values: np.ndarray) -> cv.Table:
    """One row per seed, one column per model.  values (seeds, models)"""
    rows = [[str(seed), *row] for seed, row in enumerate(values.tolist())]
    rows += [["mean", *values.mean(axis=0).tolist()]]
    return cv.Table(title=title, columns=("seed", *columns), rows=rows, formats=dict.fromkeys(columns, form))


def run_generated(seeds: int, smoke: bool, results: Path) -> None:
    """Crowds on random text."""
    tables = []
    for share in SHARES[:1] if smoke else SHARES:
        config = SMOKE_CROWD if smoke else CrowdConfig(annotated=share)
        crowds = [make_crowd(seed, config) for seed in range(seeds)]
        crowds = [replace(crowd, data=cv.encode(crowd.data, SMOKE_ENCODER)) for crowd in crowds]
        scores = np.array([[score_model(crowd, name) for name in GENERATED_MODELS] for crowd in crowds])
        if share == SHARES[0]:
            tables += [
                table("F1", ".3f", GENERATED_MODELS, scores[..., 0]),
                table("Rank correlation of estimated and true worker F1", ".3f", GENERATED_MODELS, scores[..., 1]),
                table("Share of the spammers found", ".2f", GENERATED_MODELS, scores[..., 2]),
            ]
        else:
            tables.append(table(f"F1, {share:.0%} of the documents", ".3f", GENERATED_MODELS, scores[..., 0]))
    save_tables(results, "crowd/crowd", tables, seed=0, packages=["numba"], note=GENERATED_NOTE)


def run_conll(seeds: int, smoke: bool, results: Path) -> None:
    """CoNLL, annotated by simulated workers."""
    name, encoder = (DEMO, SMOKE_ENCODER) if smoke else ("CoNLL", ENCODER)
    if not is_available(name):
        print(f"{name}: not available; skipped", file=sys.stderr)
        return
    data, habits = splits(name, encoder), SMOKE_HABITS if smoke else CrowdHabits()
    rows = []
    for seed in range(seeds):
        crowd = annotate(data.train, seed, habits)
        fits = [SMOKE_STEPS if smoke and each == "neural-segment" else {} for each in MODELS]
        rows.append([score(each, crowd, data.test, fit) for each, fit in zip(MODELS, fits, strict=True)])
    scores = np.array(rows)
    percent = 100 * scores
    tables = [
        table("F1 on the annotated text", ".2f", MODELS, percent[..., 0]),
        table("Precision", ".2f", MODELS, percent[..., 1]),
        table("Recall", ".2f", MODELS, percent[..., 2]),
        table("F1 on text that nobody annotated", ".2f", MODELS[len(CLASSICS) :], percent[:, len(CLASSICS) :, 3]),
        table("Rank correlation of estimated and true worker F1", ".3f", MODELS[1:], scores[:, 1:, 4]),
        table("Share of the intervals that contain the true F1", ".3f", MODELS[1:], scores[:, 1:, 5]),
    ]
    text = f"{len(data.train):,} sentences, {int((data.train.gold % 2 == 1).sum()):,} true spans"
    note = CONLL_NOTE.format(text=text, encoder=encoder, habits=habits.describe())
    save_tables(results, "crowd/conll", tables, seed=0, packages=["numba", "torch"], note=note)


PARTS: dict[str, Callable[[int, bool, Path], None]] = {"generated": run_generated, "conll": run_conll}


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line."""
    parser = simple_parser("crowd", __doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seeds", type=int, default=5, help="number of crowds")
    args = parser.parse_args(argv)
    if unknown := sorted(set(args.parts) - set(PARTS)):
        parser.error(f"unknown parts: {', '.join(unknown)}; expected {', '.join(PARTS)}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cv.ConvenerWarning)
        for part in args.parts or PARTS:
            PARTS[part](1 if args.smoke else args.seeds, args.smoke, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
