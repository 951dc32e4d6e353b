"""The figures of an account, by name."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.diagnostics import Floats
from convener.evaluation.calibration import Calibration
from convener.inference.counts import transition_counts
from convener.report.run_summary import RunSummary

Matrix = NDArray[np.float64]


class Point(NamedTuple):
    """One thing in a scatter plot."""

    x: float
    y: float
    name: str
    series: str


class IntervalRow(NamedTuple):
    """One line of a plot of intervals; `true` is where it ought to be, if known."""

    name: str
    series: str
    low: float
    value: float
    high: float
    gold: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Figure:
    """What every figure has: a title, and what it says, in words."""

    kind: ClassVar[str]
    title: str
    caption: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Heatmap(Figure):
    """A matrix of shares, 0 to 1; NaN is left empty."""

    kind: ClassVar[str] = "heat"
    rows: Sequence[str]
    columns: Sequence[str]
    values: Matrix
    row_title: str = ""
    column_title: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class ScatterPlot(Figure):
    """Points between 0 and 1, both ways, around the diagonal."""

    kind: ClassVar[str] = "scatter"
    points: Sequence[Point]
    x_title: str
    y_title: str


@dataclass(frozen=True, eq=False, kw_only=True)
class IntervalPlot(Figure):
    """Intervals between 0 and 1, one below the other."""

    kind: ClassVar[str] = "ranges"
    rows: Sequence[IntervalRow]
    x_title: str


@dataclass(frozen=True, eq=False, kw_only=True)
class LinePlot(Figure):
    """Curves over the same steps."""

    kind: ClassVar[str] = "lines"
    curves: Mapping[str, Sequence[tuple[float, float]]]
    x_title: str
    y_title: str


@dataclass(frozen=True, eq=False, kw_only=True)
class ReliabilityDiagram(Figure):
    """A reliability diagram: (confidence, share right, number) of every bin that holds any."""

    kind: ClassVar[str] = "diagram"
    curves: Mapping[str, Sequence[tuple[float, float, int]]] = field(default_factory=dict)


def ticks(low: float, high: float, max_ticks: int = 6) -> list[float]:
    """Round numbers from low to high.

    >>> ticks(0, 1), ticks(0.2, 47)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [10.0, 20.0, 30.0, 40.0])
    """
    if not high > low:
        return [low]
    rough_step = (high - low) / max_ticks
    power = 10.0 ** math.floor(math.log10(rough_step))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= rough_step * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(number * step, 10) for number in range(first, last + 1)]


@dataclass(frozen=True)
class Axis:
    """Numbers from low to high, drawn from one place to another.

    >>> Axis(0, 10, 100, 0)(2.5)
    75.0
    """

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        fraction = (value - self.low) / ((self.high - self.low) or 1)
        return round(self.first + fraction * (self.last - self.first), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Where marks stand, and what is written there."""
        return [(self(value), f"{value:g}") for value in ticks(self.low, self.high)]


MAX_LABELS = 11
"""With more labels, emissions are shown by type."""
STAGES = ("start", "final", "truth")


def reliability(summary: RunSummary) -> IntervalPlot:
    """What each source is worth for each type, with the doubt about it."""
    return IntervalPlot(
        title="F1 of each source, by type",
        caption="Dots: F1 as the model sees it; lines: 95 % intervals"
        + ("; diamonds: true F1 by gold." if summary.data.gold is not None else "."),
        x_title="F1",
        rows=[
            IntervalRow(
                item.source,
                item.type,
                *_low_value_high(item.f1),
                None if item.gold_score is None else item.gold_score.f1,
            )
            for item in summary.estimates
        ],
    )


