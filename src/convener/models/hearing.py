"""What a model hears of the votes it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.kernels.repeats import find_duplicates


@dataclass(frozen=True, kw_only=True)
class VoteSelection:
    """Which of the votes count, decided when a model is first fitted."""

    keep_coarse: bool
    """Whether coarse votes are heard; otherwise sources abstain where they say one."""
    duplicate_of: tuple[int, ...]
    """The number of the source that each one repeats, mostly its own: only originals are heard."""
    negative_sources: tuple[str, ...] = ()
    """Sources whose O is no opinion at all: see `negating`."""

    @classmethod
    def from_dataset(cls, data: Dataset, *, keep_coarse: bool, keep_duplicates: bool) -> Self:
        """As the votes ask for it; with `repeats` sources that repeat another are heard again."""
        indices = range(len(data.sources)) if keep_duplicates else find_duplicates(data.votes).tolist()
        return cls(
            keep_coarse=keep_coarse,
            duplicate_of=tuple(indices),
            negative_sources=negative_sources(data),
        )

    def to_json(self) -> dict[str, Any]:
        """As `from_json` reads it."""
        return {"coarse": self.keep_coarse, "original": self.duplicate_of, "negating": self.negative_sources}

    @classmethod
    def from_json(cls, metadata: Mapping[str, Any]) -> Self:
        """What `to_json` gave."""
        return cls(
            keep_coarse=metadata["coarse"],
            duplicate_of=tuple(metadata["original"]),
            negative_sources=tuple(metadata["negating"]),
        )

    def apply(self, data: Dataset) -> Dataset:
        """The data with the votes that count."""
        data = o_to_abstain(data, self.negative_sources) if self.keep_coarse else data.without_coarse()
        names = self.used_sources(data.sources)
        return data if names == data.sources else data.select_sources(names)

    def used_sources(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Of all sources those that are heard."""
        return tuple(names[number] for number in sorted(set(self.duplicate_of)))

    def duplicates(self, names: tuple[str, ...]) -> list[tuple[str, str]]:
        """Sources that are not heard, each with the one it repeats."""
        pairs = ((name, names[n]) for name, n in zip(names, self.duplicate_of, strict=True))
        return [(name, other) for name, other in pairs if name != other]

    def expand(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows for all sources from rows for those that are heard: a copy is like its original."""
        return rates[np.searchsorted(np.unique(self.duplicate_of), self.duplicate_of)]


def negative_sources(data: Dataset) -> tuple[str, ...]:
    """Sources whose silence is O and that say what may be O ("not PER").

    What they mean they say: the rest is no opinion at all.
    """
    if not data.coarse:
        return ()
    may_be_o = np.append(data.allowed_labels()[:, 0], False)
    may_be_o[0] = False
    is_negative = may_be_o[data.votes].any(axis=0) & data.quiet()
    return tuple(name for name, negative in zip(data.sources, is_negative, strict=True) if negative)


def o_to_abstain(data: Dataset, sources: tuple[str, ...]) -> Dataset:
    """The data with the O of these sources taken for an abstention."""
    if not sources:
        return data
    columns = [data.source_index(name) for name in sources]
    votes = data.votes.copy()
    selected = votes[:, columns]
    votes[:, columns] = np.where(selected == 0, np.int16(ABSTAIN), selected)
    return data.with_sources(data.sources, votes, data.silence)
