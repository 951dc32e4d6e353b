"""Simple votes over packed tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.alignment import longest_first, resolve_overlaps


def type_counts(votes: NDArray[np.int16], opinions: NDArray[np.bool_], num_types: int) -> NDArray[np.int32]:
    """How many sources say O and each entity type at each token.

    votes (N, K) BIO labels, opinions (N, K) which votes count -> (N, 1+E)
    """
    return label_counts((votes + 1) // 2, opinions, num_types + 1)


def label_counts(votes: NDArray[np.int16], opinions: NDArray[np.bool_], num_labels: int) -> NDArray[np.int32]:
    """How many sources say each label at each token.  -> (N, L)"""
    counts = np.zeros((len(votes), num_labels), np.int32)
    for column, is_counted in zip(votes.T, opinions.T, strict=True):
        token = np.flatnonzero(is_counted)
        counts[token, column[token]] += 1
    return counts


def weighted_counts(
    votes: NDArray[np.int16],
    opinions: NDArray[np.bool_],
    weights: NDArray[np.float64],
    num_labels: int,
) -> NDArray[np.float64]:
    """What the votes for each label weigh at each token.  weights (K,) -> (N, L)"""
    counts = np.zeros((len(votes), num_labels))
    for column, is_counted, weight in zip(votes.T, opinions.T, weights, strict=True):
        token = np.flatnonzero(is_counted)
        counts[token, column[token]] += weight
    return counts


def odds(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances for against chances against."""
    ratio: NDArray[np.float64] = probabilities / (1 - probabilities)
    return ratio


def argmax_last(counts: NDArray[Any]) -> NDArray[np.int64]:
    """The column with the most votes, the last one of a tie; 0 where nobody voted.  -> (N,)"""
    columns = counts.shape[1]
    best = columns - 1 - np.argmax(counts[:, ::-1], axis=1)
    return np.where(counts.any(axis=1), best, 0)


def argmax_first(counts: NDArray[np.int32]) -> NDArray[np.int64]:
    """The column with the most votes, the first one of a tie.  -> (N,)"""
    best: NDArray[np.int64] = counts.argmax(axis=1)
    return best


def argmax_random(counts: NDArray[np.int32], position: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A column with the most votes, drawn by place and seed alone; 0 where nobody voted.

    counts (N, C), place (N,) the token's number in its sentence -> (N,)
    """
    best = (counts == counts.max(axis=1, keepdims=True)) & counts.any(axis=1, keepdims=True)
    tied = best.sum(axis=1)
    pick = np.where(tied > 0, hash_ints(position, seed) % np.maximum(tied, 1), 0)
    drawn: NDArray[np.int64] = np.argmax(np.cumsum(best, axis=1) > pick[:, None], axis=1)
    return drawn


def hash_ints(numbers: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Numbers that look random and depend on these and the seed only.  (N,) -> (N,), >= 0"""
    bits = numbers.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 1) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return ((bits ^ (bits >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def type_runs_to_bio(type_index: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int16]:
    """BIO labels whose spans are the maximal runs of one type; kind (N,) 0 = O -> (N,)"""
    continues = np.zeros(len(type_index), bool)
    continues[1:] = type_index[1:] == type_index[:-1]
    continues[offsets[:-1][offsets[:-1] < len(type_index)]] = False
    return np.where(type_index == 0, 0, 2 * type_index - 1 + continues).astype(np.int16)


def split_where_majority_begins(labels: NDArray[np.int16], counts: NDArray[np.int32]) -> NDArray[np.int16]:
    """The same labels with a new span wherever more sources begin one than go on.

    labels (N,) BIO, counts (N, L) of the votes for each label -> (N,)
    """
    inside = np.flatnonzero((labels > 0) & (labels % 2 == 0))
    label = labels[inside]
    begins = counts[inside, label - 1] > counts[inside, label]
    result = labels.copy()
    result[inside[begins]] -= 1
    return result


def majority_vote_io(
    votes: NDArray[np.int16],
    opinions: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    num_types: int,
) -> NDArray[np.int16]:
    """Majority vote in the IO scheme: the most voted type, runs of it as spans.  -> (N,)

    An O votes only where it is an opinion; ties go to the last type in order.
    """
    return type_runs_to_bio(argmax_last(type_counts(votes, opinions, num_types)), offsets)


def union_spans(
    sentence: NDArray[np.int64],
    start: NDArray[np.int32],
    end: NDArray[np.int32],
    preference: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Positions of the spans that stay when all sources' spans are put together.

    Longest first, then leftmost, then the lowest preference.  (S,) -> positions
    """
    order = longest_first(start, end, preference)
    return np.flatnonzero(resolve_overlaps(sentence, start, end, order) < 0)


def type_to_label_probabilities(
    type_probs: NDArray[np.floating[Any]], labels: NDArray[np.int16]
) -> NDArray[np.float32]:
    """Probabilities of types (N, 1+E) as probabilities of labels.  -> (N, L)

    A type that goes on here, by the labels (N,) chosen, puts its share on I-, every other on B-.
    """
    probabilities = np.zeros((len(type_probs), 2 * type_probs.shape[1] - 1), np.float32)
    probabilities[:, 0] = type_probs[:, 0]
    probabilities[:, 1::2] = type_probs[:, 1:]
    inside = np.flatnonzero((labels > 0) & (labels % 2 == 0))
    label = labels[inside]
    probabilities[inside, label] = probabilities[inside, label - 1]
    probabilities[inside, label - 1] = 0
    return probabilities