def estimated_vs_gold(summary: RunSummary) -> ScatterPlot | None:
    """Estimated against true F1 of sources; None without gold."""
    points = [
        Point(item.gold_score.f1, item.f1.value, f"{item.source}, {item.type}", item.type)
        for item in summary.estimates
        if item.gold_score is not None
    ]
    if not points:
        return None
    pearson = f1_correlation(summary)
    caption = "" if pearson is None else f"Pearson correlation {pearson:.3f} over {len(points)} pairs. "
    return ScatterPlot(
        title="Estimated and true F1",
        caption=f"{caption}Every dot is a source and a type; on the line they are the same.",
        points=points,
        x_title="true F1",
        y_title="estimated F1",
    )


def f1_correlation(summary: RunSummary) -> float | None:
    """Pearson's, of estimated and true F1; None where it is not defined."""
    pairs = [(item.f1.value, item.gold_score.f1) for item in summary.estimates if item.gold_score is not None]
    values = np.array(pairs).reshape(-1, 2)
    if len(values) < 3 or (values.std(axis=0) == 0).any():
        return None
    return float(np.corrcoef(values.T)[0, 1])


def source_similarity(summary: RunSummary) -> Heatmap | None:
    """How alike sources are, two by two; None where there are no two."""
    names = summary.data.sources
    if len(names) < 2:
        return None
    values = summary.analysis.pairwise["span_f1"].copy()
    np.fill_diagonal(values, np.nan)
    return Heatmap(
        title="How alike the sources are",
        caption="F1 of one source's spans against another's: 1 is a copy.",
        rows=names,
        columns=names,
        values=values,
    )


def emissions(summary: RunSummary) -> list[tuple[str, list[Heatmap]]]:
    """Of each source that is heard: what it says where the truth is known, up to three times."""
    diagnostics, fine = summary.diagnostics, summary.data.without_coarse()
    learned = diagnostics.emission
    if learned is None:
        probabilities = summary.predictions.probabilities
        learned = (
            None if probabilities is None else _count_emissions(fine, diagnostics.sources, np.asarray(probabilities))
        )
    gold_emissions = None
    if fine.gold is not None:
        gold_emissions = _count_emissions(fine, diagnostics.sources, np.eye(len(fine.tags))[fine.gold])
    figures = []
    for number, source in enumerate(diagnostics.sources):
        heatmaps = [
            _emission_heatmap(stage, array[number], fine)
            for stage, array in zip(STAGES, (diagnostics.initial_emission, learned, gold_emissions), strict=True)
            if array is not None
        ]
        figures.append((source, heatmaps))
    return figures


def transitions(summary: RunSummary) -> list[Heatmap]:
    """How labels follow one another: by the model and, where there is gold, in truth."""
    data, tags = summary.data, summary.data.fine_tags
    labels_by_stage = {"final": summary.predictions.labels, "truth": data.gold}
    heatmaps = []
    for stage, stage_labels in labels_by_stage.items():
        if stage_labels is None:
            continue
        counts = transition_counts(stage_labels, data.offsets, len(tags))
        total = counts.sum(axis=1, keepdims=True)
        values = np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)
        heatmaps.append(
            Heatmap(
                title=f"Moves: {stage}",
                caption="Share of the moves from the row's label that lead to the column's.",
                rows=tags.names,
                columns=tags.names,
                values=values,
                row_title="from",
                column_title="to",
            )
        )
    return heatmaps


def training_curves(summary: RunSummary) -> list[LinePlot]:
    """Loss and held-out score, stage by stage."""
    figures = []
    for stage, points in summary.diagnostics.learning_curves.items():
        for column, quantity in enumerate(("loss", "held-out score")):
            steps = np.flatnonzero(np.isfinite(points[:, column]))
            if len(steps) > 1:
                line = list(zip(steps.tolist(), points[steps, column].tolist(), strict=True))
                figures.append(
                    LinePlot(
                        title=f"{stage}: {quantity}",
                        caption=f"From {line[0][1]:.4g} to {line[-1][1]:.4g}.",
                        curves={quantity: line},
                        x_title="step" if stage == "EM" else "epoch",
                        y_title=quantity,
                    )
                )
    return figures


