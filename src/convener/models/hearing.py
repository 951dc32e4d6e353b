"""What a model hears of the votes it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.kernels.repeats import originals


@dataclass(frozen=True, kw_only=True)
class Hearing:
    """Which of the votes count, decided when a model is first fitted."""

    coarse: bool
    """Whether coarse votes are heard; otherwise sources abstain where they say one."""
    original: tuple[int, ...]
    """The number of the source that each one repeats, mostly its own: only originals are heard."""
    negating: tuple[str, ...] = ()
    """Sources whose O is no opinion at all: see `negating`."""

    @classmethod
    def of_votes(cls, data: Dataset, *, coarse: bool, repeats: bool) -> Self:
        """As the votes ask for it; with `repeats` sources that repeat another are heard again."""
        numbers = range(len(data.sources)) if repeats else originals(data.votes).tolist()
        return cls(coarse=coarse, original=tuple(numbers), negating=negating(data))

    def to_json(self) -> dict[str, Any]:
        """As `from_json` reads it."""
        return asdict(self)

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Self:
        """What `to_json` gave."""
        return cls(
            coarse=facts["coarse"],
            original=tuple(facts["original"]),
            negating=tuple(facts["negating"]),
        )

    def heard(self, data: Dataset) -> Dataset:
        """The data with the votes that count."""
        data = without_silence(data, self.negating) if self.coarse else data.fine()
        names = self.sources(data.sources)
        return data if names == data.sources else data.select_sources(names)

    def sources(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Of all sources those that are heard."""
        return tuple(names[number] for number in sorted(set(self.original)))

    def repeated(self, names: tuple[str, ...]) -> list[tuple[str, str]]:
        """Sources that are not heard, each with the one it repeats."""
        pairs = ((name, names[n]) for name, n in zip(names, self.original, strict=True))
        return [(name, other) for name, other in pairs if name != other]

    def of_all(self, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows for all sources from rows for those that are heard: a copy is like its original."""
        return rates[np.searchsorted(np.unique(self.original), self.original)]


def negating(data: Dataset) -> tuple[str, ...]:
    """Sources whose silence is O and that say what may be O ("not PER").

    What they mean they say: the rest is no opinion at all.
    """
    if not data.coarse:
        return ()
    doubtful = np.append(data.allowed()[:, 0], False)
    doubtful[0] = False
    said = doubtful[data.votes].any(axis=0) & data.quiet()
    return tuple(name for name, speaks in zip(data.sources, said, strict=True) if speaks)


def without_silence(data: Dataset, sources: tuple[str, ...]) -> Dataset:
    """The data with the O of these sources taken for an abstention."""
    if not sources:
        return data
    columns = [data.source_number(name) for name in sources]
    votes = data.votes.copy()
    chosen = votes[:, columns]
    votes[:, columns] = np.where(chosen == 0, np.int16(ABSTAIN), chosen)
    return data.with_sources(data.sources, votes, data.silence)
