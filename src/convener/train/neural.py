"""What chain models with a network share: how votes are read, the loss, the score, inference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from convener.data import ABSTAIN, Dataset
from convener.evaluate.metrics import score_labels
from convener.kernels.chain_torch import objective
from convener.kernels.compiled import Array
from convener.kernels.vote import type_counts
from convener.packed import stretches
from convener.train.chain import Decoded, decoded
from convener.train.heard import marks
from convener.train.packing import Batch, Packing

BLOCK = 1 << 16
"""Tokens that are inferred together."""


class ChainNet(Protocol):
    """A network that gives a chain its start, its moves and its evidence."""

    def log_initial(self) -> Tensor: ...
    def moves(self, batch: Batch, generator: Generator | None = None) -> Tensor: ...
    def log_like(self, batch: Batch, generator: Generator | None = None) -> Tensor: ...


@dataclass(frozen=True)
class Reading:
    """How votes of sources whose silence is O become evidence.

    Such a source says O nearly everywhere, and mostly it means nothing. Training counts it all:
    the moves learn from it how rare entities are. To count it again in inference would be to count
    it twice, so there an O has the weight `silence`. But silence right beside a mark tells where
    it ends: a token that no source marks, next to one that some source does, is `edge` nats less
    likely to be of an entity. So is a span to begin right behind another of its type, in
    inference, where some source's span goes on. And what is marked is `clash` nats less likely of
    a type that no source names there, however much it looks like one: sources mistake words for
    entities more often than one type for another. The same holds for a type that some source
    denies. Where nobody marks anything, an entity may begin only against `doubt` nats, in
    inference alone: sources that find a share c of all entities leave few to be found, and what
    the moves think is an entity with probability s is one that they missed with probability s (1/c
    - 1) / (1 - s). (1, 0, 0, 0) is the plain chain.
    """

    silence: float = 1.0
    edge: float = 0.0
    clash: float = 0.0
    doubt: float = 0.0

    def given(self, data: Dataset) -> NDArray[np.float32]:
        """The evidence of edges, and of types that nobody names or somebody denies.  -> (N, L)"""
        known = np.zeros((len(data.tokens), len(data.fine_tags)), np.float32)
        known[edges(data), 1:] = -self.edge
        known[unnamed(data) | denied(data)] -= self.clash
        return known

    def joined(self, moves: Array, data: Dataset) -> Array:
        """The moves, less likely to begin a span where some source's goes on.  -> (N, L, L)"""
        moves = moves.copy()
        for inside in range(2, len(data.fine_tags), 2):
            goes_on = (data.votes == inside).any(axis=1)
            moves[goes_on, inside - 1 : inside + 1, inside - 1] -= self.edge
        return moves


def edges(data: Dataset) -> NDArray[np.bool_]:
    """Tokens that no source marks, beside one that some source does.  -> (N,)

    >>> data = Dataset.from_spans(["X"], [["a", "b", "c"]], {"s": [[(0, 1, "X")]]})
    >>> edges(data).tolist()
    [False, True, False]
    """
    said = marked(data)
    sentence = data.sentence_of_token()
    together = sentence[1:] == sentence[:-1]
    beside = np.zeros(len(said), bool)
    beside[1:] |= said[:-1] & together
    beside[:-1] |= said[1:] & together
    return beside & ~said


def unnamed(data: Dataset) -> NDArray[np.bool_]:
    """Entity labels of types that no source names, at tokens where one is named.  -> (N, L)

    >>> data = Dataset.from_spans(["X", "Y"], [["a", "b"]], {"s": [[(0, 1, "X")]]})
    >>> unnamed(data).astype(int).tolist()
    [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]
    """
    fine = data.fine()
    named = type_counts(fine.votes, fine.votes > 0, len(fine.tags.types))[:, 1:] > 0
    strange = np.zeros((len(named), len(fine.tags)), bool)
    strange[:, 1:] = np.repeat(~named & named.any(axis=1, keepdims=True), 2, axis=1)
    return strange


