"""Figures as values: what is to be drawn, whoever draws it (the page, or matplotlib)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
