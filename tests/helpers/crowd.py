"""Generated crowd annotations: each worker annotates a few documents with a known quality."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import convener as cv
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.data.spans import Spans

Rows = list[tuple[int, int, int]]
"""Spans of one document: start, end, type."""

TYPES = ("PER", "LOC", "ORG")
STATISTICS = (
    "400 documents of 100 tokens, 3 types, about 6 spans of 1 to 4 tokens a document; 50 workers, "
    "each annotates 8 % of the documents; a third are spammers. A worker of quality q annotates a true "
    "span correctly with probability q, else misses it or gives another type or another boundary; it adds "
    "false spans at (1 - q) times a rate. q is uniform in 0.2 to 0.35 for spammers and in 0.45 to 0.9 "
    "for the others; the shares of the kinds of errors differ between workers"
)


@dataclass(frozen=True, kw_only=True)
class CrowdConfig:
    """Size and quality of a crowd."""

    documents: int = 400
    length: int = 100
    workers: int = 50
    annotated: float = 0.08
    """Share of the documents that a worker annotates."""
    spammers: float = 1 / 3
    spans: float = 6.0
    """Mean number of true spans a document."""


@dataclass(frozen=True)
class Worker:
    """Probability of a correct span, and the shares of the kinds of errors."""

    quality: float
    shares: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Crowd:
    """The data with gold, and each worker's true F1 by span on the documents it annotated."""

    data: cv.Dataset
    f1: np.ndarray
    spammer: np.ndarray


def make_crowd(seed: int, config: CrowdConfig | None = None) -> Crowd:
    """Generate a crowd; the same seed gives the same one."""
    config = config or CrowdConfig()
    rng = np.random.default_rng(seed)
    offsets = lengths_to_offsets([config.length] * config.documents)
    tags = cv.TagSet(TYPES)
    truth = [_true_spans(rng, config) for _ in range(config.documents)]
    gold = _labels(tags, dict(enumerate(truth)), offsets)
    votes = np.full((len(gold), config.workers), -1, np.int16)
    spammer = np.arange(config.workers) < round(config.spammers * config.workers)
    rng.shuffle(spammer)
    f1 = np.zeros(config.workers)
    for k in range(config.workers):
        worker = _worker(rng, bool(spammer[k]))
        size = max(1, round(config.annotated * config.documents))
        chosen = np.sort(rng.choice(config.documents, size, replace=False))
        spans = {int(d): _marked(rng, truth[d], worker, config.length) for d in chosen}
        column = _labels(tags, spans, offsets)
        annotated = np.isin(np.arange(config.documents), chosen).repeat(config.length)
        votes[annotated, k] = column[annotated]
        f1[k] = _f1(tags, column[annotated], gold[annotated], lengths_to_offsets([config.length] * size))
    data = cv.Dataset(
        tags=tags,
        tokens=StringArray.from_list(f"w{n}" for n in rng.integers(1000, size=len(gold))),
        offsets=offsets,
        sources=tuple(f"worker-{k}" for k in range(config.workers)),
        votes=votes,
        unmarked=("outside",) * config.workers,
        gold=gold,
    )
    return Crowd(data, f1, spammer)


def _worker(rng: np.random.Generator, spammer: bool) -> Worker:
    quality = rng.uniform(0.2, 0.35) if spammer else rng.uniform(0.45, 0.9)
    shares = rng.dirichlet([8.0, 5.0, 5.0])
    return Worker(float(quality), (*shares.tolist(), float(rng.uniform(0.2, 0.6))))


def _true_spans(rng: np.random.Generator, config: CrowdConfig) -> Rows:
    """Spans that do not touch, types of unequal shares."""
    spans: Rows = []
    for _ in range(int(rng.poisson(config.spans))):
        _put(spans, _random_span(rng, config.length))
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
    """Annotations of a worker in one document."""
    marked: Rows = []
    missed, mistyped, shifted, false = worker.shares
    for start, end, kind in truth:
        if rng.random() < worker.quality:
            _put(marked, (start, end, kind))
            continue
        error = rng.choice(3, p=[missed, mistyped, shifted])
        if error == 1:
            _put(marked, (start, end, (kind + int(rng.integers(1, len(TYPES)))) % len(TYPES)))
        elif error == 2:
            _put(marked, (*_other_boundary(rng, start, end, length), kind))
    for _ in range(int(rng.poisson((1 - worker.quality) * false * len(truth)))):
        _put(marked, _random_span(rng, length))
    return marked


def _other_boundary(rng: np.random.Generator, start: int, end: int, length: int) -> tuple[int, int]:
    """The span with one end shifted by one token."""
    shifts = [(start - 1, end), (start, end + 1), (start + 1, end), (start, end - 1)]
    legal = [(a, b) for a, b in shifts if 0 <= a < b <= length]
    return legal[int(rng.integers(len(legal)))]


def _labels(tags: cv.TagSet, spans: dict[int, Rows], offsets: np.ndarray) -> np.ndarray:
    rows = [(number, *span) for number, each in spans.items() for span in sorted(each)]
    return tags.labels(Spans.from_rows(rows), offsets)


def _f1(tags: cv.TagSet, votes: np.ndarray, gold: np.ndarray, offsets: np.ndarray) -> float:
    found, true = (set(tags.spans(labels, offsets)) for labels in (votes, gold))
    return 2 * len(found & true) / max(1, len(found) + len(true))


def estimated_f1(model: cv.LabelModel) -> np.ndarray:
    """F1 of each worker as the model estimates it, mean over the types it gives; 0 without any."""
    by_worker: dict[str, list[float]] = {}
    for row in model.reliability().to_records():
        by_worker.setdefault(row["source"], []).append(row["F1"])
    return np.array([np.mean(by_worker.get(source, 0.0)) for source in model.fitted.sources])


def rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's: the correlation of the ranks; equal values share their mean rank."""
    return float(np.corrcoef(_ranks(a), _ranks(b))[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, group, sizes = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(sizes) - (sizes - 1) / 2)[group]


def score_model(crowd: Crowd, name: str) -> tuple[float, float, float]:
    """F1, rank correlation of estimated and true worker F1, and share of the spammers found."""
    model = cv.get_model(name)().fit(crowd.data)
    f1 = cv.evaluate(model.predict(crowd.data), crowd.data).f1
    estimates = estimated_f1(model)
    worst = np.argsort(estimates, kind="stable")[: crowd.spammer.sum()]
    return f1, rank_correlation(estimates, crowd.f1), float(crowd.spammer[worst].mean())
