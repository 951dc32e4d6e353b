"""What a fit leaves to look at beside its parameters: how it began, and how it went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DIAGNOSTICS_PREFIX = "seen."
"""Before the names of arrays that are kept for the eye: no model reads them."""
_INITIAL_EMISSION_KEY, _CURVE_PREFIX = DIAGNOSTICS_PREFIX + "start", DIAGNOSTICS_PREFIX + "curve."


def initial_emission(emission: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Emissions before the first step, to be kept among a model's parameters.  (K, L, L)"""
    return {_INITIAL_EMISSION_KEY: np.asarray(emission, np.float64)}


def learning_curve(stage: str, points: Iterable[tuple[float | None, float | None]]) -> dict[str, NDArray[Any]]:
    """Loss and score on held-out data, epoch by epoch, to be kept among a model's parameters.

    >>> learning_curve("EM", [(2.0, None), (1.5, None)])
    {'seen.curve.EM': array([[2. , nan],
           [1.5, nan]])}
    """
    rows = [[np.nan if value is None else value for value in point] for point in points]
    return {_CURVE_PREFIX + stage: np.array(rows, np.float64).reshape(-1, 2)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnostics:
    """What can be seen inside a fitted model; None or empty where it has no such thing.

    sources           those that it hears
    emissions, start  (K, L, L) [source, truth, said], as learned and before the first step
    curves            by stage (T, 2): loss and held-out score of every epoch, NaN where unknown
    """

    sources: tuple[str, ...]
    emission: Floats | None = None
    initial_emission: Floats | None = None
    learning_curves: Mapping[str, Floats] = field(default_factory=dict)

    @classmethod
    def from_params(cls, sources: tuple[str, ...], params: Mapping[str, NDArray[Any]]) -> Diagnostics:
        """What a model's parameters show."""
        return cls(
            sources=sources,
            emission=_drop_added_sources(params.get("emissions"), len(sources)),
            initial_emission=_drop_added_sources(params.get(_INITIAL_EMISSION_KEY), len(sources)),
            learning_curves={
                name.removeprefix(_CURVE_PREFIX): array
                for name, array in sorted(params.items())
                if name.startswith(_CURVE_PREFIX)
            },
        )


def _drop_added_sources(emission: Floats | None, num_sources: int) -> Floats | None:
    """Of the sources alone: behind them may stand a vote that was added."""
    return None if emission is None else emission[:num_sources]
