"""What models share that judge tokens one at a time: labels from classes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from convener import progress
from convener.config import check_min
from convener.data.dataset import Dataset
from convener.data.diagnostics import learning_curve
from convener.inference.voting import type_runs_to_bio, type_to_label_probabilities
from convener.models.base import ModelConfig

LOG = logging.getLogger(__name__)
P = TypeVar("P")


class StoppingCriteria(Protocol):
    """When to stop; a model's settings say it."""

    @property
    def steps(self) -> int: ...
    @property
    def tolerance(self) -> float: ...


@dataclass(frozen=True)
class EMTrace:
    """The objective before each step, and why the loop stopped."""

    objective: tuple[float, ...]
    reason: str

    def learning_curve(self) -> dict[str, NDArray[Any]]:
        """To be kept among a model's parameters; what falls is the loss."""
        return learning_curve("EM", ((-value, None) for value in self.objective))


def run_em(
    step: Callable[[P], tuple[P, float]],
    initial: P,
    *,
    name: str,
    limits: StoppingCriteria,
) -> tuple[P, EMTrace]:
    """Repeat a step until the objective no longer rises.

    `step(params)` gives better params and the objective of those it was given, per token.

    >>> from types import SimpleNamespace
    >>> halves, limits = lambda x: (x / 2, -x * x), SimpleNamespace(steps=50, tolerance=1e-3)
    >>> found, trace = run_em(halves, 1.0, name="toy", limits=limits)
    >>> trace.reason
    'objective rose by less than 0.001 after 6 of at most 50 steps'
    """
    max_iter, tol = limits.steps, limits.tolerance
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
) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Legal labels (N,) and probabilities (N, L) of tokens whose best class (N,) is known.

    shares (N, C) probabilities of the classes: of types in the IO scheme, where runs of one type
    are spans, of labels in BIO, where a stray I- begins a span.
    """
    if scheme == "bio":
        labels, _ = data.tags.repair(best_class.astype(np.int16), data.offsets)
        return labels, class_probabilities.astype(np.float32)
    labels = type_runs_to_bio(best_class, data.offsets)
    return labels, type_to_label_probabilities(class_probabilities, labels)


@dataclass(frozen=True, kw_only=True)
class EMConfig(ModelConfig):
    """Settings of every model that is learned by expectation maximisation."""

    steps: int = 50
    """At most so many steps."""
    tolerance: float = 1e-6
    """Stop when a step raises the objective by less, in nats per token."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 1, "steps")
        check_min(self, 0, "tolerance")
