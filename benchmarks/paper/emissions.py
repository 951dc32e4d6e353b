"""Heat maps: emissions of a good and a bad source after stage 1, after training, and counted from gold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import convener as cv
from benchmarks.harness.data import splits
from benchmarks.harness.jobs import Options, group, run_jobs
from benchmarks.harness.results import pyplot, save_figure
from benchmarks.paper import ablation
from convener.evaluation.metrics import score_labels
from convener.inference.evidence import expected_emission_counts, sparsify_votes

SHOWN = {"CoNLL": ("BTC", "crunchbase_uncased")}
"""A good and a bad source, as in the paper; on other data sets best and worst by true F1."""
PARTS = ("paper/ablation", "paper/main")
STATES = ("stage 1", "final", "gold")


class Panel(NamedTuple):
    """The sources that are shown of one data set, and all emissions (K, L, L) in the three states."""

    data: str
    encoder: str
    test: cv.Dataset
    shown: list[int]
    emissions: list[np.ndarray]


def page(options: Options) -> None:
    """Part `emissions`: seed 0, from the fits of main results and ablations."""
    options = replace(options, seeds=1)
    found = run_jobs(ablation.jobs(options, ablation.FULL, "after-stage-1"), options)
    groups = group(found, "data", "encoder", "part")
    panels = []
    for data, encoder in dict.fromkeys(key[:2] for key in groups):
        stages = [groups.get((data, encoder, part)) for part in PARTS]
        if not all(stages):
            continue
        test = splits(data).test.select_sources(stages[0][0]["used_sources"])
        emissions = [np.array(seeds[0]["emission"]) for seeds in stages] + [true_emission(test)]
        panels.append(Panel(data, encoder, test, shown_sources(data, test), emissions))
    rows = [
        (panel.data, panel.encoder, source, *_distances([each[k] for each in panel.emissions]))
        for panel in panels
        for k, source in enumerate(panel.test.sources)
    ]
    names = ("stage 1: error", "final: error", *(f"{name}: diagonal" for name in STATES))
    table = cv.Table(
        title="Distance of the estimated emissions from those counted from gold",
        columns=("data", "encoder", "source", *names),
        rows=rows,
        formats=dict.fromkeys(names, ".3f"),
        notes=(
            "error: mean absolute difference of the entries, in the rows of entity labels; diagonal: "
            "mean of P(vote is x | label is x) over entity labels",
        ),
    )
    line = "Gold of test is used for display only. Seed 0, mean over train."
    options.write_page("paper/emissions", "Emissions, estimated and true", [line, _plot(panels, options), table], found)


def true_emission(data: cv.Dataset) -> np.ndarray:
    """P(vote | gold label) of each source.  -> (K, L, L), NaN for labels that gold does not have"""
    gold = np.eye(len(data.tags), dtype=np.float32)[data.gold]
    counts = expected_emission_counts(sparsify_votes(data.votes), gold)
    with np.errstate(invalid="ignore"):
        return counts / counts.sum(axis=2, keepdims=True)


def shown_sources(data: str, test: cv.Dataset) -> list[int]:
    """The two sources to draw."""
    if all(name in test.sources for name in SHOWN.get(data, ("",))):
        return [test.sources.index(name) for name in SHOWN[data]]
    f1 = [score_labels(votes, test.gold, test.offsets, test.tags).micro.f1 for votes in test.votes.T]
    return [int(np.argmax(f1)), int(np.argmin(f1))]


def _distances(emissions: list[np.ndarray]) -> tuple[float, ...]:
    """Errors of stage 1 and final, then the three mean diagonals; (L, L) each."""
    *estimated, true = emissions
    errors = [float(np.nanmean(np.abs(each - true)[1:])) for each in estimated]
    return (*errors, *(float(np.nanmean(np.diagonal(each)[1:])) for each in emissions))


def _plot(panels: list[Panel], options: Options) -> Path | None:
    """All data sets in one figure: two rows of three matrices each."""
    plt = pyplot()
    if plt is None or not panels:
        return None
    sides = [1 + 0.28 * len(panel.test.tags) for panel in panels]
    figure = plt.figure(figsize=(3 * max(sides), 2 * sum(sides)), layout="constrained")
    rooms = figure.subfigures(len(panels), 1, height_ratios=sides, squeeze=False)
    for room, panel in zip(rooms[:, 0], panels, strict=True):
        room.suptitle(f"{panel.data}, {panel.encoder}", fontsize=8)
        tags = ["O", *(f"{prefix}-{kind}" for kind in panel.test.tags.types for prefix in "BI")]
        for line, source in zip(room.subplots(2, 3, squeeze=False), panel.shown, strict=True):
            for axes, name, emission in zip(line, STATES, panel.emissions, strict=True):
                _heat_map(axes, emission[source], tags)
                axes.set_title(f"{panel.test.sources[source]}: {name}", fontsize=6)
    return save_figure(figure, options.results / "paper/emissions.svg")


def _heat_map(axes: Any, matrix: np.ndarray, tags: list[str]) -> None:
    """One matrix: rows are true labels, columns votes."""
    axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(tags)), tags, rotation=90, fontsize=5)
    axes.set_yticks(range(len(tags)), tags, fontsize=5)
    for (i, j), value in np.ndenumerate(matrix):
        if value >= 0.005:
            color = "white" if value > 0.5 else "black"
            axes.text(j, i, f"{100 * value:.0f}", ha="center", va="center", fontsize=4, color=color)
