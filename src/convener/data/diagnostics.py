"""Diagnostics of a fitted model: emissions and learning curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_CURVE_PREFIX = "learning_curve."


def learning_curve(points: Iterable[tuple[float | None, float | None]]) -> Floats:
    """Loss and validation score of every epoch, NaN where unknown.  -> (T, 2)

    >>> learning_curve([(2.0, None), (1.5, None)])
    array([[2. , nan],
           [1.5, nan]])
    """
    rows = [[np.nan if value is None else value for value in point] for point in points]
    return np.array(rows, np.float64).reshape(-1, 2)


@dataclass(frozen=True, eq=False, kw_only=True)
class Diagnostics:
    """Values of a fitted model for inspection; None or empty if a model has no such values.

    sources                     the sources that the emissions belong to
    emission, initial_emission  (K, L, L) [source, true label, vote], learned and before the first step
    learning_curves             by stage (T, 2): loss and validation score of every epoch, NaN where unknown
    """

    sources: tuple[str, ...] = ()
    emission: Floats | None = None
    initial_emission: Floats | None = None
    learning_curves: Mapping[str, Floats] = field(default_factory=dict)

    def for_sources(self, sources: tuple[str, ...]) -> Self:
        """The diagnostics of these sources; rows of sources that a model appended are dropped."""
        return replace(
            self,
            sources=sources,
            emission=_first_sources(self.emission, len(sources)),
            initial_emission=_first_sources(self.initial_emission, len(sources)),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All arrays by name, without the names of the sources."""
        emissions = {"emission": self.emission, "initial_emission": self.initial_emission}
        arrays = {name: array for name, array in emissions.items() if array is not None}
        return arrays | {_CURVE_PREFIX + stage: curve for stage, curve in self.learning_curves.items()}

    @classmethod
    def from_arrays(cls, sources: tuple[str, ...], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The inverse of `to_arrays`."""
        return cls(
            sources=sources,
            emission=arrays.get("emission"),
            initial_emission=arrays.get("initial_emission"),
            learning_curves={
                name.removeprefix(_CURVE_PREFIX): array
                for name, array in sorted(arrays.items())
                if name.startswith(_CURVE_PREFIX)
            },
        )


def _first_sources(emission: Floats | None, num_sources: int) -> Floats | None:
    return None if emission is None else np.asarray(emission[:num_sources], np.float64)
