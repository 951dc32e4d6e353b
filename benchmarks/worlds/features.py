"""Feature vectors of tokens: word identity, a signal of the true label and its neighbours, and noise."""

from __future__ import annotations

import numpy as np

from benchmarks.worlds.config import WorldConfig
from benchmarks.worlds.text import Corpus
from convener.data.features import EncoderSpec, Features

WORD = 0.7
"""Standard deviation of the part that depends on the word alone."""
SENTENCE = 0.4
"""Standard deviation of the part that is the same in a sentence."""
NEIGHBOUR = 0.4
"""Weight of the labels of the tokens beside."""
SEPARATION = {"much": 4.5, "some": 2.8, "little": 1.4, "nothing": 0.0}
"""Distance between the means of two labels, in standard deviations of what else varies."""
HARD = 0.4
"""Standard deviation of the logarithm of the signal between mentions."""


def make_features(config: WorldConfig, corpus: Corpus) -> Features:
    """Features of all tokens and sentences, stored as float16.

    Features that tell nothing are noise in worlds with even seeds, else true features of other tokens.
    """
    rng = np.random.default_rng([config.seed, 2])
    count, dim = len(corpus.words), config.feature_dim
    shuffled = config.features == "nothing" and config.seed % 2
    level = "some" if shuffled else config.features
    rows = rng.standard_normal((count, dim), dtype=np.float32)
    sentences = np.diff(corpus.offsets)
    rows += SENTENCE * np.repeat(rng.standard_normal((len(sentences), dim), dtype=np.float32), sentences, axis=0)
    if level != "nothing":
        rows += WORD * rng.standard_normal((int(corpus.words.max()) + 1, dim), dtype=np.float32)[corpus.words]
        rows += _signal(config, corpus, SEPARATION[level], rng)
    if shuffled:
        rows = rows[rng.permutation(count)]
    means = (
        np.add.reduceat(rows, np.minimum(corpus.offsets[:-1], count - 1), axis=0) / np.maximum(sentences, 1)[:, None]
    )
    spec = EncoderSpec("world", f"world-{config.name}-{config.features}-{dim}")
    return Features(rows.astype(np.float16), means.astype(np.float16), spec)


def _signal(config: WorldConfig, corpus: Corpus, separation: float, rng: np.random.Generator) -> np.ndarray:
    """Sum of a vector for the label (B and I differ) and weaker ones for the labels beside.  -> (N, D)"""
    label, first = corpus.label, np.zeros(len(corpus.label), bool)
    first[corpus.start] = True
    kinds = np.where(label == 0, 0, 2 * label - first)
    strength = separation * np.sqrt((1 + WORD**2 + SENTENCE**2) / (2 * config.feature_dim))
    means = strength * rng.standard_normal((1 + 2 * len(config.type_shares), config.feature_dim), dtype=np.float32)
    means[0] = 0
    scale = np.ones(len(label), np.float32)
    hardness = np.exp(HARD * rng.standard_normal(len(corpus.start)))
    scale[label > 0] = np.repeat(hardness, corpus.end - corpus.start)
    vectors = means[kinds] * scale[:, None]
    signal = vectors.copy()
    signal[1:] += NEIGHBOUR * vectors[:-1]
    signal[:-1] += NEIGHBOUR * vectors[1:]
    return signal
