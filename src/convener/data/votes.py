"""Selection of the votes a model uses: duplicate sources, coarse votes, sources that only exclude types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.tags import ABSTAIN

MIN_SHARED_VOTES = 20
"""Minimum number of equal entity votes for a source to count as a duplicate or subset of another."""
MIN_OVERLAP = 0.95
"""Minimum fraction of equal votes among the tokens that either source marks. Independent sources that agree this often
must both be nearly perfect; then one of them suffices as well."""


def find_duplicates(votes: NDArray[np.int16]) -> NDArray[np.int64]:
    """Index of the source that each source duplicates; its own index if it is no duplicate.  -> (K,)

    Duplicates are nearly equal where either of both marks an entity. The one with the most entity votes is the
    original, the first one in a tie. votes (N, K)

    >>> one = np.arange(100) % 3
    >>> find_duplicates(np.stack([one, one[::-1], one], axis=1).astype(np.int16)).tolist()
    [0, 1, 0]
    """
    num_marked = np.count_nonzero(votes > 0, axis=0)
    duplicate_of = np.arange(votes.shape[1])
    order = np.argsort(-num_marked, kind="stable").tolist()
    for rank, source in enumerate(order):
        originals = [other for other in order[:rank] if duplicate_of[other] == other]
        token = np.flatnonzero(votes[:, source] > 0) if originals else np.zeros(0, np.int64)
        own = votes[token, source]
        for other in originals:
            column = votes[token, other]
            num_same = np.count_nonzero(column == own)
            num_union = num_marked[source] + num_marked[other] - np.count_nonzero(column > 0)
            if num_same >= MIN_SHARED_VOTES and num_same >= MIN_OVERLAP * num_union:
                duplicate_of[source] = other
                break
    return duplicate_of


def find_subset_sources(votes: NDArray[np.int16]) -> list[tuple[int, int, float]]:
    """Sources whose entity votes are nearly all contained in another's: (source, other source, fraction contained).

    votes (N, K). Of several other sources, the one with the fewest entity votes is returned; it has more than the
    source, or equally many and a lower index.

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


@dataclass(frozen=True, kw_only=True)
class VoteSelection:
    """Which votes a model uses, decided when it is first fitted."""

    keep_coarse: bool
    """Whether coarse votes are used; otherwise they become abstentions."""
    duplicate_of: tuple[int, ...]
    """(K,) index of the source that each source duplicates, or its own: only originals are used."""
    negative_sources: tuple[str, ...] = ()
    """Sources whose O votes become abstentions: see the function `negative_sources`."""

    @classmethod
    def from_dataset(cls, data: Dataset, *, keep_coarse: bool, keep_duplicates: bool) -> Self:
        """Select votes of a dataset; with `keep_duplicates`, duplicate sources are used as well."""
        indices = range(len(data.sources)) if keep_duplicates else find_duplicates(data.votes).tolist()
        return cls(
            keep_coarse=keep_coarse,
            duplicate_of=tuple(indices),
            negative_sources=negative_sources(data),
        )

    def to_json(self) -> dict[str, Any]:
        """A dictionary that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_json(cls, metadata: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        return cls(
            keep_coarse=metadata["keep_coarse"],
            duplicate_of=tuple(metadata["duplicate_of"]),
            negative_sources=tuple(metadata["negative_sources"]),
        )

    def apply(self, data: Dataset) -> Dataset:
        """The data with the selected votes only."""
        data = o_to_abstain(data, self.negative_sources) if self.keep_coarse else data.without_coarse()
        names = self.used_sources(data.sources)
        return data if names == data.sources else data.select_sources(names)

    def used_sources(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the sources that are used, given the names of all."""
        return tuple(names[index] for index in sorted(set(self.duplicate_of)))

    def duplicates(self, names: tuple[str, ...]) -> list[tuple[str, str]]:
        """Duplicate sources, each with its original."""
        pairs = ((name, names[index]) for name, index in zip(names, self.duplicate_of, strict=True))
        return [(name, other) for name, other in pairs if name != other]


def negative_sources(data: Dataset) -> tuple[str, ...]:
    """Labeling functions (sources with unmarked="abstain") that vote for coarse labels which allow O ("not PER").

    Such a source states explicitly where an entity is excluded, so its O votes carry no information.
    """
    if not data.coarse:
        return ()
    may_be_o = np.append(data.allowed_labels()[:, 0], False)
    may_be_o[0] = False
    is_negative = may_be_o[data.votes].any(axis=0) & data.unmarked_is_abstain()
    return tuple(name for name, negative in zip(data.sources, is_negative, strict=True) if negative)


def o_to_abstain(data: Dataset, sources: tuple[str, ...]) -> Dataset:
    """The data with O votes of these sources replaced by abstentions."""
    if not sources:
        return data
    columns = [data.source_index(name) for name in sources]
    votes = data.votes.copy()
    selected = votes[:, columns]
    votes[:, columns] = np.where(selected == 0, np.int16(ABSTAIN), selected)
    return data.with_sources(data.sources, votes, data.unmarked)


def entity_votes(data: Dataset) -> NDArray[np.bool_]:
    """Which votes are for an entity: neither O nor a coarse label that allows O.  -> (N, K)"""
    if not data.coarse:
        return data.votes > 0
    is_entity = np.append(~data.allowed_labels()[:, 0], False)  # the last entry is for abstain
    return is_entity[data.votes]


def voted_types(data: Dataset) -> NDArray[np.bool_]:
    """Types that some source votes for; a coarse vote adds all types it allows if none of them has votes.  -> (E,)"""
    votes, num_labels = data.votes, len(data.fine_tags)
    voted = np.zeros(len(data.fine_tags.types), bool)
    voted[(votes[(votes > 0) & (votes < num_labels)] - 1) // 2] = True
    allowed_types = data.allowed_labels()[:, 1::2] | data.allowed_labels()[:, 2::2]
    coarse_types = [allowed_types[symbol] for symbol in np.unique(votes[entity_votes(data) & (votes >= num_labels)])]
    for allowed in coarse_types:
        if not (allowed & voted).any():
            voted = voted | allowed
    return voted
