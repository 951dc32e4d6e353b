"""Estimated reliability against the true F1 of the sources, over sources and entity types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import convener as cv
from benchmarks.harness.data import splits
from benchmarks.harness.jobs import Options, group, run_jobs
from benchmarks.harness.results import Block, Row, pyplot, save_figure
from benchmarks.paper import main_results
from convener.evaluation.metrics import score_labels

MODELS = (main_results.OURS, "chmm")
POOLED = "all"
KINDS = {
    "score": "mean A~ over sentences (sparse-chmm), mean diagonal of the emissions (chmm)",
    "F1": "F1 in reliability(): expected for the spans of the source on train",
}
Groups = dict[tuple[str, ...], list[Row]]


class TrueQuality(NamedTuple):
    """Of one data set: true F1 on test (K, E), and whether a source votes for a type in train (K, E)."""

    f1: np.ndarray
    has_votes: np.ndarray

    @classmethod
    def of(cls, data: str) -> TrueQuality:
        parts = splits(data)
        types = range(1, 2 * len(parts.train.tags.types), 2)
        votes = parts.train.votes
        has_votes = [[((column == b) | (column == b + 1)).any() for b in types] for column in votes.T]
        return cls(true_f1(parts.test), np.array(has_votes))


def true_f1(data: cv.Dataset) -> np.ndarray:
    """F1 of the spans of every source by type, on the tokens for which it does not abstain.  -> (K, E)"""
    scores = [
        score_labels(column * (column >= 0), data.gold * (column >= 0), data.offsets, data.tags).per_type.values()
        for column in data.votes.T
    ]
    return np.array([[score.f1 for score in by_type] for by_type in scores], np.float64)


def estimated(row: Row, kind: str) -> np.ndarray:
    """Reliability of every source for every type.  -> (K, E)"""
    if kind == "F1":
        return np.nan_to_num(np.array(row["reliability"]["f1"], float))
    labels = np.array(row.get("reliability_scores") or row["emission_diagonal"], float)
    return (labels[:, 1::2] + labels[:, 2::2]) / 2


def page(options: Options) -> None:
    """Part `reliability`: from the fits of the main results."""
    found = run_jobs(main_results.jobs(options, *MODELS), options)
    groups = group(found, "encoder", "model", "variant", "data")
    truths = {data: TrueQuality.of(data) for data in options.data}
    blocks: list[Block] = [
        "Every pair of a source and an entity type is a point; n is their number. With votes: only "
        "pairs where the source votes for the type in train; the others have a true F1 of 0 or "
        "nearly 0, and are easy. Values are means over seeds."
    ]
    for kind in KINDS:
        blocks += [_correlations(groups, truths, kind), _best(groups, truths, kind)]
    blocks += [_plot(groups, truths, encoder, options) for encoder in options.encoders]
    options.write_page("paper/reliability", "Estimated reliability and true F1 of the sources", blocks, found)


def _correlations(groups: Groups, truths: dict[str, TrueQuality], kind: str) -> cv.Table:
    """Pearson and Spearman by data set, and over all of them."""
    rows = []
    for fit in dict.fromkeys(key[:3] for key in groups):
        present = [data for data in truths if (*fit, data) in groups]
        for name in (*present, *([POOLED] if len(present) > 1 else [])):
            chosen = present if name == POOLED else [name]
            count = min(len(groups[*fit, data]) for data in chosen)
            values = [
                _coefficients(
                    [estimated(groups[*fit, data][n], kind) for data in chosen],
                    [truths[data] for data in chosen],
                )
                for n in range(count)
            ]
            model = f"{fit[1]} {fit[2]}".strip()
            with_votes = int(sum(truths[data].has_votes.sum() for data in chosen))
            size = sum(truths[data].f1.size for data in chosen)
            mean, spread = np.mean(values, axis=0), np.std(values, axis=0)
            rows.append((fit[0], model, name, size, *mean[:2], spread[0], with_votes, *mean[2:], count))
    columns = ("Pearson", "Spearman", "±", "Pearson, with votes", "Spearman, with votes")
    return cv.Table(
        title=f"Correlation with true F1 on test: {kind}",
        columns=(
            *("encoder", "model", "data", "n", *columns[:3]),
            *("n with votes", *columns[3:], "seeds"),
        ),
        rows=rows,
        formats=dict.fromkeys(columns, ".3f"),
        notes=(f"{kind}: {KINDS[kind]}; ±: of Pearson, over seeds",),
    )


def _coefficients(ours: Sequence[np.ndarray], truths: Sequence[TrueQuality]) -> list[float]:
    """Pearson and Spearman over all pairs, then over pairs with votes."""
    a = np.concatenate([each.ravel() for each in ours])
    b = np.concatenate([truth.f1.ravel() for truth in truths])
    with_votes = np.concatenate([truth.has_votes.ravel() for truth in truths])
    return [
        coefficient(a[chosen], b[chosen])
        for chosen in (np.ones(len(a), bool), with_votes)
        for coefficient in (pearson, spearman)
    ]


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """The correlation; NaN where it is not defined."""
    if len(a) < 2 or not np.ptp(a) or not np.ptp(b):
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """The correlation of ranks; equal values share their mean rank; NaN where it is not defined."""
    return pearson(_ranks(a), _ranks(b))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, groups, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - (sizes - 1) / 2)[groups]


def _best(groups: Groups, truths: dict[str, TrueQuality], kind: str) -> cv.Table:
    """Whether the source with the highest estimate is the best one, for each type."""
    rows = []
    for (encoder, model, variant, data), seeds in groups.items():
        truth = truths[data].f1
        for e, name in enumerate(seeds[0]["types"]):
            best = int(np.argmax(truth[:, e]))
            choices = [int(np.argmax(estimated(seed, kind)[:, e])) for seed in seeds]
            most_frequent = max(set(choices), key=choices.count)
            sources = seeds[0]["sources"]
            correct = f"{choices.count(best)} of {len(seeds)}"
            fit = (encoder, f"{model} {variant}".strip(), data, name)
            rows.append((*fit, sources[best], sources[most_frequent], correct))
    return cv.Table(
        title=f"The best source: {kind}",
        columns=("encoder", "model", "data", "type", "true best", "estimated best", "correct seeds"),
        rows=rows,
    )


def _plot(groups: Groups, truths: dict[str, TrueQuality], encoder: str, options: Options) -> Path | None:
    """Mean score over seeds against true F1, a panel for each model."""
    plt = pyplot()
    models = [fit for fit in dict.fromkeys(key[:3] for key in groups) if fit[0] == encoder]
    if plt is None or not models:
        return None
    figure, grid = plt.subplots(1, len(models), figsize=(2.6 * len(models), 2.6), sharey=True, squeeze=False)
    for axes, fit in zip(grid[0], models, strict=True):
        for data, mark in zip(truths, "os^D", strict=False):
            if seeds := groups.get((*fit, data)):
                score = np.mean([estimated(seed, "score") for seed in seeds], axis=0)
                axes.plot(truths[data].f1.ravel(), score.ravel(), mark, markersize=3, label=data)
        axes.set_title(f"{fit[1]} {fit[2]}".strip())
        axes.set_xlabel("true F1 on test")
    grid[0][0].set_ylabel("estimated reliability")
    grid[0][0].legend(frameon=False, fontsize=6)
    return save_figure(figure, options.results / f"paper/reliability-{encoder}.svg")
