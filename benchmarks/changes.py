"""What a model may meet elsewhere: fewer sources, one of them thrice, a random one, less text."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import NamedTuple

import numpy as np

import convener as cv

MOST = 20
"""Subsets of the sources of one data set."""
SEED = 20


class Splits(NamedTuple):
    """A data set as the models see it."""

    train: cv.Dataset
    valid: cv.Dataset
    test: cv.Dataset


def changes(data: cv.Dataset) -> list[str]:
    """Names of all that is done to a data set; the names say how.

    Of the subsets of at least two sources, and not of all, as many of each size as there are, or
    twenty drawn with sizes alike.
    """
    count = len(data.sources)
    subsets = [part for size in range(2, count) for part in combinations(range(count), size)]
    if len(subsets) > MOST:
        rng, drawn = np.random.default_rng(SEED), set[tuple[int, ...]]()
        while len(drawn) < MOST:
            size = int(rng.integers(2, count))
            drawn.add(tuple(sorted(rng.choice(count, size, replace=False).tolist())))
        subsets = sorted(drawn)
    named = ["only-" + "-".join(map(str, part)) for part in subsets]
    return [*named, *(f"thrice-{number}" for number in range(count)), "random", "tenth"]


def changed(splits: Splits, change: str) -> Splits:
    """The splits after a change."""
    kind, *numbers = change.split("-")
    if not kind:
        return splits
    if kind == "tenth":
        some = np.random.default_rng(SEED).permutation(len(splits.train))
        return splits._replace(train=splits.train.take(np.sort(some[: len(some) // 10])))
    made: dict[str, Callable[[cv.Dataset, list[int]], cv.Dataset]] = {
        "only": _only,
        "thrice": _thrice,
        "random": _with_random,
    }
    return Splits(*(made[kind](part, [int(number) for number in numbers]) for part in splits))


def _only(data: cv.Dataset, numbers: list[int]) -> cv.Dataset:
    return data.select_sources(data.sources[number] for number in numbers)


def _thrice(data: cv.Dataset, numbers: list[int]) -> cv.Dataset:
    """One source under two more names."""
    (number,) = numbers
    votes = np.concatenate([data.votes, *[data.votes[:, [number]]] * 2], axis=1)
    names = (*data.sources, "copy 1", "copy 2")
    return data.with_sources(names, votes, (*data.silence, *[data.silence[number]] * 2))


def _with_random(data: cv.Dataset, _: list[int]) -> cv.Dataset:
    """One more source that marks single tokens by chance, half as many as all others together."""
    rng = np.random.default_rng((SEED, len(data)))
    share = (data.votes > 0).any(axis=1).mean() / 2
    hit = rng.random(len(data.tokens)) < share
    kinds = rng.integers(0, len(data.tags.types), len(hit))
    column = np.where(hit, 2 * kinds + 1, 0).astype(np.int16)
    votes = np.concatenate([data.votes, column[:, None]], axis=1)
    return data.with_sources((*data.sources, "random"), votes, (*data.silence, "O"))
