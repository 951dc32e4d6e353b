"""Expectation maximization: the loop, its settings, and labels from the posterior of token classes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from convener import progress
from convener.config import check_min
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics, learning_curve
from convener.data.predictions import LabelOutput
from convener.inference.voting import type_runs_to_bio, type_to_label_probabilities
from convener.models.base import ModelConfig

LOG = logging.getLogger(__name__)
P = TypeVar("P")


@dataclass(frozen=True, kw_only=True)
class EMConfig(ModelConfig):
    """Settings of every model that is fitted by expectation maximization; `seed` has no effect on such a fit."""

    max_iter: int = 50
    """Maximum number of iterations; at least 1."""
    tol: float = 1e-6
    """Stop when an iteration increases the objective by less, in nats per token; at least 0; 0 runs all
    iterations."""
    num_threads: int = 1
    """Number of threads; at least 1. Results do not depend on it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "max_iter", "num_threads")
        check_min(self, 0, "tol")


@dataclass(frozen=True)
class EMTrace:
    """The objective before each iteration, and why the loop stopped."""

    objective: tuple[float, ...]
    reason: str

    def diagnostics(
        self, emission: NDArray[np.float64] | None = None, initial_emission: NDArray[np.float64] | None = None
    ) -> Diagnostics:
        """The learning curve, whose loss is minus the objective, and the emissions of a chain."""
        curve = learning_curve((-value, None) for value in self.objective)
        return Diagnostics(emission=emission, initial_emission=initial_emission, learning_curves={"EM": curve})


def run_em(
    step: Callable[[P], tuple[P, float]],
    initial: P,
    *,
    name: str,
    config: EMConfig,
) -> tuple[P, EMTrace]:
    """Repeat EM steps until the objective increases by less than the tolerance.  -> best parameters, trace

    `step(params)` returns updated parameters and the objective of the given ones, per token.

    >>> found, trace = run_em(lambda x: (x / 2, -x * x), 1.0, name="toy", config=EMConfig(tol=1e-3))
    >>> trace.reason
    'objective rose by less than 0.001 after 6 of at most 50 steps'
    """
    max_iter, tol = config.max_iter, config.tol
    params, objective = initial, []
    reason = f"all {max_iter} steps done"
    with progress.progress_bar(f"fitting {name}", max_iter) as advance:
        for iteration in range(max_iter):
            updated, value = step(params)
            objective.append(value)
            advance(f"log-likelihood per token {value:.5f}")
            if iteration and value - objective[-2] < tol:
                reason = f"objective rose by less than {tol:g} after {iteration} of at most {max_iter} steps"
                break
            params = updated
    LOG.info("%s: %s", name, reason)
    return params, EMTrace(tuple(objective), reason)


Scheme = Literal["io", "bio"]


def labels_from_classes(
    best_class: NDArray[np.int64],
    class_probabilities: NDArray[np.floating[Any]],
    data: Dataset,
    scheme: Scheme,
) -> LabelOutput:
    """Legal labels (N,) and probabilities (N, L) from the best class of each token (N,).

    class_probabilities (N, C): of types in the IO scheme, where runs of one type are spans; of labels in the BIO
    scheme, where an I- label that continues nothing starts a span.
    """
    if scheme == "bio":
        labels, _ = data.tags.repair(best_class.astype(np.int16), data.offsets)
        return LabelOutput(labels, class_probabilities.astype(np.float32))
    labels = type_runs_to_bio(best_class, data.offsets)
    return LabelOutput(labels, type_to_label_probabilities(class_probabilities, labels))
