"""Adjustments of the evidence in network chains for tokens that sources leave unmarked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.config import Settings, check_min, check_range
from convener.data.dataset import Dataset
from convener.data.tags import ABSTAIN
from convener.data.votes import entity_votes
from convener.inference._numba import Array
from convener.inference.voting import type_counts


@dataclass(frozen=True, kw_only=True)
class VoteEvidence(Settings):
    """Adjustments of the evidence for labeling functions: a group of settings of chain models with a network.

    Labeling functions are the sources with unmarked="abstain".

    The defaults are the neutral values, which give the plain chain of the papers. This class declares the settings, and
    computes what they add to the evidence and the transitions. `neural_chain.predict_block` applies `unmarked_weight`
    and `new_span_penalty`; models with weak supervision in `neural_chain` apply `probability_scale`.

    A labeling function leaves nearly every token unmarked, and an unmarked token contains little information. In
    training unmarked tokens count in full: from them the transitions learn how rare entities are. In prediction they
    would be counted a second time, so there an unmarked token has the weight `unmarked_weight`.

    An unmarked token next to a marked one shows where the entity ends: it is `boundary_penalty` nats less likely to
    be part of an entity. In prediction, a span is also less likely to begin directly after another one of its type
    where some source's span continues.

    A marked token is `type_penalty` nats less likely to have a type that no source votes for there, because sources
    mistake words for entities more often than one type for another. The same holds for a type that a source negates.

    Where no source marks anything, a new entity costs `new_span_penalty` nats in prediction: if the sources together
    find a share c of all entities, few are left to be found. An unmarked token that the transitions consider an entity
    with probability s is one with probability s (1/c - 1) / (1 - s).

    The errors of sources are correlated, so the posterior is overconfident: `probability_scale` reduces the
    probabilities of entities. Labels do not change.
    """

    unmarked_weight: float = 1.0
    """Weight of an unmarked token as a vote for O in prediction, for labeling functions (sources with
    unmarked="abstain"), in [0, 1]. 1 counts it in full, as the papers do; 0 as no evidence."""
    boundary_penalty: float = 0.0
    """Penalty in nats for an entity label at an unmarked token next to a marked one, and for splitting a span that some
    source continues; at least 0; 0 switches it off."""
    type_penalty: float = 0.0
    """Penalty in nats for a type that no source votes for at a marked token, or that a source negates; at least 0,
    which switches it off."""
    new_span_penalty: float = 0.0
    """Penalty in nats for an entity that begins where no source marks anything, in prediction; at least 0; 0
    switches it off."""
    probability_scale: float = 1.0
    """Factor on the probabilities of entities, in (0, 1]; 1 leaves them unchanged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "[0, 1]", "unmarked_weight")
        check_min(self, 0, "boundary_penalty", "type_penalty", "new_span_penalty")
        check_range(self, "(0, 1]", "probability_scale")

    def offset(self, data: Dataset) -> NDArray[np.float32]:
        """Log-evidence to add for boundary tokens and for unsupported or negated types.  -> (N, L)"""
        offset = np.zeros((len(data.tokens), len(data.fine_tags)), np.float32)
        offset[boundary_tokens(data), 1:] = -self.boundary_penalty
        offset[unsupported_types(data) | negated_types(data)] -= self.type_penalty
        return offset

    def penalize_splits(self, transition_logits: Array, data: Dataset) -> Array:
        """Transition logits less likely to begin a span where some source's span continues.  -> (N, L, L)"""
        transition_logits = transition_logits.copy()
        for inside_label in range(2, len(data.fine_tags), 2):
            continues = (data.votes == inside_label).any(axis=1)
            transition_logits[continues, inside_label - 1 : inside_label + 1, inside_label - 1] -= self.boundary_penalty
        return transition_logits


def boundary_tokens(data: Dataset) -> NDArray[np.bool_]:
    """Unmarked tokens next to a marked one.  -> (N,)

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
    """Entity labels whose type no source votes for, at tokens with a vote for another type.  -> (N, L)

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
    """Entity labels excluded by a negative coarse vote, one that allows O.  -> (N, L)

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
    """Tokens that at least one source marks as part of an entity.  -> (N,)"""
    is_marked: NDArray[np.bool_] = np.logical_or.reduce(entity_votes(data), axis=1)
    return is_marked


def explicit_votes(data: Dataset) -> NDArray[np.int16]:
    """Votes in which an unmarked token of a labeling function is an abstention.  -> (N, K)"""
    return np.where(data.informative_votes(), data.votes, np.int16(ABSTAIN))
