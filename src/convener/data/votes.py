"""What a model hears of the votes it is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.tags import ABSTAIN

MIN_SHARED_VOTES = 20
"""So many marks must be the same before one source is said to repeat another."""
MIN_OVERLAP = 0.95
"""Share of the tokens marked by either that both must mark alike. Two sources that are so much
alike by being right must each be nearly perfect, and then one of them is enough, too."""


def find_duplicates(votes: NDArray[np.int16]) -> NDArray[np.int64]:
    """The number of the source that each one repeats; its own where it speaks for itself.  -> (K,)

    votes (N, K). Of sources that are alike the one with most marks is the original, the first of
    several.

    >>> one = np.arange(100) % 3
    >>> find_duplicates(np.stack([one, one[::-1], one], axis=1).astype(np.int16)).tolist()
    [0, 1, 0]
    """
    num_marked = np.count_nonzero(votes > 0, axis=0)
    duplicate_of = np.arange(votes.shape[1])
    order = np.argsort(-num_marked, kind="stable").tolist()
    for rank, source in enumerate(order):
        for other in order[:rank]:
            if duplicate_of[other] == other and _is_duplicate(votes[:, other], votes[:, source]):
                duplicate_of[source] = other
                break
    return duplicate_of


def find_subset_sources(votes: NDArray[np.int16]) -> list[tuple[int, int, float]]:
    """Sources whose marks nearly all are another's, too: (source, the other, share).

    votes (N, K). Of several others the one with fewest marks is named; it has more than the source,
    or is an earlier copy.

    >>> one = np.arange(100) % 3
    >>> find_subset_sources(np.stack([one, one * (np.arange(100) < 50)], axis=1).astype(np.int16))
    [(1, 0, 1.0)]
    """
    num_marked = np.count_nonzero(votes > 0, axis=0)
    order = np.argsort(-num_marked, kind="stable").tolist()
    subsets = []
    for rank, source in enumerate(order):
        marked = votes[:, source] > 0
        for other in reversed(order[:rank]):
            num_same = np.count_nonzero(votes[marked, other] == votes[marked, source])
            if num_same >= MIN_SHARED_VOTES and num_same >= MIN_OVERLAP * num_marked[source]:
                subsets.append((source, other, float(num_same / num_marked[source])))
                break
    return sorted(subsets)


def _is_duplicate(first: NDArray[np.int16], second: NDArray[np.int16]) -> bool:
    """Whether two columns of votes mark nearly the same."""
    marked = (first > 0) | (second > 0)
    num_same = np.count_nonzero(first[marked] == second[marked])
    return bool(num_same >= MIN_SHARED_VOTES and num_same >= MIN_OVERLAP * np.count_nonzero(marked))


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


def entity_votes(data: Dataset) -> NDArray[np.bool_]:
    """Which votes say that there is an entity: not O, nor what may be O.  -> (N, K)"""
    if not data.coarse:
        return data.votes > 0
    is_entity = np.append(~data.allowed_labels()[:, 0], False)  # the last for those who abstain
    return is_entity[data.votes]


def voted_types(data: Dataset) -> NDArray[np.bool_]:
    """Types that some source says; all that a coarse label allows if it says none of them.

    -> (E,)
    """
    votes, num_labels = data.votes, len(data.fine_tags)
    voted = np.zeros(len(data.fine_tags.types), bool)
    voted[(votes[(votes > 0) & (votes < num_labels)] - 1) // 2] = True
    allowed_types = data.allowed_labels()[:, 1::2] | data.allowed_labels()[:, 2::2]
    coarse_types = [allowed_types[symbol] for symbol in np.unique(votes[entity_votes(data) & (votes >= num_labels)])]
    for allowed in coarse_types:
        if not (allowed & voted).any():
            voted = voted | allowed
    return voted
