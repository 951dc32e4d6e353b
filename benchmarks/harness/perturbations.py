"""Perturbations of a data set: fewer sources, a duplicated one, a random one, less text."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

import convener as cv
from benchmarks.harness.data import Splits

MAX_SUBSETS = 20
"""Subsets of the sources of one data set, at most."""
SEED = 20
Kind = Literal["none", "subset", "duplicate", "random-source", "tenth-of-train"]


@dataclass(frozen=True)
class Perturbation:
    """A change to all splits, or to train alone.

    none             nothing
    subset           keep these sources
    duplicate        add one source twice more, under other names
    random-source    add a source that marks tokens at random
    tenth-of-train   keep a tenth of the training sentences
    """

    kind: Kind = "none"
    sources: tuple[int, ...] = ()

    def __str__(self) -> str:
        """The name in result files; empty for none."""
        return "" if self.kind == "none" else "-".join([self.kind, *map(str, self.sources)])

    def apply(self, splits: Splits) -> Splits:
        """The perturbed splits."""
        if self.kind == "none":
            return splits
        if self.kind == "tenth-of-train":
            order = np.random.default_rng(SEED).permutation(len(splits.train))
            return splits._replace(train=splits.train.take(np.sort(order[: len(order) // 10])))
        return Splits(*map(self._apply_to, splits))

    def _apply_to(self, data: cv.Dataset) -> cv.Dataset:
        if self.kind == "subset":
            return data.select_sources(data.sources[number] for number in self.sources)
        return _with_copies(data, *self.sources) if self.kind == "duplicate" else _with_random_source(data)


NONE = Perturbation()


def perturbations(data: cv.Dataset) -> list[Perturbation]:
    """All perturbations of a data set.

    Subsets have at least two sources and not all of them: every one, or `MAX_SUBSETS` drawn with
    uniform sizes.
    """
    count = len(data.sources)
    subsets = [part for size in range(2, count) for part in combinations(range(count), size)]
    if len(subsets) > MAX_SUBSETS:
        rng, drawn = np.random.default_rng(SEED), set[tuple[int, ...]]()
        while len(drawn) < MAX_SUBSETS:
            size = int(rng.integers(2, count))
            drawn.add(tuple(sorted(rng.choice(count, size, replace=False).tolist())))
        subsets = sorted(drawn)
    return [
        *(Perturbation("subset", part) for part in subsets),
        *(Perturbation("duplicate", (number,)) for number in range(count)),
        Perturbation("random-source"),
        Perturbation("tenth-of-train"),
    ]


def one_of_each_kind(data: cv.Dataset) -> list[Perturbation]:
    """The first perturbation of every kind, for smoke tests."""
    return list({change.kind: change for change in reversed(perturbations(data))}.values())


def _with_copies(data: cv.Dataset, number: int) -> cv.Dataset:
    votes = np.concatenate([data.votes, *[data.votes[:, [number]]] * 2], axis=1)
    names = (*data.sources, "copy 1", "copy 2")
    return data.with_sources(names, votes, (*data.unmarked, *[data.unmarked[number]] * 2))


def _with_random_source(data: cv.Dataset) -> cv.Dataset:
    """One more source that marks single tokens at random, half as many as all others together."""
    rng = np.random.default_rng((SEED, len(data)))
    share = (data.votes > 0).any(axis=1).mean() / 2
    hit = rng.random(len(data.tokens)) < share
    types = rng.integers(0, len(data.tags.types), len(hit))
    column = np.where(hit, 2 * types + 1, 0).astype(np.int16)
    votes = np.concatenate([data.votes, column[:, None]], axis=1)
    return data.with_sources((*data.sources, "random"), votes, (*data.unmarked, "abstain"))
