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
from convener.kernels.chain_torch import chain_objective
from convener.kernels.compiled import Array
from convener.kernels.vote import type_counts
from convener.packed import chunk_bounds
from convener.train.chain import DecodeResult, decode
from convener.train.heard import entity_votes
from convener.train.packing import Batch, PackedDataset

BLOCK_TOKENS = 1 << 16
"""Tokens that are inferred together."""


class ChainNetwork(Protocol):
    """A network that gives a chain its start, its moves and its evidence."""

    def log_initial(self) -> Tensor: ...
    def transition_logits(self, batch: Batch, generator: Generator | None = None) -> Tensor: ...
    def log_evidence(self, batch: Batch, generator: Generator | None = None) -> Tensor: ...


@dataclass(frozen=True)
class VoteEvidence:
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

    unmarked_weight: float = 1.0
    boundary_penalty: float = 0.0
    type_penalty: float = 0.0
    new_span_penalty: float = 0.0

    def offset(self, data: Dataset) -> NDArray[np.float32]:
        """The evidence of edges, and of types that nobody names or somebody denies.  -> (N, L)"""
        offset = np.zeros((len(data.tokens), len(data.fine_tags)), np.float32)
        offset[boundary_tokens(data), 1:] = -self.boundary_penalty
        offset[unsupported_types(data) | negated_types(data)] -= self.type_penalty
        return offset

    def penalize_splits(self, transition_logits: Array, data: Dataset) -> Array:
        """The moves, less likely to begin a span where some source's goes on.  -> (N, L, L)"""
        transition_logits = transition_logits.copy()
        for inside_label in range(2, len(data.fine_tags), 2):
            continues = (data.votes == inside_label).any(axis=1)
            transition_logits[continues, inside_label - 1 : inside_label + 1, inside_label - 1] -= self.boundary_penalty
        return transition_logits


def boundary_tokens(data: Dataset) -> NDArray[np.bool_]:
    """Tokens that no source marks, beside one that some source does.  -> (N,)

    >>> data = Dataset.from_spans(["X"], [["a", "b", "c"]], {"s": [[(0, 1, "X")]]})
    >>> boundary_tokens(data).tolist()
    [False, True, False]
    """
    is_marked = marked_tokens(data)
    sentence = data.sentence_of_token()
    same_sentence = sentence[1:] == sentence[:-1]
    next_to_marked = np.zeros(len(is_marked), bool)
    next_to_marked[1:] |= is_marked[:-1] & same_sentence
    next_to_marked[:-1] |= is_marked[1:] & same_sentence
    return next_to_marked & ~is_marked


def unsupported_types(data: Dataset) -> NDArray[np.bool_]:
    """Entity labels of types that no source names, at tokens where one is named.  -> (N, L)

    >>> data = Dataset.from_spans(["X", "Y"], [["a", "b"]], {"s": [[(0, 1, "X")]]})
    >>> unsupported_types(data).astype(int).tolist()
    [[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]
    """
    fine = data.without_coarse()
    voted = type_counts(fine.votes, fine.votes > 0, len(fine.tags.types))[:, 1:] > 0
    unsupported = np.zeros((len(voted), len(fine.tags)), bool)
    unsupported[:, 1:] = np.repeat(~voted & voted.any(axis=1, keepdims=True), 2, axis=1)
    return unsupported


def negated_types(data: Dataset) -> NDArray[np.bool_]:
    """Entity labels that a coarse vote denies which may be no entity at all.  -> (N, L)

    >>> data = Dataset.from_spans(["X", "Y", "NOT-X"], [["a", "b"]], {"s": [[(0, 1, "NOT-X")]]})
    >>> negated_types(data.with_coarse({"NOT-X": "not X"})).astype(int).tolist()
    [[0, 1, 1, 0, 0], [0, 0, 0, 0, 0]]
    """
    allowed = data.allowed_labels()
    negated = np.zeros((len(data.tokens), allowed.shape[1]), bool)
    for symbol in np.flatnonzero(allowed[:, 0])[1:]:
        negated[(data.votes == symbol).any(axis=1)] |= ~allowed[symbol]
    return negated


