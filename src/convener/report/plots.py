"""Figures as files, drawn with matplotlib: PNG, SVG or PDF."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from convener.errors import ConfigError, require
from convener.report.figures import Figure, Heatmap, IntervalPlot, LinePlot, ReliabilityDiagram, ScatterPlot
from convener.storage import atomic_write

SUFFIXES = (".png", ".svg", ".pdf")
DPI = 200
"""Resolution of PNG files."""
MAX_COLUMNS = 3
"""Maximum number of figures side by side."""
MAX_ANNOTATED_COLUMNS = 12
"""Heatmaps with more columns are drawn without numbers."""


def write_plot(figures: Sequence[Figure], path: str | Path) -> None:
    """Draw one figure, or several side by side, into a file; the suffix selects the format."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: expected a file name ending in {', '.join(SUFFIXES)}")
    matplotlib = require("matplotlib", extra="report", purpose="a plot")
    figure_module = require("matplotlib.figure", extra="report", purpose="a plot")
    num_columns = min(MAX_COLUMNS, len(figures))
    num_rows = -(-len(figures) // num_columns)
    sizes = [_size(figure) for figure in figures]
    width, height = (max(size[axis] for size in sizes) for axis in (0, 1))
    # Names may contain dollar signs, which are not math.
    with matplotlib.rc_context({"text.parse_math": False}), atomic_write(path) as draft:
        canvas = figure_module.Figure(figsize=(width * num_columns, height * num_rows), layout="constrained")
        all_axes = canvas.subplots(num_rows, num_columns, squeeze=False).ravel()
        for axes, figure in zip(all_axes, figures, strict=False):
            axes.set_title(figure.title, fontsize=9)
            RENDERERS[type(figure)](axes, figure)
        for axes in all_axes[len(figures) :]:
            axes.set_axis_off()
        canvas.savefig(draft, dpi=DPI)


def _size(figure: Figure) -> tuple[float, float]:
    """Width and height in inches."""
    if isinstance(figure, IntervalPlot):
        return 5.5, 1.0 + 0.22 * len(figure.rows)
    if isinstance(figure, Heatmap):
        return 1.6 + 0.32 * len(figure.columns), 1.4 + 0.32 * len(figure.rows)
    return (3.6, 2.6) if isinstance(figure, LinePlot) else (4.0, 4.0)


def _draw_heatmap(axes: Any, figure: Heatmap) -> None:
    axes.imshow(figure.values, cmap="Blues", vmin=0, vmax=1)
    axes.set_xticks(range(len(figure.columns)), figure.columns, rotation=50, ha="right", fontsize=7)
    axes.set_yticks(range(len(figure.rows)), figure.rows, fontsize=7)
    axes.set_xlabel(figure.column_title, fontsize=8)
    axes.set_ylabel(figure.row_title, fontsize=8)
    if len(figure.columns) <= MAX_ANNOTATED_COLUMNS:
        for (row, column), value in np.ndenumerate(figure.values):
            if not np.isnan(value):
                colour = "white" if value > 0.6 else "black"
                axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=6, color=colour)


def _draw_scatter(axes: Any, figure: ScatterPlot) -> None:
    axes.plot([0, 1], [0, 1], linestyle="--", color="0.6", linewidth=1)
    for series in dict.fromkeys(point.series for point in figure.points):
        points = [point for point in figure.points if point.series == series]
        axes.scatter([p.x for p in points], [p.y for p in points], s=22, label=series)
    _format_unit_axes(axes, figure.x_title, figure.y_title)


def _draw_intervals(axes: Any, figure: IntervalPlot) -> None:
    names = [f"{row.name}, {row.series}" for row in figure.rows]
    positions = range(len(names))
    for position, row in enumerate(figure.rows):
        axes.plot([row.low, row.high], [position, position], color="0.7", linewidth=3, zorder=1)
    axes.scatter([row.value for row in figure.rows], positions, s=22, zorder=2, label="estimated")
    gold = [(row.gold, position) for position, row in enumerate(figure.rows) if row.gold is not None]
    if gold:
        x, y = zip(*gold, strict=True)
        axes.scatter(x, y, s=26, marker="D", facecolors="none", edgecolors="black", label="gold")
        axes.legend(fontsize=7)
    axes.set_yticks(positions, names, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel(figure.x_title, fontsize=8)


def _draw_lines(axes: Any, figure: LinePlot) -> None:
    for name, points in figure.curves.items():
        axes.plot(*zip(*points, strict=True), marker=".", label=name)
    axes.set_xlabel(figure.x_title, fontsize=8)
    axes.set_ylabel(figure.y_title, fontsize=8)
    axes.tick_params(labelsize=7)


def _draw_reliability(axes: Any, figure: ReliabilityDiagram) -> None:
    axes.plot([0, 1], [0, 1], linestyle="--", color="0.6", linewidth=1)
    for name, bins in figure.curves.items():
        confidence, accuracy = ([values[column] for values in bins] for column in (0, 1))
        axes.plot(confidence, accuracy, marker="o", markersize=4, label=name)
    _format_unit_axes(axes, "confidence", "accuracy")


def _format_unit_axes(axes: Any, x_title: str, y_title: str) -> None:
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    axes.set_xlabel(x_title, fontsize=8)
    axes.set_ylabel(y_title, fontsize=8)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7)


RENDERERS: dict[type[Figure], Callable[[Any, Any], None]] = {
    Heatmap: _draw_heatmap,
    ScatterPlot: _draw_scatter,
    IntervalPlot: _draw_intervals,
    LinePlot: _draw_lines,
    ReliabilityDiagram: _draw_reliability,
}
