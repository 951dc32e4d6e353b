"""A task whose labels depend on the text alone, and sentences with unusual tokens."""

from __future__ import annotations

import random

import numpy as np

import convener as cv

PLACES, ANIMALS = ("Oslo", "Norway"), ("cat", "cats")
FILLERS = ("the", "sat", "on", "mat", "is", "in", "they", "say", "naïve", "café", "owners", "ask")

UNUSUAL_SENTENCES: list[list[str]] = [
    [],
    ["the", "cat", "in", "Oslo"],
    ["🙂", "cats", "👩‍👩‍👧", "Norway"],
    ["\u200b", "cat", "\u200b", "\u200b", "Oslo", "\u200b"],
    ["\u200b"],
    ["un" * 20 + "believable", "Norway", "x" * 60],
    ["e\u0301", "ﬁ", "東京", "Oslo"],
    ["[UNK]", "[SEP]", "cats", "<s>"],
]


def sentences(count: int, seed: int = 0, longest: int = 2) -> cv.Dataset:
    """Sentences in which places are LOC and animals ANI; spans have up to `longest` words."""
    rng = random.Random(seed)
    tokens, gold = [], []
    for _ in range(count):
        words: list[str] = []
        spans: list[tuple[int, int, str]] = []
        for _ in range(rng.randrange(2, 7)):
            entity_type, vocabulary = rng.choice([("LOC", PLACES), ("ANI", ANIMALS), ("", FILLERS)])
            length = rng.randint(1, longest) if entity_type else 1
            if entity_type and not (spans and spans[-1][1] == len(words)):
                spans.append((len(words), len(words) + length, entity_type))
                words += [rng.choice(vocabulary) for _ in range(length)]
            else:
                words.append(rng.choice(FILLERS))
        tokens.append(words)
        gold.append(spans)
    return cv.Dataset.from_spans(["LOC", "ANI"], tokens, {}, gold=gold)


def unlabeled(words: list[list[str]]) -> cv.Dataset:
    return cv.Dataset.from_spans(["LOC", "ANI"], words, {})


def soft_predictions(data: cv.Dataset, probability: float = 0.9) -> cv.Predictions:
    """Predictions equal to gold, with this probability of each label."""
    assert data.gold is not None
    size = len(data.tags)
    rows = np.full((len(data.tokens), size), (1 - probability) / (size - 1), np.float32)
    rows[np.arange(len(rows)), data.gold] = probability
    return cv.Predictions(data=data, labels=data.gold, probabilities=rows, model="toy")


def f1(tagger: cv.Tagger, data: cv.Dataset) -> float:
    score = cv.evaluate(tagger.predict(data), data).f1
    assert score is not None
    return score