def marked_tokens(data: Dataset) -> NDArray[np.bool_]:
    """Tokens that some source marks as part of an entity.  -> (N,)"""
    is_marked: NDArray[np.bool_] = np.logical_or.reduce(entity_votes(data), axis=1)
    return is_marked


def explicit_votes(data: Dataset) -> NDArray[np.int16]:
    """Votes with the O of sources whose silence is O taken for an abstention.  -> (N, K)"""
    return np.where(data.opinions(), data.votes, np.int16(ABSTAIN))


Loss = Callable[[Batch, Generator], Tensor]
HeldOutLoss = Callable[[Batch], Tensor]
"""Minus the mean log-likelihood of sentences, nothing drawn."""


def chain_loss(net: ChainNetwork, tau: float, *, sample: bool) -> Loss:
    """Minus the mean of log p(x) - tau H(z|x) over sentences."""

    def loss(batch: Batch, generator: Generator) -> Tensor:
        log_evidence = net.log_evidence(batch, generator if sample else None) + batch.log_evidence_offset
        value, _ = chain_objective(
            net.log_initial(),
            net.transition_logits(batch, generator),
            log_evidence,
            batch.offsets,
            tau=tau,
        )
        return -value.mean()

    return loss


class ValidationScore:
    """How good a network is on held-out data: F1 with gold, or else the likelihood of votes."""

    def __init__(self, net: ChainNetwork, data: Dataset, evidence: VoteEvidence, held_out_loss: HeldOutLoss) -> None:
        self.net, self.data, self.evidence = net, data, evidence
        self.held_out_loss = held_out_loss
        self.blocks = list(prediction_blocks(data, evidence))

    def __call__(self) -> float:
        """Higher is better."""
        if self.data.gold is not None:
            labels = np.concatenate(
                [predict_block(self.net, packed, self.evidence, block).labels for block, packed in self.blocks]
                or [np.zeros(0, np.int16)]
            )
            gold, offsets, tags = self.data.gold, self.data.offsets, self.data.fine_tags
            return score_labels(labels, gold, offsets, tags).micro.f1
        total = 0.0
        with torch.no_grad():
            for part, parts in self.blocks:
                total -= float(self.held_out_loss(parts[0].batch())) * len(part)
        return total / max(1, len(self.data.tokens))


def prediction_blocks(
    data: Dataset, evidence: VoteEvidence
) -> Iterator[tuple[Dataset, tuple[PackedDataset, PackedDataset]]]:
    """Blocks of a dataset, laid out twice: with all votes, and without mere silence."""
    for start, stop in pairwise(chunk_bounds(data.offsets, BLOCK_TOKENS).tolist()):
        block = data[start:stop]
        packed = PackedDataset.from_dataset(block, evidence.offset(block))
        yield block, (packed, packed.replace_votes(explicit_votes(block)))


def predict_block(
    net: ChainNetwork,
    packed: tuple[PackedDataset, PackedDataset],
    evidence: VoteEvidence,
    data: Dataset,
    *,
    threads: int = 1,
) -> DecodeResult:
    """Best legal paths, marginals and scored spans of one block."""
    with torch.no_grad():
        all_votes, without_unmarked = (version.batch() for version in packed)
        log_evidence: Array = np.zeros((len(data.tokens), len(data.fine_tags)), np.float32)
        for weight, batch in (
            (evidence.unmarked_weight, all_votes),
            (1 - evidence.unmarked_weight, without_unmarked),
        ):
            if weight:
                log_evidence = log_evidence + weight * net.log_evidence(batch).numpy()
        log_evidence = np.asarray(log_evidence + all_votes.log_evidence_offset.numpy(), np.float32)
        log_evidence[~marked_tokens(data), 1::2] -= evidence.new_span_penalty
        transition_logits = evidence.penalize_splits(net.transition_logits(all_votes).numpy(), data)
        log_initial = net.log_initial().numpy()
    return decode(transition_logits, log_evidence, data, threads, log_initial=log_initial)


def predict_all(net: ChainNetwork, data: Dataset, evidence: VoteEvidence, *, threads: int = 1) -> DecodeResult:
    """The same for a dataset of any size, a block at a time."""
    outputs = (
        predict_block(net, packed, evidence, block, threads=threads)
        for block, packed in prediction_blocks(data, evidence)
    )
    return DecodeResult.concat(outputs, len(data.fine_tags))
