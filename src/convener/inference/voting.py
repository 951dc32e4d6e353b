"""Token-wise voting: counts of votes, tie breaking, majority vote and union of spans.

This module needs NumPy only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.alignment import longest_first, resolve_overlaps
from convener.data.schemes import is_sentence_start


def type_counts(votes: NDArray[np.int16], informative: NDArray[np.bool_], num_types: int) -> NDArray[np.int32]:
    """Number of votes for O and for each entity type at each token.

    votes (N, K) BIO labels, informative (N, K) mask of the votes that count -> (N, 1+E)
    """
    counts = np.zeros((len(votes), num_types + 1), np.int32)
    for column, is_counted in zip(votes.T, informative.T, strict=True):
        token = np.flatnonzero(is_counted)
        counts[token, (column[token] + 1) // 2] += 1
    return counts


def label_counts(votes: NDArray[np.int16], informative: NDArray[np.bool_], num_labels: int) -> NDArray[np.int32]:
    """Number of votes for each label at each token.  -> (N, L)"""
    counts = np.zeros((len(votes), num_labels), np.int32)
    for column, is_counted in zip(votes.T, informative.T, strict=True):
        token = np.flatnonzero(is_counted)
        counts[token, column[token]] += 1
    return counts


def weighted_counts(
    votes: NDArray[np.int16],
    informative: NDArray[np.bool_],
    weights: NDArray[np.float64],
    num_labels: int,
) -> NDArray[np.float64]:
    """Total weight of the votes for each label at each token.  weights (K,) by source -> (N, L)"""
    counts = np.zeros((len(votes), num_labels))
    for column, is_counted, weight in zip(votes.T, informative.T, weights, strict=True):
        token = np.flatnonzero(is_counted)
        counts[token, column[token]] += weight
    return counts


def odds(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Odds p / (1 - p)."""
    ratio: NDArray[np.float64] = probabilities / (1 - probabilities)
    return ratio


def argmax_last(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Column with the most votes, the last one of a tie; 0 at tokens without votes.  -> (N,)"""
    columns = counts.shape[1]
    best = columns - 1 - np.argmax(counts[:, ::-1], axis=1)
    return np.where(counts.any(axis=1), best, 0)


def argmax_first(counts: NDArray[np.int32]) -> NDArray[np.int64]:
    """Column with the most votes, the first one of a tie.  -> (N,)"""
    best: NDArray[np.int64] = counts.argmax(axis=1)
    return best


def argmax_random(counts: NDArray[np.int32], position: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Column with the most votes, a random one of a tie; 0 at tokens without votes.

    The choice depends on position and seed only.
    counts (N, C), position (N,) of the token in its sentence -> (N,)
    """
    best = (counts == counts.max(axis=1, keepdims=True)) & counts.any(axis=1, keepdims=True)
    tied = best.sum(axis=1)
    pick = np.where(tied > 0, hash_ints(position, seed) % np.maximum(tied, 1), 0)
    drawn: NDArray[np.int64] = np.argmax(np.cumsum(best, axis=1) > pick[:, None], axis=1)
    return drawn


def hash_ints(numbers: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Non-negative pseudo-random integers that depend on the given ones and the seed only.  (N,) -> (N,)"""
    bits = numbers.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 1) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return ((bits ^ (bits >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def type_runs_to_bio(type_index: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int16]:
    """BIO labels whose spans are the maximal runs of one type.  type_index (N,), 0 = O -> (N,)"""
    continues = ~is_sentence_start(len(type_index), offsets)
    continues[1:] &= type_index[1:] == type_index[:-1]
    return np.where(type_index == 0, 0, 2 * type_index - 1 + continues).astype(np.int16)


def split_where_majority_begins(labels: NDArray[np.int16], counts: NDArray[np.int32]) -> NDArray[np.int16]:
    """Start a new span wherever more sources vote B- than I- of its type.

    labels (N,) BIO, counts (N, L) of votes for each label -> (N,)
    """
    inside = np.flatnonzero((labels > 0) & (labels % 2 == 0))
    label = labels[inside]
    begins = counts[inside, label - 1] > counts[inside, label]
    result = labels.copy()
    result[inside[begins]] -= 1
    return result


def majority_vote_io(
    votes: NDArray[np.int16],
    informative: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    num_types: int,
) -> NDArray[np.int16]:
    """Majority vote in the IO scheme: the type with the most votes; runs of a type are spans.  -> (N,)

    Only votes selected by `informative` (N, K) count; ties go to the last type in order.
    """
    return type_runs_to_bio(argmax_last(type_counts(votes, informative, num_types)), offsets)


def union_spans(
    sentence: NDArray[np.int64],
    start: NDArray[np.int32],
    end: NDArray[np.int32],
    preference: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Indices of the spans that remain in the union of all sources' spans.

    Of overlapping spans the longest wins, then the leftmost, then the lowest preference.  (S,) -> indices
    """
    order = longest_first(start, end, preference)
    return np.flatnonzero(resolve_overlaps(sentence, start, end, order) < 0)


def type_to_label_probabilities(
    type_probs: NDArray[np.floating[Any]], labels: NDArray[np.int16]
) -> NDArray[np.float32]:
    """Convert probabilities of types (N, 1+E) to probabilities of labels.  -> (N, L)

    A type that continues a span according to `labels` (N,) has its probability on I-, any other type on B-.
    """
    probabilities = np.zeros((len(type_probs), 2 * type_probs.shape[1] - 1), np.float32)
    probabilities[:, 0] = type_probs[:, 0]
    probabilities[:, 1::2] = type_probs[:, 1:]
    inside = np.flatnonzero((labels > 0) & (labels % 2 == 0))
    label = labels[inside]
    probabilities[inside, label] = probabilities[inside, label - 1]
    probabilities[inside, label - 1] = 0
    return probabilities
