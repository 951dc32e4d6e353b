"""The state of a fitted model: what it was fitted on, what it learned, and how data is matched to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.features import EncoderSpec, Standardizer
from convener.data.predictions import GoldUse
from convener.data.votes import VoteSelection
from convener.errors import DataError, MismatchError
from convener.evaluation.source_reliability import Reliability
from convener.storage import select_prefix

Params = Mapping[str, NDArray[Any]]
"""Parameters of a model as named arrays."""


@dataclass(frozen=True, eq=False)
class FittedState:
    """The state of a fitted model: types, sources, selected votes, parameters, reliability, diagnostics."""

    types: tuple[str, ...]
    sources: tuple[str, ...]
    unmarked: tuple[str, ...]
    selection: VoteSelection
    params: Any
    """Parameters returned by `_fit`; named arrays in most models."""
    reliability: Reliability
    diagnostics: Diagnostics
    encoder_spec: EncoderSpec | None = None
    """The encoder of the features it was fitted on."""
    standardizer: Standardizer | None = None
    """Mean and scale of those features."""
    uses_gold: GoldUse = "none"
    """Which gold labels the fit used."""

    @property
    def used_sources(self) -> tuple[str, ...]:
        """The sources that the model uses: duplicates are left out."""
        return self.selection.used_sources(self.sources)

    def serialize(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON values and arrays of everything but the parameters."""
        metadata = {
            "types": list(self.types),
            "sources": list(self.sources),
            "unmarked": list(self.unmarked),
            "vote_selection": self.selection.to_json(),
            "uses_gold": self.uses_gold,
            "diagnostics_sources": list(self.diagnostics.sources),
            **({"encoder": self.encoder_spec.to_json()} if self.encoder_spec else {}),
        }
        arrays = {f"reliability.{name}": array for name, array in vars(self.reliability).items()}
        if self.standardizer is not None:
            arrays |= {f"standardizer.{name}": a for name, a in self.standardizer._asdict().items()}
        return metadata, arrays | {f"diagnostics.{name}": a for name, a in self.diagnostics.to_arrays().items()}

    @classmethod
    def deserialize(cls, metadata: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], params: Any) -> FittedState:
        """The state that `serialize` wrote, with parameters that the model restored."""
        return cls(
            tuple(metadata["types"]),
            tuple(metadata["sources"]),
            tuple(metadata["unmarked"]),
            VoteSelection.from_json(metadata["vote_selection"]),
            params,
            Reliability(**select_prefix("reliability.", arrays)),
            Diagnostics.from_arrays(tuple(metadata["diagnostics_sources"]), select_prefix("diagnostics.", arrays)),
            EncoderSpec.from_json(metadata["encoder"]) if "encoder" in metadata else None,
            Standardizer(**select_prefix("standardizer.", arrays)) if "encoder" in metadata else None,
            metadata["uses_gold"],
        )


def match_fitted(
    data: Dataset,
    types: tuple[str, ...],
    sources: tuple[str, ...],
    unmarked: tuple[str, ...],
    model: str,
) -> Dataset:
    """The data with the types and sources that a model was fitted on, or an error that names what differs.

    Coarse labels may differ from those in fitting: the labels that they allow define them.
    """
    missing = [name for name in sources if name not in data.sources]
    if missing:
        raise MismatchError(
            f"{model} was fitted with sources that the data lacks: {', '.join(missing)} "
            f"(the data has: {', '.join(data.sources) or 'none'})"
        )
    try:
        data = data.with_types(types)
    except DataError as error:
        raise MismatchError(f"{model} was fitted on types {', '.join(types)}: {error}") from None
    if data.sources != sources:
        data = data.select_sources(sources)
    for name, expected, found in zip(sources, unmarked, data.unmarked, strict=True):
        if expected != found:
            raise MismatchError(
                f"{model} was fitted with unmarked={expected} for source {name}; the data has {found}; "
                f"if the data does not state it, read it with the option unmarked={expected}"
            )
    return data
