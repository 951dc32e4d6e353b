"""The contract of an encoder: tokens in, features out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.features import EncoderSpec
from convener.data.ragged import StringArray


class EncodedBatch(NamedTuple):
    """Token features (N, D) and sentence features (M, D) of a batch of sentences."""

    tokens: NDArray[np.float32]
    sentences: NDArray[np.float32]


class Encoder(ABC):
    """Computes features of tokens and sentences; each sentence is encoded independently.

    The constructor is cheap: models are loaded on first use.
    """

    name: str
    """Name by which `get_encoder` finds it."""
    dim: int
    """Number of features per token and per sentence."""

    @property
    @abstractmethod
    def spec(self) -> EncoderSpec:
        """Name, digest and settings, which identify the encoder."""

    @abstractmethod
    def encode(self, tokens: StringArray, offsets: NDArray[np.int64]) -> EncodedBatch:
        """Encode consecutive sentences, given all tokens (N) and the sentence offsets (M+1,)."""


def sentence_means(token_vectors: NDArray[np.float32], offsets: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the mean token vector of each sentence, zero if it is empty.  (N, D), (M+1,) -> (M, D)

    >>> sentence_means(np.array([[1], [3]], np.float32), np.array([0, 0, 2, 2])).ravel().tolist()
    [0.0, 2.0, 0.0]
    """
    bounds, lengths = offsets.tolist(), np.diff(offsets)
    means = np.zeros((len(lengths), token_vectors.shape[1]), np.float32)
    # A loop is several times as fast as np.add.reduceat, which iterates by columns.
    for number in np.flatnonzero(lengths).tolist():
        np.add.reduce(token_vectors[bounds[number] : bounds[number + 1]], axis=0, out=means[number])
    means /= np.maximum(lengths, 1)[:, None]
    return means
