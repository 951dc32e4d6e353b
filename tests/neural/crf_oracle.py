"""Oracle of CRFs: enumeration of all paths; and small batches and networks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch

import convener as cv
from convener.neural.batch import Batch, PackedDataset

WIDTH = 3


def batch_of(data: cv.Dataset, width: int = WIDTH) -> Batch:
    """The complete dataset as a batch in float64, with features truncated to a few columns."""
    batch = PackedDataset.from_dataset(data).batch()
    return replace(
        batch,
        tokens=batch.tokens[:, :width].double(),
        sentences=batch.sentences[:, :width].double(),
        log_evidence_offset=batch.log_evidence_offset.double(),
    )


def randomized(net: Any) -> Any:
    """The network in float64 with random weights, so that every parameter has an influence."""
    torch.manual_seed(1)
    for parameter in net.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return net.double()


def paths_of(labels: int, length: int) -> np.ndarray:
    """All label paths of a sentence.  -> (P, T)"""
    return np.array(list(product(range(labels), repeat=length)), int)


def score_of(path: Any, scores: Any, start: Any, transitions: Any) -> float:
    """Score of one path: scores (T, L), start (L,), transitions (L, L)."""
    total = 0.0
    for t, label in enumerate(path):
        total += float(scores[t, label])
        total += float(start[label] if t == 0 else transitions[path[t - 1], label])
    return total


def short_sentences(data: cv.Dataset) -> cv.Dataset:
    """Four short sentences, an empty one among them, in which some sources abstain."""
    lengths = data.lengths
    some = [*np.flatnonzero((lengths > 1) & (lengths < 5))[:3], np.flatnonzero(lengths == 0)[0]]
    short = data.take(some)
    assert (short.votes == -1).any()
    assert (short.votes > 0).any()
    return short
