"""models.vote_evidence"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.tags import ABSTAIN
from convener.data.votes import entity_votes
from convener.inference._numba import Array
from convener.inference.voting import type_counts


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