def denied(data: Dataset) -> NDArray[np.bool_]:
    """Entity labels that a coarse vote denies which may be no entity at all.  -> (N, L)

    >>> data = Dataset.from_spans(["X", "Y", "NOT-X"], [["a", "b"]], {"s": [[(0, 1, "NOT-X")]]})
    >>> denied(data.with_coarse({"NOT-X": "not X"})).astype(int).tolist()
    [[0, 1, 1, 0, 0], [0, 0, 0, 0, 0]]
    """
    allowed = data.allowed()
    strange = np.zeros((len(data.tokens), allowed.shape[1]), bool)
    for symbol in np.flatnonzero(allowed[:, 0])[1:]:
        strange[(data.votes == symbol).any(axis=1)] |= ~allowed[symbol]
    return strange


def marked(data: Dataset) -> NDArray[np.bool_]:
    """Tokens that some source marks as part of an entity.  -> (N,)"""
    said: NDArray[np.bool_] = np.logical_or.reduce(marks(data), axis=1)
    return said


def speaking(data: Dataset) -> NDArray[np.int16]:
    """Votes with the O of sources whose silence is O taken for an abstention.  -> (N, K)"""
    return np.where(data.opinions(), data.votes, np.int16(ABSTAIN))


Loss = Callable[[Batch, Generator], Tensor]
Unexplained = Callable[[Batch], Tensor]
"""Minus the mean log-likelihood of sentences, nothing drawn."""


def chain_loss(net: ChainNet, tau: float, *, sample: bool) -> Loss:
    """Minus the mean of log p(x) - tau H(z|x) over sentences."""

    def loss(batch: Batch, generator: Generator) -> Tensor:
        log_like = net.log_like(batch, generator if sample else None) + batch.given
        value, _ = objective(
            net.log_initial(), net.moves(batch, generator), log_like, batch.offsets, tau=tau
        )
        return -value.mean()

    return loss


class Judge:
    """How good a network is on held-out data: F1 with gold, or else the likelihood of votes."""

    def __init__(
        self, net: ChainNet, data: Dataset, reading: Reading, unexplained: Unexplained
    ) -> None:
        self.net, self.data, self.reading = net, data, reading
        self.unexplained = unexplained
        self.packings = list(packings(data, reading))

    def __call__(self) -> float:
        """Higher is better."""
        if self.data.gold is not None:
            labels = np.concatenate(
                [infer(self.net, parts, self.reading, part).labels for part, parts in self.packings]
                or [np.zeros(0, np.int16)]
            )
            gold, offsets, tags = self.data.gold, self.data.offsets, self.data.fine_tags
            return score_labels(labels, gold, offsets, tags).micro.f1
        total = 0.0
        with torch.no_grad():
            for part, parts in self.packings:
                total -= float(self.unexplained(parts[0].batch())) * len(part)
        return total / max(1, len(self.data.tokens))


def packings(data: Dataset, reading: Reading) -> Iterator[tuple[Dataset, tuple[Packing, Packing]]]:
    """Blocks of a dataset, laid out twice: with all votes, and without mere silence."""
    for start, stop in pairwise(stretches(data.offsets, BLOCK).tolist()):
        part = data[start:stop]
        packing = Packing.of(part, reading.given(part))
        yield part, (packing, packing.with_votes(speaking(part)))


def infer(
    net: ChainNet,
    parts: tuple[Packing, Packing],
    reading: Reading,
    data: Dataset,
    *,
    threads: int = 1,
) -> Decoded:
    """Best legal paths, marginals and scored spans of one block."""
    with torch.no_grad():
        whole, spoken = (part.batch() for part in parts)
        log_like: Array = np.zeros((len(data.tokens), len(data.fine_tags)), np.float32)
        for weight, batch in ((reading.silence, whole), (1 - reading.silence, spoken)):
            if weight:
                log_like = log_like + weight * net.log_like(batch).numpy()
        log_like = np.asarray(log_like + whole.given.numpy(), np.float32)
        log_like[~marked(data), 1::2] -= reading.doubt
        moves = reading.joined(net.moves(whole).numpy(), data)
        begin = net.log_initial().numpy()
    return decoded(moves, log_like, data, threads, begin=begin)


def infer_all(net: ChainNet, data: Dataset, reading: Reading, *, threads: int = 1) -> Decoded:
    """The same for a dataset of any size, a block at a time."""
    found = (
        infer(net, parts, reading, part, threads=threads) for part, parts in packings(data, reading)
    )
    return Decoded.joined(found, len(data.fine_tags))