def calibration(summary: RunSummary) -> ReliabilityDiagram | None:
    """How often labels of some confidence are right; None without gold."""
    kinds = {"tokens": "tokens", "spans": "spans"}
    parts = {kinds[name]: part for name, part in summary.evaluation.calibration.items() if name in kinds}
    if not parts:
        return None
    errors = ", ".join(f"{part.ece:.3f} for {name}" for name, part in parts.items() if part.ece is not None)
    return ReliabilityDiagram(
        title="Calibration",
        caption=f"Expected calibration error {errors}. On the line, 80 % sure is right 4 times of 5.",
        curves={name: nonempty_bins(part) for name, part in parts.items()},
    )


def confusion(summary: RunSummary) -> Heatmap | None:
    """Which types are taken for which; None without gold."""
    error_types = summary.evaluation.error_types
    if error_types is None:
        return None
    counts = error_types.confusion.astype(np.float64)
    total = counts.sum(axis=1, keepdims=True)
    return Heatmap(
        title="Types confused",
        caption="Shares of each row: what the entities of a true type became.",
        rows=(*error_types.types, "(spurious)"),
        columns=(*error_types.types, "(missed)"),
        values=np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0),
        row_title="gold",
        column_title="predicted",
    )


FIGURES: dict[str, Callable[[RunSummary], Figure | Sequence[Figure] | None]] = {
    "reliability": reliability,
    "agreement": estimated_vs_gold,
    "pairs": source_similarity,
    "emissions": lambda account: [
        replace(heat, title=f"{source}: {heat.title}") for source, maps in emissions(account) for heat in maps
    ],
    "moves": transitions,
    "curves": training_curves,
    "calibration": calibration,
    "confusion": confusion,
}
"""Every kind of figure; one, several or none come of it."""


def _low_value_high(interval: tuple[float, float, float]) -> tuple[float, float, float]:
    value, low, high = interval
    return low, value, high


def nonempty_bins(calibration: Calibration) -> list[tuple[float, float, int]]:
    """Confidence, share right and number of every bin that holds any."""
    nonempty = calibration.count > 0
    columns = (
        calibration.confidence[nonempty],
        calibration.accuracy[nonempty],
        calibration.count[nonempty],
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _count_emissions(data: Dataset, sources: Sequence[str], label_probs: Floats) -> Floats:
    """What each source says where the truth is as likely as this.  truth (N, L) -> (K, L, L)"""
    num_labels = label_probs.shape[1]
    counts = np.zeros((len(sources), num_labels, num_labels))
    for number, name in enumerate(sources):
        if name not in data.sources:  # a source that the model has added
            continue
        column = data.votes[:, data.source_index(name)]
        for vote in range(num_labels):
            counts[number, :, vote] = label_probs[column == vote].sum(axis=0)
    total = counts.sum(axis=2, keepdims=True)
    np.divide(counts, total, out=counts, where=total > 0)
    counts[np.broadcast_to(total == 0, counts.shape)] = np.nan
    return counts


def _emission_heatmap(title: str, matrix: Floats, data: Dataset) -> Heatmap:
    names: Sequence[str] = data.tags.names
    if len(names) > MAX_LABELS:
        names, matrix = ("O", *data.tags.types), _merge_bio_labels(matrix)
    return Heatmap(
        title=title,
        caption="",
        rows=names,
        columns=names,
        values=matrix,
        row_title="truth",
        column_title="said",
    )


def _merge_bio_labels(matrix: Floats) -> Floats:
    """Rows of B- and I- averaged, of those that are known; columns added.  (L, L) -> (1+E, 1+E)"""
    merged = np.concatenate([matrix[:, :1], matrix[:, 1::2] + matrix[:, 2::2]], axis=1)
    rows = np.stack([merged[1::2], merged[2::2]])
    counts = np.count_nonzero(~np.isnan(rows), axis=0)
    mean = np.full(counts.shape, np.nan)
    np.divide(np.nansum(rows, axis=0), counts, out=mean, where=counts > 0)
    return np.concatenate([merged[:1], mean])
