"""Heat maps: the emissions of a good and a bad source after stage 1, in the end, and in truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import convener as cv
from benchmarks import pages
from benchmarks.jobs import Options, grouped, outcomes, splits
from benchmarks.paper import ablation
from convener.evaluation.metrics import score_labels
from convener.inference.evidence import expected_emission_counts, sparsify_votes

SHOWN = {"CoNLL": ("BTC", "crunchbase_uncased")}
"""A good and a bad source, as in the paper; elsewhere best and worst by true F1."""
PARTS = ("paper/ablation", "paper/main")
AFTER = ("stage 1", "final", "truth")


def page(options: Options) -> None:
    """Part `emissions`: seed 0, from the fits of main results and ablations."""
    alone = Options(**{**vars(options), "seeds": 1})
    found = outcomes(ablation.jobs(alone, ablation.WHOLE, "after-stage-1"), alone)
    groups = grouped(found, "data", "encoder", "part")
    rows: list[tuple] = []
    plots: list[pages.Block] = []
    for data, encoder in dict.fromkeys(key[:2] for key in groups):
        stages = [groups.get((data, encoder, part)) for part in PARTS]
        if not all(stages):
            continue
        test = splits(data).test.select_sources(stages[0][0]["heard"])
        matrices = [np.array(seeds[0]["emissions"]) for seeds in stages] + [true_emissions(test)]
        chosen = shown(data, test)
        rows += [
            (data, encoder, source, *_distances([each[k] for each in matrices]))
            for k, source in enumerate(test.sources)
        ]
        plots.append(_plot(data, encoder, chosen, test, matrices))
    notes = (
        "mean difference of entries to the truth, in the rows of entity labels; diagonal: mean of "
        "P(says x | truth is x) over entity labels",
    )
    names = ("stage 1: off by", "final: off by", *(f"{name}: diagonal" for name in AFTER))
    table = cv.Table(
        title="How near the emissions are to the truth",
        columns=("data", "encoder", "source", *names),
        rows=rows,
        formats=dict.fromkeys(names, ".3f"),
        notes=notes,
    )
    line = "Truth is counted from the gold of test, for display only. Seed 0, mean over train."
    pages.write("paper/emissions", "Emissions, estimated and true", [line, *plots, table], found)


def true_emissions(data: cv.Dataset) -> np.ndarray:
    """How often each source says what, given gold.  -> (K, L, L), NaN for labels gold lacks"""
    gold = np.eye(len(data.tags), dtype=np.float32)[data.gold]
    counts = expected_emission_counts(sparsify_votes(data.votes), gold)
    with np.errstate(invalid="ignore"):
        return counts / counts.sum(axis=2, keepdims=True)


def shown(data: str, test: cv.Dataset) -> list[int]:
    """The two sources to draw."""
    if all(name in test.sources for name in SHOWN.get(data, ("",))):
        return [test.sources.index(name) for name in SHOWN[data]]
    f1 = [score_labels(votes, test.gold, test.offsets, test.tags).micro.f1 for votes in test.votes.T]
    return [int(np.argmax(f1)), int(np.argmin(f1))]


def _distances(matrices: list[np.ndarray]) -> tuple[float, ...]:
    """Of stage 1 and final to the truth, then the three mean diagonals; (L, L) each."""
    *ours, truth = matrices
    apart = [float(np.nanmean(np.abs(each - truth)[1:])) for each in ours]
    return (*apart, *(float(np.nanmean(np.diagonal(each)[1:])) for each in matrices))


def _plot(data: str, encoder: str, chosen: list[int], test: cv.Dataset, matrices: list[np.ndarray]) -> Path | None:
    plt = pages.pyplot()
    if plt is None:
        return None
    tags = ["O", *(f"{prefix}-{kind}" for kind in test.tags.types for prefix in "BI")]
    side = 1 + 0.28 * len(tags)
    figure, grid = plt.subplots(2, 3, figsize=(3 * side, 2 * side), squeeze=False)
    for line, source in zip(grid, chosen, strict=True):
        for axes, name, matrix in zip(line, AFTER, matrices, strict=True):
            _heat(axes, matrix[source], tags)
            axes.set_title(f"{test.sources[source]}: {name}", fontsize=6)
    figure.tight_layout()
    return pages.save_plot(figure, f"paper/emissions-{data}-{encoder}")


def _heat(axes: Any, matrix: np.ndarray, tags: list[str]) -> None:
    """One matrix: rows are the truth, columns what the source says."""
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(tags)), tags, rotation=90, fontsize=5)
    axes.set_yticks(range(len(tags)), tags, fontsize=5)
    for (i, j), value in np.ndenumerate(matrix):
        if value >= 0.005:
            ink = "white" if value > 0.5 else "black"
            axes.text(j, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=4, color=ink)
