"""A fitted model's memory: what it was fitted on and what it learned, matched and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError, MismatchError
from convener.evaluate.sources import f1_of_sources, only_coarse
from convener.features import Encoding, Scaling
from convener.io.checkpoint import under
from convener.models.hearing import Hearing

Params = Mapping[str, NDArray[Any]]
"""What a model has learned: named arrays."""


@dataclass(frozen=True, eq=False)
class Reliability:
    """How good each source is for each entity type; NaN where it cannot be known.

    recall (K, E): P(source says x | truth is x); precision (K, E): P(truth is x | source says x),
    both by token; f1 (K, E): of its spans, if the model's labels were the truth.
    """

    recall: NDArray[np.float64]
    precision: NDArray[np.float64]
    f1: NDArray[np.float64]

    def rows(self, sources: Sequence[str], types: Sequence[str]) -> list[tuple[Any, ...]]:
        """Source, type, recall, precision and F1, None where unknown."""
        arrays = (self.recall, self.precision, self.f1)
        return [
            (source, kind, *(_known(array[k, e]) for array in arrays))
            for k, source in enumerate(sources)
            for e, kind in enumerate(types)
        ]


def judged(
    rates: Sequence[NDArray[np.float64]],
    data: Dataset,
    labels: NDArray[np.int16],
) -> Reliability:
    """Recall and precision as a model has them, F1 as its labels do.

    A source has no precision for a type that it never says, and nothing is known of one that
    gives coarse labels alone.
    """
    recall, precision = (np.where(only_coarse(data)[:, None], np.nan, rate) for rate in rates)
    said = [
        np.bincount((column[column > 0] - 1) // 2, minlength=precision.shape[1])
        for column in data.fine().votes.T
    ]
    return Reliability(
        recall,
        np.where(np.array(said) > 0, precision, np.nan),
        f1_of_sources(data, labels),
    )


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted model's memory: what it was fitted on and what it learned."""

    types: tuple[str, ...]
    sources: tuple[str, ...]
    silence: tuple[str, ...]
    hearing: Hearing
    params: Params
    reliability: Reliability
    encoding: Encoding | None = None
    """Which encoder made the features it was fitted on."""
    scaling: Scaling | None = None
    """Mean and spread of those features; part of what a feature means to the model."""

    @property
    def heard(self) -> tuple[str, ...]:
        """The sources that it hears."""
        return self.hearing.sources(self.sources)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Facts fit for JSON, and arrays."""
        facts = {
            "types": list(self.types),
            "sources": list(self.sources),
            "silence": list(self.silence),
            "hearing": self.hearing.to_json(),
            **({"encoding": self.encoding.to_json()} if self.encoding else {}),
        }
        judged = {
            "reliability.recall": self.reliability.recall,
            "reliability.precision": self.reliability.precision,
            "reliability.f1": self.reliability.f1,
        }
        if self.scaling is not None:
            judged |= {f"scaling.{name}": a for name, a in self.scaling._asdict().items()}
        return facts, judged | {f"params.{name}": a for name, a in self.params.items()}

    @classmethod
    def of_state(cls, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Fitted:
        """Back from facts and arrays."""
        return cls(
            tuple(facts["types"]),
            tuple(facts["sources"]),
            tuple(facts["silence"]),
            Hearing.from_json(facts["hearing"]),
            under("params.", arrays),
            Reliability(**under("reliability.", arrays)),
            Encoding.from_json(facts["encoding"]) if "encoding" in facts else None,
            Scaling(**under("scaling.", arrays)) if "encoding" in facts else None,
        )


def matching(
    data: Dataset,
    types: tuple[str, ...],
    sources: tuple[str, ...],
    silence: tuple[str, ...],
    model: str,
) -> Dataset:
    """The data over the types and sources that a model was fitted on, or a named error.

    Coarse labels may be others than before: what they allow says what they mean.
    """
    missing = [name for name in sources if name not in data.sources]
    if missing:
        raise MismatchError(
            f"{model} was fitted with sources that are missing here: {', '.join(missing)} "
            f"(here: {', '.join(data.sources) or 'none'})"
        )
    try:
        data = data.with_types(types)
    except DataError as error:
        raise MismatchError(f"{model} was fitted on types {', '.join(types)}: {error}") from None
    if data.sources != sources:
        data = data.select_sources(sources)
    for name, expected, found in zip(sources, silence, data.silence, strict=True):
        if expected != found:
            raise MismatchError(
                f"{model} was fitted with silence of {name} meaning {expected}; here it is {found}"
            )
    return data


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
