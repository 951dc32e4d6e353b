"""Expectation maximisation: one loop for every model that has a step."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from convener import progress
from convener.insides import learning_curve

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
