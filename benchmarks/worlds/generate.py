"""A generated corpus with known truth.

>>> from benchmarks.worlds.draw import draw_config
>>> world = make_world(draw_config(seed=1, number=0))
>>> world.train.gold is not None
True
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import convener as cv
from benchmarks.worlds.config import WorldConfig
from benchmarks.worlds.features import make_features
from benchmarks.worlds.sources import SourceTruth, VoteMaker, read_documents, token_mask
from benchmarks.worlds.text import COMMON_WORDS, Corpus, make_text
from convener.data.ragged import StringArray
from convener.data.spans import Spans


@dataclass(frozen=True, eq=False)
class World:
    """Splits with gold, and the truth about the sources. In a crowd, test is train."""

    config: WorldConfig
    train: cv.Dataset
    valid: cv.Dataset
    test: cv.Dataset
    truth: SourceTruth


def make_world(config: WorldConfig, *, features: bool = True) -> World:
    """Generate a corpus; the same settings give the same one.

    features: whether to make feature vectors, which most models do not need.
    """
    corpus = make_text(config, np.random.default_rng([config.seed, 0]))
    maker = VoteMaker(config, corpus)
    tags = cv.TagSet(tuple(f"TYPE-{number + 1}" for number in range(len(config.type_shares))))
    num_sentences = len(corpus.offsets) - 1
    reads = read_documents(config, num_sentences, np.random.default_rng([config.seed, 1]))
    votes = np.empty((len(corpus.words), len(config.sources)), np.int16)
    for k in range(len(config.sources)):
        votes[:, k] = np.where(token_mask(reads[:, k], corpus.offsets), maker.votes(k, tags), -1)
    data = cv.Dataset(
        tags=tags,
        tokens=_tokens(corpus.words),
        offsets=corpus.offsets,
        sources=tuple(source.name for source in config.sources),
        votes=votes,
        unmarked=tuple(source.unmarked for source in config.sources),
        gold=_gold(corpus, tags),
        doc_ids=StringArray.from_list(f"doc-{n // config.document_length}" for n in range(num_sentences)),
        features=make_features(config, corpus) if features else None,
    )
    bounds = np.cumsum([config.sentences, config.valid_sentences])
    train, valid, test = data[: bounds[0]], data[bounds[0] : bounds[1]], data[bounds[1] :]
    return World(config, train, valid, test if config.test_sentences else train, maker.truth())


def _tokens(words: np.ndarray) -> StringArray:
    """Common words are lower case, words of names are capitalized."""
    kinds, index = np.unique(words, return_inverse=True)
    names = StringArray.from_list(f"w{word}" if word < COMMON_WORDS else f"N{word - COMMON_WORDS}" for word in kinds)
    return names.take(index)


def _gold(corpus: Corpus, tags: cv.TagSet) -> np.ndarray:
    sentence = corpus.sentence
    first = corpus.offsets[sentence]
    rows = np.stack([sentence, corpus.start - first, corpus.end - first, corpus.type], axis=1)
    return tags.labels(Spans.from_array(rows.astype(np.int64)), corpus.offsets)
