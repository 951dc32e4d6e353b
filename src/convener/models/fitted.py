"""A fitted model's memory: what it was fitted on and what it learned, matched and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.features import EncoderSpec, Standardizer
from convener.data.votes import VoteSelection
from convener.errors import DataError, MismatchError
from convener.evaluation.source_analysis import coarse_only_sources, source_f1
from convener.storage import select_prefix

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
            (source, kind, *(_none_if_nan(array[k, e]) for array in arrays))
            for k, source in enumerate(sources)
            for e, kind in enumerate(types)
        ]


def source_reliability(
    rates: Sequence[NDArray[np.float64]],
    data: Dataset,
    labels: NDArray[np.int16],
) -> Reliability:
    """Recall and precision as a model has them, F1 as its labels do.

    A source has no precision for a type that it never says, and nothing is known of one that
    gives coarse labels alone.
    """
    recall, precision = (np.where(coarse_only_sources(data)[:, None], np.nan, rate) for rate in rates)
    vote_counts = [
        np.bincount((column[column > 0] - 1) // 2, minlength=precision.shape[1])
        for column in data.without_coarse().votes.T
    ]
    return Reliability(
        recall,
        np.where(np.array(vote_counts) > 0, precision, np.nan),
        source_f1(data, labels),
    )


@dataclass(frozen=True, eq=False)
class FittedState:
    """A fitted model's memory: what it was fitted on and what it learned."""

    types: tuple[str, ...]
    sources: tuple[str, ...]
    silence: tuple[str, ...]
    selection: VoteSelection
    params: Params
    reliability: Reliability
    encoder_spec: EncoderSpec | None = None
    """Which encoder made the features it was fitted on."""
    standardizer: Standardizer | None = None
    """Mean and spread of those features; part of what a feature means to the model."""

    @property
    def used_sources(self) -> tuple[str, ...]:
        """The sources that it hears."""
        return self.selection.used_sources(self.sources)

    def serialize(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Facts fit for JSON, and arrays."""
        metadata = {
            "types": list(self.types),
            "sources": list(self.sources),
            "silence": list(self.silence),
            "hearing": self.selection.to_json(),
            **({"encoding": self.encoder_spec.to_json()} if self.encoder_spec else {}),
        }
        arrays = {
            "reliability.recall": self.reliability.recall,
            "reliability.precision": self.reliability.precision,
            "reliability.f1": self.reliability.f1,
        }
        if self.standardizer is not None:
            arrays |= {f"scaling.{name}": a for name, a in self.standardizer._asdict().items()}
        return metadata, arrays | {f"params.{name}": a for name, a in self.params.items()}

    @classmethod
    def deserialize(cls, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FittedState:
        """Back from facts and arrays."""
        return cls(
            tuple(metadata["types"]),
            tuple(metadata["sources"]),
            tuple(metadata["silence"]),
            VoteSelection.from_json(metadata["hearing"]),
            select_prefix("params.", arrays),
            Reliability(**select_prefix("reliability.", arrays)),
            EncoderSpec.from_json(metadata["encoding"]) if "encoding" in metadata else None,
            Standardizer(**select_prefix("scaling.", arrays)) if "encoding" in metadata else None,
        )


def match_fitted(
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
            raise MismatchError(f"{model} was fitted with silence of {name} meaning {expected}; here it is {found}")
    return data


def _none_if_nan(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
