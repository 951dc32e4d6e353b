"""A model that gives the labels it is told to give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import convener as cv
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import Predictions


@dataclass(frozen=True, eq=False, kw_only=True)
class Told:
    """Gives these labels, and is as sure of them as it is told to be."""

    labels: NDArray[np.int16]
    sure: float | NDArray[np.float64] = 0.9
    probabilities: NDArray[np.float32] | None = None
    """Where they are not to be made of `sure`."""
    name: str = "told"
    settings: Mapping[str, Any] = field(default_factory=dict)
    seen: Diagnostics | None = None
    reasons: tuple[str, ...] = ()

    def predict(self, data: cv.Dataset) -> Predictions:
        shares, size = self.probabilities, len(data.fine_tags)
        if shares is None:
            shares = np.repeat(((1 - np.broadcast_to(self.sure, len(self.labels))) / (size - 1)), size)
            shares = shares.reshape(-1, size).astype(np.float32)
            shares[np.arange(len(self.labels)), self.labels] = self.sure
        return Predictions(
            data=data,
            labels=self.labels,
            probabilities=shares,
            model=self.name,
            settings=self.settings,
        )

    def diagnostics(self) -> Diagnostics:
        return Diagnostics(sources=()) if self.seen is None else self.seen

    def explain(self) -> tuple[str, ...]:
        return self.reasons
