"""What a fit leaves to look at beside its parameters: how it began, and how it went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SEEN = "seen."
"""Before the names of arrays that are kept for the eye: no model reads them."""
_START, _CURVE = SEEN + "start", SEEN + "curve."


def start(emissions: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Emissions before the first step, to be kept among a model's parameters.  (K, L, L)"""
    return {_START: np.asarray(emissions, np.float64)}


def curve(
    stage: str, points: Iterable[tuple[float | None, float | None]]
) -> dict[str, NDArray[Any]]:
    """Loss and score on held-out data, epoch by epoch, to be kept among a model's parameters.

    >>> curve("EM", [(2.0, None), (1.5, None)])
    {'seen.curve.EM': array([[2. , nan],
           [1.5, nan]])}
    """
    rows = [[np.nan if value is None else value for value in point] for point in points]
    return {_CURVE + stage: np.array(rows, np.float64).reshape(-1, 2)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Insides:
    """What can be seen inside a fitted model; None or empty where it has no such thing.

    sources           those that it hears
    emissions, start  (K, L, L) [source, truth, said], as learned and before the first step
    curves            by stage (T, 2): loss and held-out score of every epoch, NaN where unknown
    """

    sources: tuple[str, ...]
    emissions: Floats | None = None
    start: Floats | None = None
    curves: Mapping[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, sources: tuple[str, ...], params: Mapping[str, NDArray[Any]]) -> Insides:
        """What a model's parameters show."""
        return cls(
            sources=sources,
            emissions=_first(params.get("emissions"), len(sources)),
            start=_first(params.get(_START), len(sources)),
            curves={
                name.removeprefix(_CURVE): array
                for name, array in sorted(params.items())
                if name.startswith(_CURVE)
            },
        )


def _first(emissions: Floats | None, count: int) -> Floats | None:
    """Of the sources alone: behind them may stand a vote that was added."""
    return None if emissions is None else emissions[:count]
