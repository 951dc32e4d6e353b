"""Typical batches of the five data sets: real lengths where the data is available, generated ones otherwise."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

import convener as cv
from benchmarks.harness.data import DATA, DEMO, is_available, splits
from convener.inference.evidence import log_evidence, sparsify_votes

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Shape:
    """A batch of B sentences with L labels and K sources."""

    name: str
    data: str | None
    """The data set; None for a generated one."""
    batch: int
    labels: int
    sources: int


SHAPES = (
    Shape("NCBI", "NCBI-Disease", 128, 3, 6),
    Shape("Laptop", "LaptopReview", 256, 3, 4),
    Shape("BC5CDR", "BC5CDR", 128, 5, 9),
    Shape("CoNLL", "CoNLL", 256, 9, 16),
    Shape("OntoNotes", None, 32, 37, 17),
)
SMOKE_SHAPES = (Shape("demo", DEMO, 20, 7, 16), Shape("generated", None, 8, 37, 17))
GENERATOR = "lengths 1 + Poisson(Gamma(shape 2.2, mean 17)), at most 120: mean 18, longest of 32 about 50"


def available_shapes(*, smoke: bool) -> list[Shape]:
    """The shapes whose data is available; the others are named."""
    shapes = SMOKE_SHAPES if smoke else SHAPES
    missing = [shape for shape in shapes if shape.data is not None and not is_available(shape.data)]
    for shape in missing:
        print(f"{shape.name}: not in {DATA}; skipped", file=sys.stderr)
    return [shape for shape in shapes if shape not in missing]


def training_data(shape: Shape) -> cv.Dataset:
    """The training sentences of a shape's data set."""
    return splits(str(shape.data)).train


@dataclass(frozen=True)
class ChainBatch:
    """Inputs of the chain in float32: logits by token, and one constant transition matrix."""

    shape: Shape
    lengths: Array
    log_initial: Array
    logits: Array
    log_transition: Array
    log_evidence: Array

    @property
    def offsets(self) -> Array:
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)


def draw_lengths(count: int, rng: np.random.Generator) -> Array:
    """Sentence lengths as described by `GENERATOR`."""
    return np.minimum(1 + rng.poisson(rng.gamma(2.2, 17 / 2.2, count)), 120)


def log_emission(shape: Shape) -> Array:
    """Log emissions (K, L, L) of sources that miss 60 % of the entities and are right in 75 % of their votes.

    An unmarked token then tells little, as in real data. Overconfident sources would separate labels
    by 100 nats, where torch's exp is several times slower: unfair to the textbook implementation.
    """
    labels = shape.labels
    one = np.full((labels, labels), 0.1 / max(labels - 2, 1)) + 0.3 * np.eye(labels)
    one[:, 0] = 0.6
    one[0] = 0.03 / (labels - 1)
    one[0, 0] = 0.97
    return np.broadcast_to(np.log(one), (shape.sources, labels, labels))


def chain_batch(shape: Shape, seed: int) -> ChainBatch:
    """Logits N(0, 1) with a raised diagonal; votes of K sources, 3 % of them not O."""
    rng = np.random.default_rng(seed)
    if shape.data is None:
        lengths = draw_lengths(shape.batch, rng)
    else:
        lengths = rng.choice(training_data(shape).lengths, shape.batch, replace=False)
        lengths = np.maximum(lengths, 1)
    tokens, labels = int(lengths.sum()), shape.labels
    logits = rng.normal(size=(tokens, labels, labels)) + 2 * np.eye(labels)
    transition = rng.dirichlet(np.ones(labels), labels) + np.eye(labels)
    votes = rng.integers(0, labels, (tokens, shape.sources))
    votes[rng.random(votes.shape) > 0.03] = 0
    initial = np.full(labels, 0.1 / (labels - 1))
    initial[0] = 0.9
    single = np.float32
    return ChainBatch(
        shape,
        lengths,
        np.log(initial).astype(single),
        logits.astype(single),
        np.log(transition / transition.sum(1, keepdims=True)).astype(single),
        log_evidence(sparsify_votes(votes.astype(np.int16)), log_emission(shape)),
    )
