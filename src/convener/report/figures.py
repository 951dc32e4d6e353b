"""Figures of a report as values, independent of how they are drawn."""

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
MAX_LABELS = 11
"""With more labels, emissions are shown by entity type."""
STAGES = ("initial", "learned", "gold")
"""Emission matrices of a source: before training, after training, counted from gold labels."""


class Point(NamedTuple):
    """One point of a scatter plot."""

    x: float
    y: float
    name: str
    series: str


class IntervalRow(NamedTuple):
    """One row of an interval plot; `gold` is the value computed from gold labels, None if unknown."""

    name: str
    series: str
    low: float
    value: float
    high: float
    gold: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class Figure:
    """Base of all figures: a title and a caption."""

    kind: ClassVar[str]
    title: str
    caption: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Heatmap(Figure):
    """A matrix of values in [0, 1]; NaN cells stay empty."""

    kind: ClassVar[str] = "heatmap"
    rows: Sequence[str]
    columns: Sequence[str]
    values: Matrix
    row_title: str = ""
    column_title: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class ScatterPlot(Figure):
    """Points in the unit square, with the diagonal."""

    kind: ClassVar[str] = "scatter"
    points: Sequence[Point]
    x_title: str
    y_title: str


@dataclass(frozen=True, eq=False, kw_only=True)
class IntervalPlot(Figure):
    """Intervals in [0, 1], one row each."""

    kind: ClassVar[str] = "intervals"
    rows: Sequence[IntervalRow]
    x_title: str


@dataclass(frozen=True, eq=False, kw_only=True)
class LinePlot(Figure):
    """Curves over the same x axis."""

    kind: ClassVar[str] = "lines"
    curves: Mapping[str, Sequence[tuple[float, float]]]
    x_title: str
    y_title: str


@dataclass(frozen=True, eq=False, kw_only=True)
class ReliabilityDiagram(Figure):
    """Confidence, accuracy and count of every bin that is not empty, by curve."""

    kind: ClassVar[str] = "reliability"
    curves: Mapping[str, Sequence[tuple[float, float, int]]] = field(default_factory=dict)


def ticks(low: float, high: float, max_ticks: int = 6) -> list[float]:
    """Round numbers between low and high.

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
    """Linear map from [low, high] to the coordinates [first, last].

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
        """Coordinates and labels of the ticks."""
        return [(self(value), f"{value:g}") for value in ticks(self.low, self.high)]


def reliability(summary: RunSummary) -> IntervalPlot:
    """Estimated F1 of each source and type, with intervals."""
    return IntervalPlot(
        title="F1 by source and type",
        caption="Dots: F1 estimated by the model; lines: 95% intervals"
        + ("; diamonds: F1 against gold." if summary.data.gold is not None else "."),
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
    """F1 of sources estimated by the model against F1 computed from gold; None without gold."""
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
        title="Estimated and gold F1",
        caption=f"{caption}One dot per source and type; diagonal: perfect estimates.",
        points=points,
        x_title="gold F1",
        y_title="estimated F1",
    )


def f1_correlation(summary: RunSummary) -> float | None:
    """Pearson correlation of estimated and gold F1; None if undefined."""
    pairs = [(item.f1.value, item.gold_score.f1) for item in summary.estimates if item.gold_score is not None]
    values = np.array(pairs).reshape(-1, 2)
    if len(values) < 3 or (values.std(axis=0) == 0).any():
        return None
    return float(np.corrcoef(values.T)[0, 1])


def source_similarity(summary: RunSummary) -> Heatmap | None:
    """Span F1 of each source against each other; None for fewer than two sources."""
    names = summary.data.sources
    if len(names) < 2:
        return None
    values = summary.analysis.pairwise["span_f1"].copy()
    np.fill_diagonal(values, np.nan)
    return Heatmap(
        title="Source similarity",
        caption="F1 of the spans of one source against those of another; 1: identical.",
        rows=names,
        columns=names,
        values=values,
    )


