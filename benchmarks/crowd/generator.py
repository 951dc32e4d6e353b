"""Crowd-like data: documents, a few of which each worker saw, and workers of known kinds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import convener as cv
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.data.spans import Spans

Rows = list[tuple[int, int, int]]
"""Spans of one document: start, end, type."""

TYPES = ("PER", "LOC", "ORG")
ERRORS = ("missed", "wrong type", "wrong boundary", "invented")
STATISTICS = (
    "400 documents of 100 tokens, 3 types, about 6 spans of 1 to 4 tokens a document; 50 workers, "
    "each sees 8 % of the documents; a third are spammers. A worker of quality q gives a true span "
    "right with probability q, else misses it, gives another type or another boundary; it invents "
    "spans at (1 - q) times a rate. q is uniform in 0.2 to 0.35 for spammers and in 0.45 to 0.9 "
    "for the others; the shares of the kinds of errors differ between workers"
)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How large the crowd is and how good."""

    documents: int = 400
    length: int = 100
    workers: int = 50
    seen: float = 0.08
    """Share of the documents that a worker sees."""
    spammers: float = 1 / 3
    spans: float = 6.0
    """Mean number of true spans a document."""


@dataclass(frozen=True)
class Worker:
    """How often a true span is given right, and the shares of the kinds of errors."""

    quality: float
    shares: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Crowd:
    """The data with gold, and each worker's true F1 by span on the documents it saw."""

    data: cv.Dataset
    f1: np.ndarray
    spammer: np.ndarray


def crowd(seed: int, recipe: Recipe | None = None) -> Crowd:
    """A crowd; the same seed gives the same one."""
    recipe = recipe or Recipe()
    rng = np.random.default_rng(seed)
    offsets = lengths_to_offsets([recipe.length] * recipe.documents)
    tags = cv.TagSet(TYPES)
    truth = [_true_spans(rng, recipe) for _ in range(recipe.documents)]
    gold = _labels(tags, dict(enumerate(truth)), offsets)
    votes = np.full((len(gold), recipe.workers), -1, np.int16)
    spammer = np.arange(recipe.workers) < round(recipe.spammers * recipe.workers)
    rng.shuffle(spammer)
    f1 = np.zeros(recipe.workers)
    for k in range(recipe.workers):
        worker = _worker(rng, bool(spammer[k]))
        size = max(1, round(recipe.seen * recipe.documents))
        chosen = np.sort(rng.choice(recipe.documents, size, replace=False))
        said = {int(d): _marked(rng, truth[d], worker, recipe.length) for d in chosen}
        column = _labels(tags, said, offsets)
        seen = np.isin(np.arange(recipe.documents), chosen).repeat(recipe.length)
        votes[seen, k] = column[seen]
        f1[k] = _f1(tags, column[seen], gold[seen], lengths_to_offsets([recipe.length] * size))
    data = cv.Dataset(
        tags=tags,
        tokens=StringArray.from_list(f"w{n}" for n in rng.integers(1000, size=len(gold))),
        offsets=offsets,
        sources=tuple(f"worker-{k}" for k in range(recipe.workers)),
        votes=votes,
        silence=("abstain",) * recipe.workers,
        gold=gold,
    )
    return Crowd(data, f1, spammer)


def _worker(rng: np.random.Generator, spammer: bool) -> Worker:
    quality = rng.uniform(0.2, 0.35) if spammer else rng.uniform(0.45, 0.9)
    shares = rng.dirichlet([8.0, 5.0, 5.0])
    return Worker(float(quality), (*shares.tolist(), float(rng.uniform(0.2, 0.6))))


def _true_spans(rng: np.random.Generator, recipe: Recipe) -> Rows:
    """Spans that do not touch, types of unequal shares."""
    spans: Rows = []
    for _ in range(int(rng.poisson(recipe.spans))):
        _put(spans, _random_span(rng, recipe.length))
    return spans


def _random_span(rng: np.random.Generator, length: int) -> tuple[int, int, int]:
    size = int(rng.choice([1, 2, 3, 4], p=[0.45, 0.35, 0.15, 0.05]))
    start = int(rng.integers(length - size + 1))
    return start, start + size, int(rng.choice(len(TYPES), p=[0.45, 0.35, 0.2]))


def _put(spans: Rows, span: tuple[int, int, int]) -> None:
    """Add a span unless it overlaps or touches one that is there."""
    if all(span[1] < start or end < span[0] for start, end, _ in spans):
        spans.append(span)


def _marked(rng: np.random.Generator, truth: Rows, worker: Worker, length: int) -> Rows:
    """What a worker marks in one document."""
    marked: Rows = []
    missed, mistyped, shifted, invented = worker.shares
    for start, end, kind in truth:
        if rng.random() < worker.quality:
            _put(marked, (start, end, kind))
            continue
        error = rng.choice(3, p=[missed, mistyped, shifted])
        if error == 1:
            _put(marked, (start, end, (kind + int(rng.integers(1, len(TYPES)))) % len(TYPES)))
        elif error == 2:
            _put(marked, (*_other_boundary(rng, start, end, length), kind))
    for _ in range(int(rng.poisson((1 - worker.quality) * invented * len(truth)))):
        _put(marked, _random_span(rng, length))
    return marked


def _other_boundary(rng: np.random.Generator, start: int, end: int, length: int) -> tuple[int, int]:
    """One end moved by one token, inwards where there is room, outwards otherwise."""
    moves = [(start - 1, end), (start, end + 1), (start + 1, end), (start, end - 1)]
    legal = [(a, b) for a, b in moves if 0 <= a < b <= length]
    return legal[int(rng.integers(len(legal)))]


def _labels(tags: cv.TagSet, spans: dict[int, Rows], offsets: np.ndarray) -> np.ndarray:
    rows = [(number, *span) for number, each in spans.items() for span in sorted(each)]
    return tags.labels(Spans.from_rows(rows), offsets)


def _f1(tags: cv.TagSet, said: np.ndarray, gold: np.ndarray, offsets: np.ndarray) -> float:
    found, true = (set(tags.spans(labels, offsets)) for labels in (said, gold))
    return 2 * len(found & true) / max(1, len(found) + len(true))
