"""The contract of an encoder: words in, features out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.features import EncoderSpec
from convener.data.ragged import StringArray


class EncodedBatch(NamedTuple):
    """Features of some sentences: of their tokens (N, D) and of themselves (M, D)."""

    tokens: NDArray[np.float32]
    sentences: NDArray[np.float32]


class Encoder(ABC):
    """Turns words into features; each sentence is read alone.

    Making one costs nothing: what is heavy is loaded when the first sentence comes.
    """

    name: str
    """As people call it, and as `encode.get` finds it again."""
    dim: int

    @property
    @abstractmethod
    def spec(self) -> EncoderSpec:
        """What tells this encoder from any other: name, digest, settings."""

    @abstractmethod
    def encode(self, tokens: StringArray, offsets: NDArray[np.int64]) -> EncodedBatch:
        """Features of consecutive sentences: all words, and where each sentence begins (M+1,)."""


def sentence_means(token_vectors: NDArray[np.float32], offsets: NDArray[np.int64]) -> NDArray[np.float32]:
    """The mean of each sentence's rows, zero for an empty one.  (N, D), (M+1,) -> (M, D)

    >>> sentence_means(np.array([[1], [3]], np.float32), np.array([0, 0, 2, 2])).ravel().tolist()
    [0.0, 2.0, 0.0]
    """
    bounds, lengths = offsets.tolist(), np.diff(offsets)
    means = np.zeros((len(lengths), token_vectors.shape[1]), np.float32)
    # One by one is several times as fast as numpy's reduceat, which goes by columns.
    for number in np.flatnonzero(lengths).tolist():
        np.add.reduce(token_vectors[bounds[number] : bounds[number + 1]], axis=0, out=means[number])
    means /= np.maximum(lengths, 1)[:, None]
    return means
