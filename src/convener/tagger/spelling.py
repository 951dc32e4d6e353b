"""Spelling beside what an encoder says: capitals and endings, which many encoders do not see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from convener.data import Dataset
from convener.encode import Encoder, HashingEncoder
from convener.features import Features, from_float32
from convener.train.packing import require_features

MAX_NGRAM = 4
"""Characters in the longest pieces of words that are looked at."""


def make_char_encoder(dim: int) -> Encoder | None:
    """What reads the spelling of words, in so many numbers; neighbours are the tagger's to see."""
    return HashingEncoder(width=dim, longest=MAX_NGRAM, window=0) if dim else None


def add_char_features(data: Dataset, char_encoder: Encoder | None) -> Dataset:
    """The data, each word's spelling to the right of its features.

    >>> import convener as cv
    >>> data = cv.encode(cv.demo.load_corpus().test, "hashing", width=64, cache=False)
    >>> add_char_features(data, make_char_encoder(32)).features.dim
    96
    """
    features = require_features(data)
    if char_encoder is None:
        return data
    char_features = char_encoder.encode(data.tokens, data.offsets)
    return data.with_features(
        replace(
            features,
            tokens=_append_columns(features.tokens, char_features.tokens, features),
            sentences=_append_columns(features.sentences, char_features.sentences, features),
        )
    )


def _append_columns(stored: np.ndarray, added: np.ndarray, features: Features) -> np.ndarray:
    return np.hstack([stored, from_float32(added, features.dtype)])
