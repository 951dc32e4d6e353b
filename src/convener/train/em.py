"""Expectation maximisation: one loop for every model that has a step."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

from convener import progress
from convener.insides import curve

LOG = logging.getLogger(__name__)
P = TypeVar("P")


class Limits(Protocol):
    """When to stop; a model's settings say it."""

    @property
    def steps(self) -> int: ...
    @property
    def tolerance(self) -> float: ...


@dataclass(frozen=True)
class Trace:
    """The objective before each step, and why the loop stopped."""

    objective: tuple[float, ...]
    reason: str

    def curve(self) -> dict[str, NDArray[Any]]:
        """To be kept among a model's parameters; what falls is the loss."""
        return curve("EM", ((-value, None) for value in self.objective))


def maximise(
    step: Callable[[P], tuple[P, float]],
    start: P,
    *,
    name: str,
    limits: Limits,
) -> tuple[P, Trace]:
    """Repeat a step until the objective no longer rises.

    `step(params)` gives better params and the objective of those it was given, per token.

    >>> from types import SimpleNamespace
    >>> halves, limits = lambda x: (x / 2, -x * x), SimpleNamespace(steps=50, tolerance=1e-3)
    >>> found, trace = maximise(halves, 1.0, name="toy", limits=limits)
    >>> trace.reason
    'objective rose by less than 0.001 after 6 of at most 50 steps'
    """
    steps, tolerance = limits.steps, limits.tolerance
    params, objective = start, []
    reason = f"all {steps} steps done"
    with progress.bar(f"fitting {name}", steps) as advance:
        for number in range(steps):
            better, value = step(params)
            objective.append(value)
            advance(f"log-likelihood per token {value:.5f}")
            if number and value - objective[-2] < tolerance:
                reason = (
                    f"objective rose by less than {tolerance:g} after {number} of at most "
                    f"{steps} steps"
                )
                break
            params = better
    LOG.info("%s: %s", name, reason)
    return params, Trace(tuple(objective), reason)
