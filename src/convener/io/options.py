"""How to read and how to write: one value each, handed to every format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from convener.coarse import Meaning
from convener.data import SILENCES, Silence
from convener.errors import ConfigError
from convener.schemes import REPAIRS, SCHEMES, Repair, Scheme
from convener.settings import from_mapping

Overlap = Literal["longest", "first", "error"]
Misaligned = Literal["expand", "contract", "drop", "error"]


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What a reader may need to be told."""

    sources: str | tuple[str, ...] = "recommended"
    """"recommended" (the list a Wrench folder recommends, else all), "all", or names."""
    types: tuple[str, ...] | None = None
    """Entity types in order; by default the file's own, or those found, in alphabetical order."""
    coarse: Mapping[str, Meaning] | None = None
    """What those labels allow that are coarse: {"ENT": "any", "NOT-PER": "not PER", "GPE": ("LOC",
    "ORG")}; as a string, "ENT=any; NOT-PER=not PER; GPE=LOC, ORG"."""
    silence: Silence | None = None
    """What silence means for every source; by default what the file or its format says."""
    on_overlap: Overlap = "longest"
    """Which of two overlapping spans of one source stays."""
    on_misaligned: Misaligned = "expand"
    """A character span that cuts through words grows, shrinks, goes, or is an error."""
    on_illegal: Repair = "begin"
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
        _expect("silence", self.silence, (None, *SILENCES))
        _expect("on_overlap", self.on_overlap, get_args(Overlap))
        _expect("on_misaligned", self.on_misaligned, get_args(Misaligned))
        _expect("on_illegal", self.on_illegal, REPAIRS)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> ReadOptions:
        """Options from names and values; lists may be given as one string with commas."""
        return from_mapping(cls, settings, what="reading option")


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """What a writer may need to be told."""

    scheme: Scheme = "bio"
    """The tag scheme, for formats that write tags."""
    lossy: bool = False
    """Write even where the format cannot carry the votes or labels as they are."""

    def __post_init__(self) -> None:
        _expect("scheme", self.scheme, SCHEMES)

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> WriteOptions:
        """Options from names and values."""
        return from_mapping(cls, settings, what="writing option")


def _expect(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        listed = ", ".join(str(item) for item in allowed if item is not None)
        raise ConfigError(f"{name} must be one of {listed}; got {value!r}")
