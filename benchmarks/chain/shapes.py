"""The shapes of usual batches: lengths from the real data, OntoNotes from a generator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.record import DATA
from convener.inference.evidence import log_evidence, sparsify_votes

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Shape:
    """A batch of B sentences with L labels and K sources."""

    name: str
    folder: str | None
    split: str
    batch: int
    labels: int
    sources: int


SHAPES = (
    Shape("NCBI", "NCBI-Disease", "train", 128, 3, 6),
    Shape("Laptop", "LaptopReview", "train", 256, 3, 4),
    Shape("BC5CDR", "BC5CDR", "train", 128, 5, 9),
    Shape("CoNLL", "CoNLL", "valid", 256, 9, 16),
    Shape("OntoNotes", None, "", 32, 37, 17),
)
GENERATOR = "lengths 1 + Poisson(Gamma(shape 2.2, mean 17)), at most 120: mean 18, longest of 32 about 50"


@dataclass(frozen=True)
class Batch:
    """Inputs of one shape in float32, logits and one constant matrix both."""

    shape: Shape
    lengths: Array
    log_init: Array
    logits: Array
    log_trans: Array
    log_like: Array
    source: str

    @property
    def offsets(self) -> Array:
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)


def drawn_lengths(count: int, rng: np.random.Generator) -> Array:
    """As `GENERATOR` says."""
    return np.minimum(1 + rng.poisson(rng.gamma(2.2, 17 / 2.2, count)), 120)


def lengths_of(shape: Shape, rng: np.random.Generator) -> tuple[Array, str]:
    """Lengths of a random batch, and where they come from."""
    if shape.folder is None:
        return drawn_lengths(shape.batch, rng), GENERATOR
    path = DATA / shape.folder / f"{shape.split}.json"
    if not path.exists():
        raise SystemExit(f"{path} is missing: set CONVENER_DATA to the folder of the data sets")
    rows = json.loads(path.read_text())
    lengths = np.array([len(row["data"]["text"]) for row in rows.values()])
    return rng.choice(lengths, shape.batch, replace=False), f"{shape.folder} {shape.split}"


def emissions(shape: Shape) -> Array:
    """Log emissions (K, L, L) of sources that miss 60 % of what is there and are right in 75 %.

    Silence then says little, as in real data.  Sources too sure of themselves would put labels
    100 nats apart, where torch's exp is several times slower: unfair to the textbook.
    """
    labels = shape.labels
    one = np.full((labels, labels), 0.1 / max(labels - 2, 1)) + 0.3 * np.eye(labels)
    one[:, 0] = 0.6
    one[0] = 0.03 / (labels - 1)
    one[0, 0] = 0.97
    return np.broadcast_to(np.log(one), (shape.sources, labels, labels))


def make_batch(shape: Shape, seed: int) -> Batch:
    """Logits N(0, 1) plus a pull to stay; votes of K sources, 3 % of them not O."""
    rng = np.random.default_rng(seed)
    lengths, source = lengths_of(shape, rng)
    tokens, labels = int(lengths.sum()), shape.labels
    logits = rng.normal(size=(tokens, labels, labels)) + 2 * np.eye(labels)
    moves = rng.dirichlet(np.ones(labels), labels) + np.eye(labels)
    votes = rng.integers(0, labels, (tokens, shape.sources))
    votes[rng.random(votes.shape) > 0.03] = 0
    log_like = log_evidence(sparsify_votes(votes.astype(np.int16)), emissions(shape))
    start = np.full(labels, 0.1 / (labels - 1))
    start[0] = 0.9
    single = np.float32
    return Batch(
        shape,
        lengths,
        np.log(start).astype(single),
        logits.astype(single),
        np.log(moves / moves.sum(1, keepdims=True)).astype(single),
        log_like,
        source,
    )
