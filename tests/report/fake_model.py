"""A model with fixed predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import convener as cv
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import GoldUse, Predictions


@dataclass(frozen=True, eq=False, kw_only=True)
class FakeModel:
    """Predicts the given labels with the given probability."""

    labels: NDArray[np.int16]
    confidence: float | NDArray[np.float64] = 0.9
    """Probability of the predicted label; the others share the rest."""
    probabilities: NDArray[np.float32] | None = None
    """Used instead of `confidence`."""
    name: str = "fake"
    settings: Mapping[str, Any] = field(default_factory=dict)
    uses_gold: GoldUse = "none"
    stored_diagnostics: Diagnostics = field(default_factory=Diagnostics)
    explanation: tuple[str, ...] = ()

    def predict(self, data: cv.Dataset) -> Predictions:
        probabilities, size = self.probabilities, len(data.fine_tags)
        if probabilities is None:
            rest = (1 - np.broadcast_to(self.confidence, len(self.labels))) / (size - 1)
            probabilities = np.repeat(rest, size).reshape(-1, size).astype(np.float32)
            probabilities[np.arange(len(self.labels)), self.labels] = self.confidence
        return Predictions(
            data=data,
            labels=self.labels,
            probabilities=probabilities,
            model=self.name,
            settings=self.settings,
            uses_gold=self.uses_gold,
        )

    def diagnostics(self) -> Diagnostics:
        return self.stored_diagnostics

    def explain(self) -> tuple[str, ...]:
        return self.explanation