def emissions(summary: RunSummary) -> list[tuple[str, list[Heatmap]]]:
    """Emission matrices by source: initial, learned and counted from gold, as far as available.

    A model without emissions shows those counted against its posterior as learned.
    """
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
    """Transition matrices of the predicted labels and, if available, of the gold labels."""
    data, tags = summary.data, summary.data.fine_tags
    labels_by_origin = {"predicted": summary.predictions.labels, "gold": data.gold}
    heatmaps = []
    for origin, labels in labels_by_origin.items():
        if labels is None:
            continue
        counts = transition_counts(labels, data.offsets, len(tags))
        total = counts.sum(axis=1, keepdims=True)
        values = np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)
        heatmaps.append(
            Heatmap(
                title=f"Transitions ({origin})",
                caption="P(column label | previous row label).",
                rows=tags.names,
                columns=tags.names,
                values=values,
                row_title="from",
                column_title="to",
            )
        )
    return heatmaps


def training_curves(summary: RunSummary) -> list[LinePlot]:
    """Loss and held-out score of every training stage."""
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
    """Reliability diagram of token and span probabilities; None without gold."""
    units = {name: unit for name, unit in summary.evaluation.calibration.items() if name in ("tokens", "spans")}
    if not units:
        return None
    errors = ", ".join(f"{unit.ece:.3f} for {name}" for name, unit in units.items() if unit.ece is not None)
    return ReliabilityDiagram(
        title="Calibration",
        caption=f"Expected calibration error {errors}. Diagonal: perfect calibration.",
        curves={name: nonempty_bins(unit) for name, unit in units.items()},
    )


def confusion(summary: RunSummary) -> Heatmap | None:
    """Confusion matrix of entity types, normalized by row; None without gold."""
    error_types = summary.evaluation.error_types
    if error_types is None:
        return None
    counts = error_types.confusion.astype(np.float64)
    total = counts.sum(axis=1, keepdims=True)
    return Heatmap(
        title="Type confusion",
        caption="Share of the gold entities of a type by predicted type.",
        rows=(*error_types.types, "(spurious)"),
        columns=(*error_types.types, "(missed)"),
        values=np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0),
        row_title="gold",
        column_title="predicted",
    )


FIGURES: dict[str, Callable[[RunSummary], Figure | Sequence[Figure] | None]] = {
    "reliability": reliability,
    "estimated-vs-gold": estimated_vs_gold,
    "source-similarity": source_similarity,
    "emissions": lambda summary: [
        replace(heatmap, title=f"{source}: {heatmap.title}")
        for source, heatmaps in emissions(summary)
        for heatmap in heatmaps
    ],
    "transitions": transitions,
    "training-curves": training_curves,
    "calibration": calibration,
    "confusion": confusion,
}
"""All figures by name; each function returns one figure, several or none."""


def _low_value_high(interval: tuple[float, float, float]) -> tuple[float, float, float]:
    value, low, high = interval
    return low, value, high


def nonempty_bins(calibration: Calibration) -> list[tuple[float, float, int]]:
    """Confidence, accuracy and count of every bin that is not empty."""
    nonempty = calibration.count > 0
    columns = (
        calibration.confidence[nonempty],
        calibration.accuracy[nonempty],
        calibration.count[nonempty],
    )
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _count_emissions(data: Dataset, sources: Sequence[str], label_probs: Floats) -> Floats:
    """Emission matrices counted against label probabilities (N, L); NaN rows for unseen labels.  -> (K, L, L)"""
    num_labels = label_probs.shape[1]
    counts = np.zeros((len(sources), num_labels, num_labels))
    for number, name in enumerate(sources):
        if name not in data.sources:  # a source added by the model
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
        row_title="true label",
        column_title="vote",
    )


def _merge_bio_labels(matrix: Floats) -> Floats:
    """Emission matrix by type: mean of the known B- and I- rows, sum of their columns.  (L, L) -> (1+E, 1+E)"""
    merged = np.concatenate([matrix[:, :1], matrix[:, 1::2] + matrix[:, 2::2]], axis=1)
    rows = np.stack([merged[1::2], merged[2::2]])
    counts = np.count_nonzero(~np.isnan(rows), axis=0)
    mean = np.full(counts.shape, np.nan)
    np.divide(np.nansum(rows, axis=0), counts, out=mean, where=counts > 0)
    return np.concatenate([merged[:1], mean])
