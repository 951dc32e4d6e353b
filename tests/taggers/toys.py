"""A task that text alone decides, and sentences that are hard to read."""

from __future__ import annotations

import random

import numpy as np

import convener as cv

PLACES, ANIMALS = ("Oslo", "Norway"), ("cat", "cats")
FILLERS = ("the", "sat", "on", "mat", "is", "in", "they", "say", "naïve", "café", "owners", "ask")

HARD: list[list[str]] = [
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
    """Sentences in which places are LOC and animals ANI, up to `longest` in a row a span."""
    rng = random.Random(seed)
    tokens, gold = [], []
    for _ in range(count):
        words: list[str] = []
        marks: list[tuple[int, int, str]] = []
        for _ in range(rng.randrange(2, 7)):
            kind, known = rng.choice([("LOC", PLACES), ("ANI", ANIMALS), ("", FILLERS)])
            length = rng.randint(1, longest) if kind else 1
            if kind and not (marks and marks[-1][1] == len(words)):
                marks.append((len(words), len(words) + length, kind))
                words += [rng.choice(known) for _ in range(length)]
            else:
                words.append(rng.choice(FILLERS))
        tokens.append(words)
        gold.append(marks)
    return cv.Dataset.from_spans(["LOC", "ANI"], tokens, {}, gold=gold)


def text(words: list[list[str]]) -> cv.Dataset:
    return cv.Dataset.from_spans(["LOC", "ANI"], words, {})


def believed(data: cv.Dataset, share: float = 0.9) -> cv.Predictions:
    """Gold as a label model's answer, with this share of belief in each label."""
    assert data.gold is not None
    size = len(data.tags)
    rows = np.full((len(data.tokens), size), (1 - share) / (size - 1), np.float32)
    rows[np.arange(len(rows)), data.gold] = share
    return cv.Predictions(data=data, labels=data.gold, probabilities=rows, model="toy")


def f1(tagger: cv.Tagger, data: cv.Dataset) -> float:
    found = cv.evaluate(tagger.predict(data), data).f1
    assert found is not None
    return found
