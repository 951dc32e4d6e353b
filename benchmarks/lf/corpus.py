"""Phrases and text of any size: Zipf's words, and phrases of a list among them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import convener as cv
from convener.data.ragged import StringArray, concat_ranges, lengths_to_offsets

SEED = 1
WORDS = 300_000
COMMON = 1000
"""The first words are those that every text has."""
SENTENCE = 25
MARKED = 0.02
"""Share of positions at which a phrase begins, chance matches apart."""
LETTERS = "etaoinshrdlcumwfgypbvkjxqz"


def words() -> StringArray:
    """Different words of two to eight letters."""
    rng = np.random.default_rng(SEED)
    found: dict[str, None] = {}
    while len(found) < WORDS:
        lengths = rng.integers(2, 9, size=WORDS)
        letters = rng.integers(len(LETTERS), size=int(lengths.sum()))
        text = "".join(LETTERS[letter] for letter in letters.tolist())
        bounds = lengths_to_offsets(lengths).tolist()
        found |= dict.fromkeys(text[a:b] for a, b in pairwise(bounds))
    return StringArray.from_list(list(found)[:WORDS])


def phrase_numbers(count: int) -> list[tuple[int, ...]]:
    """Different phrases of one to four words, by the numbers of the words; one at least is rare."""
    rng = np.random.default_rng(SEED + 1)
    found: dict[tuple[int, ...], None] = {}
    while len(found) < count:
        sizes = rng.choice([1, 2, 3, 4], size=count, p=[0.2, 0.4, 0.25, 0.15])
        common = rng.zipf(1.1, size=int(sizes.sum())) % WORDS
        rare = rng.integers(COMMON, WORDS, size=int(sizes.sum()))
        drawn = np.where(rng.random(len(rare)) < 0.5, common, rare).tolist()
        bounds = lengths_to_offsets(sizes).tolist()
        for first, last in pairwise(bounds):
            phrase = tuple(drawn[first:last])
            if max(phrase) >= COMMON:  # a list that holds "of the" marks everything
                found[phrase] = None
    return list(found)[:count]


def text(tokens: int, phrases: list[tuple[int, ...]], known: StringArray) -> cv.Dataset:
    """Sentences of 25 words, with phrases of the list among them."""
    rng = np.random.default_rng(SEED + 2)
    numbers = rng.zipf(1.2, size=tokens) % WORDS
    starts = np.flatnonzero(rng.random(tokens) < MARKED)
    chosen = [phrases[item] for item in rng.integers(len(phrases), size=len(starts)).tolist()]
    sizes = np.array([len(phrase) for phrase in chosen])
    fits = starts + sizes <= tokens
    cells = concat_ranges(starts[fits], sizes[fits])
    said = [word for phrase, fit in zip(chosen, fits, strict=True) if fit for word in phrase]
    numbers[cells] = said
    sentences = -(-tokens // SENTENCE)
    offsets = np.minimum(np.arange(sentences + 1) * SENTENCE, tokens)
    return cv.Dataset(
        tags=cv.TagSet(("X",)),
        tokens=known.take(numbers),
        offsets=offsets,
        sources=(),
        votes=np.zeros((tokens, 0), np.int16),
        silence=(),
    )
