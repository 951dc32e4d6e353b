"""Text of a generated corpus: a lexicon of entities for each type, common words, and true spans."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.worlds.config import WorldConfig
from convener.data.ragged import concat_ranges

COMMON_WORDS = 3000
COMMON_ZIPF = 1.05
"""Exponent of the frequencies of common words by rank."""
MAX_SPAN = 8
FUNCTION_WORDS = 20
"""The most frequent words; none of them is an entity."""
SPANS_PER_TOPIC = 12
"""True spans after which density and type shares change, as from document to document."""
COMMON_IN_NAME = 0.12
"""Probability that a further word of a name is a common one."""


@dataclass(frozen=True, eq=False)
class Lexicon:
    """Entities as sequences of word ids; ids below COMMON_WORDS are common words.

    words   (E, MAX_SPAN) word ids, -1 beyond the length
    length  (E,)
    type    (E,)
    mass    (E,) probability of the entry among the mentions of its type
    common  (COMMON_WORDS,) probability of a word among O tokens
    """

    words: np.ndarray
    length: np.ndarray
    type: np.ndarray
    mass: np.ndarray
    common: np.ndarray


@dataclass(frozen=True, eq=False)
class Corpus:
    """N tokens in M sentences, with S true spans.

    words    (N,) word ids
    offsets  (M+1,)
    start    (S,) first token of each span; `end` (S,) exclusive
    type     (S,)
    entry    (S,) lexicon entry
    label    (N,) 0 for O, else 1 + type
    free     (N,) O tokens from here to the next span or end of sentence
    """

    lexicon: Lexicon
    words: np.ndarray
    offsets: np.ndarray
    start: np.ndarray
    end: np.ndarray
    type: np.ndarray
    entry: np.ndarray
    label: np.ndarray
    free: np.ndarray

    @property
    def sentence(self) -> np.ndarray:
        """(S,) sentence of each span."""
        return np.searchsorted(self.offsets, self.start, side="right") - 1


def zipf(count: int, exponent: float) -> np.ndarray:
    """Probabilities of ranks."""
    weights = np.arange(1, count + 1) ** -exponent
    return weights / weights.sum()


def draw_lengths(rng: np.random.Generator, mean: float, count: int) -> np.ndarray:
    """Span lengths: 1 + a geometric variable, at most MAX_SPAN."""
    return np.minimum(rng.geometric(1 / mean, count), MAX_SPAN)


def mean_length(mean: float) -> float:
    """Mean of `draw_lengths`."""
    stay = 1 - 1 / mean
    return float(sum(stay**n for n in range(MAX_SPAN)))


def make_lexicon(config: WorldConfig, rng: np.random.Generator) -> Lexicon:
    """Entries of all types. Some are common words, some belong to two types."""
    shares = np.array(config.type_shares)
    sizes = np.maximum(15, config.lexicon * np.sqrt(shares / shares.max())).astype(int)
    count, next_word = int(sizes.sum()), COMMON_WORDS
    words = np.full((count, MAX_SPAN), -1)
    kind = np.repeat(np.arange(len(sizes)), sizes)
    length = np.concatenate([draw_lengths(rng, m, n) for m, n in zip(config.span_lengths, sizes, strict=True)])
    for c, size in enumerate(sizes):
        pool = next_word + np.arange(size)
        next_word += len(pool)
        rows = np.flatnonzero(kind == c)
        chosen = rng.choice(pool, (size, MAX_SPAN))
        common = rng.random((size, MAX_SPAN)) < COMMON_IN_NAME
        common[:, 0] = False
        chosen[common] = rng.integers(COMMON_WORDS, size=int(common.sum()))
        chosen[:, 0] = np.where(length[rows] == 1, rng.permutation(pool), chosen[:, 0])
        words[rows] = chosen
    single = np.flatnonzero((length == 1) & (rng.random(count) < config.ambiguous))
    common_words = FUNCTION_WORDS + rng.permutation(COMMON_WORDS - FUNCTION_WORDS)
    words[single, 0] = np.resize(common_words, len(single))
    for row in np.flatnonzero(rng.random(count) < config.homonyms):
        twins = np.flatnonzero((length == length[row]) & (kind != kind[row]))
        if len(twins):
            words[row] = words[rng.choice(twins)]
    words[np.arange(MAX_SPAN) >= length[:, None]] = -1
    mass = np.concatenate([rng.permutation(zipf(size, config.zipf)) for size in sizes])
    return Lexicon(words, length, kind, mass, zipf(COMMON_WORDS, COMMON_ZIPF))


def make_text(config: WorldConfig, rng: np.random.Generator) -> Corpus:
    """Text of train, valid and test.

    True spans and gaps alternate; sentences end where no span does not. So density and shares are exact in
    expectation, whatever the length of sentences.
    """
    lexicon = make_lexicon(config, rng)
    count = config.sentences + config.valid_sentences + config.test_sentences
    lengths = np.maximum(2, rng.gamma(4.0, config.sentence_length / 4.0, count).round().astype(int))
    total = int(lengths.sum())
    kinds, gaps, lengths_of_spans, entries = _segments(config, lexicon, total, rng)
    end = np.cumsum(gaps + lengths_of_spans)
    start = end - lengths_of_spans
    fits = end <= total
    start, end, kinds, entries = start[fits], end[fits], kinds[fits], entries[fits]
    words = rng.choice(COMMON_WORDS, total, p=lexicon.common)
    positions = concat_ranges(start, end - start)
    owner = np.repeat(np.arange(len(start)), end - start)
    words[positions] = lexicon.words[entries[owner], positions - start[owner]]
    label = np.zeros(total, int)
    label[positions] = 1 + kinds[owner]
    offsets = _sentence_offsets(lengths, start, end)
    return Corpus(lexicon, words, offsets, start, end, kinds, entries, label, _free_run(label, offsets))


def _segments(
    config: WorldConfig, lexicon: Lexicon, total: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Types, gaps before, lengths and entries of consecutive spans that together exceed the text."""
    shares = np.array(config.type_shares)
    by_type = [np.flatnonzero(lexicon.type == c) for c in range(len(shares))]
    sizes = np.array([lexicon.length[rows] @ lexicon.mass[rows] for rows in by_type])
    mean_gap = (shares @ sizes) * (1 / config.density - 1)
    count = int(1.5 * total / (mean_gap + shares @ sizes)) + 20 * SPANS_PER_TOPIC
    topics = count // SPANS_PER_TOPIC + 1
    noise = config.burstiness * rng.standard_normal((topics, len(shares) + 1))
    factor = np.exp(noise[:, 0])
    factor /= factor.mean()
    weights = shares * np.exp(noise[:, 1:])
    weights *= shares / weights.mean(axis=0)  # the shares over all topics stay as they are
    weights /= weights.sum(axis=1, keepdims=True)
    topic = np.arange(count) // SPANS_PER_TOPIC
    cumulative = np.cumsum(weights, axis=1)[topic]
    kinds = np.minimum((rng.random(count)[:, None] > cumulative).sum(axis=1), len(shares) - 1)
    mean = mean_gap * factor[topic] / (1 - config.adjacent)
    gaps = rng.geometric(1 / np.maximum(1.0, mean))
    gaps[rng.random(count) < config.adjacent] = 0
    entries = np.zeros(count, int)
    for c, rows in enumerate(by_type):
        chosen = kinds == c
        entries[chosen] = rng.choice(rows, int(chosen.sum()), p=lexicon.mass[rows])
    return kinds, gaps, lexicon.length[entries], entries


def _sentence_offsets(lengths: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Ends of sentences, moved to the end of the span that they would cut."""
    bounds = np.cumsum(lengths)
    if len(start):
        span = np.maximum(np.searchsorted(start, bounds, side="left") - 1, 0)
        cut = (start[span] < bounds) & (bounds < end[span])
        bounds = np.where(cut, end[span], bounds)
    for n in range(1, len(bounds)):  # no empty sentences
        bounds[n] = max(bounds[n], bounds[n - 1])
    return np.concatenate([[0], bounds])


def _free_run(label: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """O tokens from each token to the next entity or the end of its sentence.  -> (N,)"""
    position = np.arange(len(label))
    stop = np.where(label > 0, position, len(label))
    stop = np.minimum.accumulate(stop[::-1])[::-1]
    sentence_end = np.repeat(offsets[1:], np.diff(offsets))
    return np.minimum(stop, sentence_end) - position
