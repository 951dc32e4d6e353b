"""Predicted reliability against the true F1 of the sources, over sources and entity types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import convener as cv
from benchmarks import pages
from benchmarks.crowd.__main__ import rank_correlation
from benchmarks.jobs import Options, Outcome, grouped, outcomes, splits
from benchmarks.paper import results
from convener.evaluation.source_analysis import source_f1

MODELS = (results.OURS, "chmm")
POOLED = "all"
KINDS = {
    "score": "mean A~ over sentences (sparse-chmm), mean diagonal of the emissions (chmm)",
    "token F1": "2PR / (P + R) of recall and precision in reliability()",
    "F1": "F1 in reliability(): of the source's spans, if the model's labels of train were true",
}


class Truth(NamedTuple):
    """Of one data set: F1 on test (K, E), and whether a source ever says a type in train."""

    f1: np.ndarray
    said: np.ndarray

    @classmethod
    def of(cls, data: str) -> Truth:
        parts = splits(data)
        kinds = range(1, 2 * len(parts.train.tags.types), 2)
        votes = parts.train.votes
        said = [[((column == b) | (column == b + 1)).any() for b in kinds] for column in votes.T]
        return cls(source_f1(parts.test, parts.test.gold), np.array(said))


def predicted(outcome: Outcome, kind: str) -> np.ndarray:
    """Reliability of every source for every type.  -> (K, E)"""
    if kind == "F1":
        return np.array(outcome["reliability"]["f1"], float)
    if kind == "token F1":
        recall, precision = (
            np.nan_to_num(np.array(outcome["reliability"][name], float)) for name in ("recall", "precision")
        )
        return 2 * recall * precision / np.maximum(recall + precision, 1e-12)
    labels = np.array(outcome.get("scores") or outcome["diagonal"], float)
    return (labels[:, 1::2] + labels[:, 2::2]) / 2


def page(options: Options) -> None:
    """Part `reliability`: from the fits of the main results."""
    found = outcomes(results.jobs(options, *MODELS), options)
    groups = grouped(found, "encoder", "model", "variant", "data")
    truths = {data: Truth.of(data) for data in options.data}
    blocks: list[pages.Block] = [
        "Every pair of a source and an entity type is a point; n is their number. Said: only pairs "
        "where the source ever says the type in train; the others have a true F1 of 0, or nearly, "
        "and are easy. Figures are means over seeds."
    ]
    for kind in KINDS:
        blocks += [_correlations(groups, truths, kind), _best(groups, truths, kind)]
    blocks += [_plot(groups, truths, encoder) for encoder in options.encoders]
    pages.write("paper/reliability", "Predicted reliability and true F1 of the sources", blocks, found)


Groups = dict[tuple[str, ...], list[Outcome]]


def _correlations(groups: Groups, truths: dict[str, Truth], kind: str) -> cv.Table:
    """Pearson and Spearman by data set, and over all of them."""
    rows = []
    for who in dict.fromkeys(key[:3] for key in groups):
        there = [data for data in truths if (*who, data) in groups]
        for name in (*there, *([POOLED] if len(there) > 1 else [])):
            chosen = there if name == POOLED else [name]
            count = min(len(groups[*who, data]) for data in chosen)
            values = [
                _figures(
                    [predicted(groups[*who, data][n], kind) for data in chosen],
                    [truths[data] for data in chosen],
                )
                for n in range(count)
            ]
            model = f"{who[1]} {who[2]}".strip()
            said = int(sum(truths[data].said.sum() for data in chosen))
            size = sum(truths[data].f1.size for data in chosen)
            mean, spread = np.mean(values, axis=0), np.std(values, axis=0)
            rows.append((who[0], model, name, size, *mean[:2], spread[0], said, *mean[2:], count))
    columns = ("Pearson", "Spearman", "±", "Pearson, said", "Spearman, said")
    return cv.Table(
        title=f"Correlation with true F1 on test: {kind}",
        columns=(
            *("encoder", "model", "data", "n", *columns[:3]),
            *("n said", *columns[3:], "seeds"),
        ),
        rows=rows,
        formats=dict.fromkeys(columns, ".3f"),
        notes=(f"{kind}: {KINDS[kind]}; ±: of Pearson, over seeds",),
    )


def _figures(ours: Sequence[np.ndarray], truths: Sequence[Truth]) -> list[float]:
    """Pearson and Spearman over all pairs, then over pairs that are said."""
    a = np.concatenate([each.ravel() for each in ours])
    b = np.concatenate([truth.f1.ravel() for truth in truths])
    said = np.concatenate([truth.said.ravel() for truth in truths])
    return [figure(a[chosen], b[chosen]) for chosen in (np.ones(len(a), bool), said) for figure in (pearson, spearman)]


def pearson(a: np.ndarray, b: np.ndarray) -> float:
    """The correlation; NaN where it is not defined."""
    if len(a) < 2 or not np.ptp(a) or not np.ptp(b):
        return math.nan
    return float(np.corrcoef(a, b)[0, 1])


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """The correlation of ranks; NaN where it is not defined."""
    return math.nan if math.isnan(pearson(a, b)) else rank_correlation(a, b)


def _best(groups: Groups, truths: dict[str, Truth], kind: str) -> cv.Table:
    """Whether the source that is trusted most is the best one, type by type."""
    rows = []
    for (encoder, model, variant, data), seeds in groups.items():
        truth = truths[data].f1
        for e, name in enumerate(seeds[0]["types"]):
            best = int(np.argmax(truth[:, e]))
            choices = [int(np.argmax(predicted(seed, kind)[:, e])) for seed in seeds]
            usual = max(set(choices), key=choices.count)
            sources = seeds[0]["sources"]
            said = f"{model} {variant}".strip()
            right = f"{choices.count(best)} of {len(seeds)}"
            rows.append((encoder, said, data, name, sources[best], sources[usual], right))
    return cv.Table(
        title=f"The best source: {kind}",
        columns=("encoder", "model", "data", "type", "truly best", "trusted most", "right seeds"),
        rows=rows,
    )


def _plot(groups: Groups, truths: dict[str, Truth], encoder: str) -> Path | None:
    """Mean score over seeds against true F1, a panel for each model."""
    plt = pages.pyplot()
    models = [who for who in dict.fromkeys(key[:3] for key in groups) if who[0] == encoder]
    if plt is None or not models:
        return None
    figure, grid = plt.subplots(1, len(models), figsize=(2.6 * len(models), 2.6), sharey=True, squeeze=False)
    for axes, who in zip(grid[0], models, strict=True):
        for data, mark in zip(truths, "os^D", strict=False):
            if seeds := groups.get((*who, data)):
                score = np.mean([predicted(seed, "score") for seed in seeds], axis=0)
                axes.plot(truths[data].f1.ravel(), score.ravel(), mark, markersize=3, label=data)
        axes.set_title(f"{who[1]} {who[2]}".strip())
        axes.set_xlabel("true F1 on test")
    grid[0][0].set_ylabel("predicted reliability")
    grid[0][0].legend(frameon=False, fontsize=6)
    return pages.save_plot(figure, f"paper/reliability-{encoder}")
