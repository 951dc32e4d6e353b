"""Spelling beside what an encoder says: capitals and endings, which many encoders do not see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from convener.data import Dataset
from convener.encode import Encoder, Hashing
from convener.features import Features, as_stored
from convener.train.packing import features_of

LONGEST = 4
"""Characters in the longest pieces of words that are looked at."""


def speller_of(width: int) -> Encoder | None:
    """What reads the spelling of words, in so many numbers; neighbours are the tagger's to see."""
    return Hashing(width=width, longest=LONGEST, window=0) if width else None


def spelled(data: Dataset, speller: Encoder | None) -> Dataset:
    """The data, each word's spelling to the right of its features.

    >>> import convener as cv
    >>> data = cv.encode(cv.demo.corpus().test, "hashing", width=64, cache=False)
    >>> spelled(data, speller_of(32)).features.width
    96
    """
    features = features_of(data)
    if speller is None:
        return data
    found = speller.encode(data.tokens, data.offsets)
    return data.with_features(
        replace(
            features,
            tokens=_beside(features.tokens, found.tokens, features),
            sentences=_beside(features.sentences, found.sentences, features),
        )
    )


def _beside(known: np.ndarray, found: np.ndarray, features: Features) -> np.ndarray:
    return np.hstack([known, as_stored(found, features.dtype)])
