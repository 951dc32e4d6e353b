"""A stand-in for a crowd: simulated workers with known habits annotate a real text. Gold serves the simulation only.

The habits follow what is known of crowds that mark names in news: most workers are precise, but many miss spans, and
they differ much. Workers take one type for another that is often confused with it, leave out or add a word at a
boundary, and mark capitalized words that are no names. Some know only some of the types, some do not care. Sentences
and names differ in difficulty, so errors are shared, and in part follow the text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

import convener as cv
from benchmarks.worlds.config import SourceConfig, WorldConfig
from benchmarks.worlds.sources import SharedScores, VoteMaker, token_mask
from benchmarks.worlds.text import Corpus, Lexicon
from convener.data.ragged import StringArray

HABITS = (
    "Each document of {document} sentences is read by {low} to {high} of {workers} workers; some workers read far more "
    "than others. A worker detects a true span with a probability of about 0.3 to 0.9. Spammers, {spammers:.0%} of the "
    "workers, detect about one in seven, and most of their marks are on no name. Detected spans get a wrong type "
    "(about one in ten; most often the type for which theirs is usually taken) or wrong bounds (about one in eight). "
    "False marks are mostly on capitalized words. {narrow:.0%} of the workers do not know one or two of the types. All "
    "workers have in common {difficulty:.0%} of the variance of what is detected, {confusion:.0%} of that of wrong "
    "types, and {false:.0%} of the false marks. A third each of these variances belongs to the sentence, to the name "
    "(all its mentions are alike) and to the mention"
)
USUALLY_TAKEN_FOR = {"PER": "ORG", "LOC": "ORG", "ORG": "LOC", "MISC": "ORG"}
"""Types that workers confuse; any other type is taken for the next one."""
RELATIVE_CONFUSION = {"PER": 0.4, "LOC": 0.9, "ORG": 1.4, "MISC": 1.8}
"""Probability of a wrong type, relative to the usual one; 1 for any other type."""
CAPITALIZED = 15
"""A capitalized word is so many times as often marked falsely as another one."""


@dataclass(frozen=True, kw_only=True)
class CrowdHabits:
    """Size and habits of a crowd. Spreads are standard deviations between workers, in logits or logarithms."""

    workers: int = 40
    answers: tuple[int, int] = (2, 5)
    """Fewest and most workers who read a document; uniform between them."""
    document: int = 8
    """Sentences that are read together."""
    recall: float = 0.6
    recall_spread: float = 0.9
    precision: float = 0.85
    """Share of the marks that meet a true span."""
    precision_spread: float = 0.9
    bounds: float = 0.12
    """Share of the detected spans that get wrong bounds."""
    confusion: float = 0.1
    """Share of the detected spans that get a wrong type."""
    spammers: float = 0.1
    narrow: float = 0.2
    """Share of the workers who do not know one or two of the types."""
    difficulty: float = 0.35
    shared_false: float = 0.3
    shared_confusion: float = 0.4

    def describe(self) -> str:
        """The habits in words."""
        return HABITS.format(
            document=self.document,
            low=self.answers[0],
            high=self.answers[1],
            workers=self.workers,
            spammers=self.spammers,
            narrow=self.narrow,
            difficulty=self.difficulty,
            confusion=self.shared_confusion,
            false=self.shared_false,
        )


def annotate(data: cv.Dataset, seed: int, habits: CrowdHabits | None = None) -> cv.Dataset:
    """The text of a dataset with gold, with the votes of a simulated crowd in place of its own; features are kept.

    The same seed gives the same crowd.
    """
    habits = habits or CrowdHabits()
    rng = np.random.default_rng([seed, 0])
    corpus, types = _corpus(data), data.tags.types
    config = _config(habits, types, corpus, rng, seed)
    maker = _AnnotationMaker(config, corpus, data.tokens)
    reads = _read_documents(habits, len(data), np.random.default_rng([seed, 1]))
    votes = np.full((len(data.tokens), habits.workers), -1, np.int16)
    for k in range(habits.workers):
        is_read = token_mask(reads[:, k], data.offsets)
        votes[is_read, k] = maker.votes(k, data.tags)[is_read]
    return _with_votes(data, tuple(source.name for source in config.sources), votes)


def unread(data: cv.Dataset, crowd: cv.Dataset) -> cv.Dataset:
    """A text that none of the workers of a crowd has read."""
    return _with_votes(data, crowd.sources, np.full((len(data.tokens), len(crowd.sources)), -1, np.int16))


def _with_votes(data: cv.Dataset, workers: tuple[str, ...], votes: np.ndarray) -> cv.Dataset:
    return cv.Dataset(
        tags=data.tags,
        tokens=data.tokens,
        offsets=data.offsets,
        sources=workers,
        votes=votes,
        unmarked=("outside",) * len(workers),
        gold=data.gold,
        features=data.features,
    )


class _AnnotationMaker(VoteMaker):
    """Votes of workers on a real text: difficulty by sentence and name, and capitalized words that tempt them."""

    def __init__(self, config: WorldConfig, corpus: Corpus, tokens: StringArray) -> None:
        super().__init__(config, corpus)
        words = tokens.to_list()
        capitalized = np.array([word[:1].isupper() for word in words])
        self._open = np.repeat(self._open, np.where(capitalized[self._open], CAPITALIZED, 1))
        names = [tuple(words[a:b]) for a, b in zip(corpus.start.tolist(), corpus.end.tolist(), strict=True)]
        number = {name: n for n, name in enumerate(dict.fromkeys(names))}
        self._name = np.array([number[name] for name in names], np.int64)
        self._by_group = SharedScores(config.seed + 1)

    def _world_score(self, size: int, *key: int) -> np.ndarray:
        """Scores of the true spans that all workers have in common.  -> (S,)"""
        by_name = self._by_group.get(int(self._name.max(initial=-1)) + 1, *key, 0)[self._name]
        by_sentence = self._by_group.get(len(self.corpus.offsets) - 1, *key, 1)[self.corpus.sentence]
        scores: np.ndarray = (self.shared.get(size, *key, 0) + by_name + by_sentence) / np.sqrt(3)
        return scores


def _corpus(data: cv.Dataset) -> Corpus:
    """The text and its true spans; there is no lexicon."""
    if data.gold is None:
        raise ValueError("expected a dataset with gold labels")
    spans = data.tags.spans(data.gold, data.offsets)
    start = data.offsets[spans.sentence] + spans.start
    end = data.offsets[spans.sentence] + spans.end
    kind = spans.type.astype(np.int64)
    label = np.zeros(len(data.tokens), np.int64)
    label[data.gold > 0] = 1 + (data.gold[data.gold > 0].astype(np.int64) - 1) // 2
    closed = np.append(np.flatnonzero(label), len(label))
    stop = np.minimum(closed[np.searchsorted(closed, np.arange(len(label)))], np.repeat(data.offsets[1:], data.lengths))
    none = np.zeros(0, np.int64)
    return Corpus(
        lexicon=Lexicon(none.reshape(0, 1), none, none, none.astype(float), none.astype(float)),
        words=np.zeros(len(label), np.int64),
        offsets=data.offsets,
        start=start,
        end=end,
        type=kind,
        entry=np.zeros(len(kind), np.int64),
        label=label,
        free=stop - np.arange(len(label)),
    )


def _config(
    habits: CrowdHabits, types: tuple[str, ...], corpus: Corpus, rng: np.random.Generator, seed: int
) -> WorldConfig:
    """The settings of the workers, and of the text as far as they are used."""
    num_types = len(types)
    counts = np.bincount(corpus.type, minlength=num_types)
    length = corpus.end - corpus.start
    mean_length = [float(length[corpus.type == c].mean()) if counts[c] else 1.0 for c in range(num_types)]
    taken_for = [USUALLY_TAKEN_FOR.get(name, "") for name in types]
    confused = tuple(types.index(name) if name in types else (c + 1) % num_types for c, name in enumerate(taken_for))
    return WorldConfig(
        name="crowd",
        kind="crowd",
        seed=seed,
        sentences=len(corpus.offsets) - 1,
        valid_sentences=0,
        test_sentences=0,
        sentence_length=float(np.diff(corpus.offsets).mean()),
        document_length=habits.document,
        type_shares=tuple((counts / counts.sum()).tolist()),
        density=float((corpus.label > 0).mean()),
        span_lengths=tuple(mean_length),
        difficulty=habits.difficulty,
        shared_false=habits.shared_false,
        shared_confusion=habits.shared_confusion,
        confused_with=confused if num_types > 1 else (),
        sources=tuple(_worker(habits, types, rng, number) for number in range(habits.workers)),
    )


def _worker(habits: CrowdHabits, types: tuple[str, ...], rng: np.random.Generator, number: int) -> SourceConfig:
    """The settings of one worker. The last workers are the spammers."""
    num_types = len(types)
    spammer = number >= habits.workers - round(habits.spammers * habits.workers)
    recall = _logit(0.15 if spammer else habits.recall) + rng.normal(0, 0.4 if spammer else habits.recall_spread)
    precision = _logit(0.25 if spammer else habits.precision)
    precision += rng.normal(0, 0.4 if spammer else habits.precision_spread)
    unknown: list[int] = []
    if rng.random() < habits.narrow and num_types > 2:
        unknown = rng.choice(num_types, int(rng.integers(1, 3)), replace=False).tolist()
    known = np.array([c not in unknown for c in range(num_types)])
    wrong = min(0.6, habits.bounds * rng.lognormal(-0.15, 0.55))
    # Among the wrong bounds, as many are too long as too short.
    short, long, split = wrong * rng.dirichlet([2.5, 2.5, 0.4])
    confusion = [habits.confusion * RELATIVE_CONFUSION.get(name, 1.0) * rng.lognormal(-0.2, 0.6) for name in types]
    return SourceConfig(
        name=f"worker-{number}",
        recall=tuple(float(v) for v in known * _sigmoid(recall + rng.normal(0, 0.4, num_types))),
        precision=tuple(float(v) for v in known * _sigmoid(precision + rng.normal(0, 0.4, num_types))),
        confusion=tuple(float(min(0.6, value)) for value in confusion),
        short=float(short),
        long=float(long),
        split=float(split),
        family=number,
        unmarked="outside",
        spammer=spammer,
    )


def _read_documents(habits: CrowdHabits, num_sentences: int, rng: np.random.Generator) -> np.ndarray:
    """Which sentences each worker reads; some are far more active than others.  -> (M, K) bool"""
    document = np.arange(num_sentences) // habits.document
    num_documents = int(document[-1]) + 1
    activity = rng.lognormal(0, 0.7, habits.workers)
    keys = rng.exponential(size=(num_documents, habits.workers)) / activity
    rank = keys.argsort(axis=1).argsort(axis=1)
    low, high = habits.answers
    reads: np.ndarray = (rank < rng.integers(low, high + 1, size=num_documents)[:, None])[document]
    return reads


def _logit(p: float) -> float:
    return math.log(p / (1 - p))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    values: np.ndarray = 1 / (1 + np.exp(-x))
    return values.clip(0.01, 0.99)
