"""The data sets of the benchmarks: real ones from a folder, a small one for smoke tests, generated ones."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import convener as cv
from convener.data.ragged import StringArray

DATA = Path(os.environ.get("CONVENER_DATA", Path(__file__).parents[3] / "shared" / "data"))
"""The folder of the real data sets."""
NAMES = ("LaptopReview", "NCBI-Disease", "BC5CDR", "CoNLL")
"""Data sets of the paper that are available here; OntoNotes is not."""
ALL_NAMES = (*NAMES, "WikiGold", "MIT-Restaurant")
"""All data sets that are available here."""
DEMO = "demo"
"""Name of the smoke-test data set: the first sentences of the embedded corpus."""
DEMO_SENTENCES = 50
TRAIN_FRACTION = 0.8
"""Share of valid that becomes train where a data set has no train split."""


class Splits(NamedTuple):
    """Train, valid and test of a data set."""

    train: cv.Dataset
    valid: cv.Dataset
    test: cv.Dataset


def is_available(name: str) -> bool:
    """Whether a data set can be read here."""
    return name == DEMO or (DATA / name).is_dir()


@lru_cache(maxsize=1)
def splits(name: str, encoder: str = "") -> Splits:
    """The splits of a data set, with features if an encoder is named.

    Where there is no train split, the first 80 % of valid become train.
    """
    if name == DEMO:
        corpus = cv.demo.load_corpus()
        parts = [part[:DEMO_SENTENCES] for part in (corpus.train, corpus.valid, corpus.test)]
        return Splits(*(cv.encode(part, encoder) if encoder else part for part in parts))
    corpus = cv.read_corpus(DATA / name)
    if encoder:
        corpus = cv.encode(corpus, encoder)
    if "train" in corpus:
        return Splits(corpus.train, corpus.valid, corpus.test)
    return Splits(*corpus.valid.split(TRAIN_FRACTION), corpus.test)


def make_dataset(
    types: Sequence[str],
    tokens: StringArray,
    offsets: np.ndarray,
    votes: np.ndarray,
    gold: np.ndarray | None = None,
) -> cv.Dataset:
    """A generated data set whose sources mark only what they know."""
    count = votes.shape[1]
    return cv.Dataset(
        tags=cv.TagSet(tuple(types)),
        tokens=tokens,
        offsets=offsets,
        sources=tuple(f"source-{number}" for number in range(count)),
        votes=votes,
        unmarked=("abstain",) * count,
        gold=gold,
    )


def filler_tokens(count: int) -> StringArray:
    """So many tokens "w", for benchmarks that do not read the text."""
    return StringArray(np.full(count, ord("w"), np.uint8), np.arange(count + 1))
