"""How to read and how to write: one value each, handed to every format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from convener.coarse import CoarseSpec
from convener.data import SILENCES, Silence
from convener.errors import ConfigError
from convener.schemes import REPAIR_POLICIES, SCHEMES, RepairPolicy, Scheme
from convener.settings import config_from_dict

OverlapPolicy = Literal["longest", "first", "error"]
MisalignmentPolicy = Literal["expand", "contract", "drop", "error"]


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a reader may need to be told."""

    sources: str | tuple[str, ...] = "recommended"
    """"recommended" (the list a Wrench folder recommends, else all), "all", or names."""
    types: tuple[str, ...] | None = None
    """Entity types in order; by default the file's own, or those found, in alphabetical order."""
    coarse: Mapping[str, CoarseSpec] | None = None
    """What those labels allow that are coarse: {"ENT": "any", "NOT-PER": "not PER", "GPE": ("LOC",
    "ORG")}; as a string, "ENT=any; NOT-PER=not PER; GPE=LOC, ORG"."""
    silence: Silence | None = None
    """What silence means for every source; by default what the file or its format says."""
    on_overlap: OverlapPolicy = "longest"
    """Which of two overlapping spans of one source stays."""
    on_misaligned: MisalignmentPolicy = "expand"
    """A character span that cuts through words grows, shrinks, goes, or is an error."""
    on_illegal: RepairPolicy = "begin"
    """A stray I- tag begins a span, is dropped with what continues it, or is an error."""
    columns: tuple[str, ...] | None = None
    """CoNLL columns: "token", "gold", "label", "_" (ignore), or "source:NAME"."""
    spacy: str | None = None
    """Raw text is cut with this spaCy pipeline or the rules of this language, not with ours."""

    def __post_init__(self) -> None:
        if isinstance(self.sources, str) and self.sources not in ("recommended", "all"):
            object.__setattr__(self, "sources", (self.sources,))
        if self.types is not None and self.coarse:
            types = dict.fromkeys([*self.types, *self.coarse])
            object.__setattr__(self, "types", tuple(types))
        _check_choice("silence", self.silence, (None, *SILENCES))
        _check_choice("on_overlap", self.on_overlap, get_args(OverlapPolicy))
        _check_choice("on_misaligned", self.on_misaligned, get_args(MisalignmentPolicy))
        _check_choice("on_illegal", self.on_illegal, REPAIR_POLICIES)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ReadOptions:
        """Options from names and values; lists may be given as one string with commas."""
        return config_from_dict(cls, values, kind="reading option")


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """What a writer may need to be told."""

    scheme: Scheme = "bio"
    """The tag scheme, for formats that write tags."""
    lossy: bool = False
    """Write even where the format cannot carry the votes or labels as they are."""

    def __post_init__(self) -> None:
        _check_choice("scheme", self.scheme, SCHEMES)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> WriteOptions:
        """Options from names and values."""
        return config_from_dict(cls, values, kind="writing option")


def _check_choice(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        choices = ", ".join(str(item) for item in allowed if item is not None)
        raise ConfigError(f"{name} must be one of {choices}; got {value!r}")
