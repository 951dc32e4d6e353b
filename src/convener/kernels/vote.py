"""Simple votes over packed tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.kernels.overlap import longest_first, rivals


def type_counts(
    votes: NDArray[np.int16], opinions: NDArray[np.bool_], types: int
) -> NDArray[np.int32]:
    """How many sources say O and each entity type at each token.

    votes (N, K) BIO labels, opinions (N, K) which votes count -> (N, 1+E)
    """
    return label_counts((votes + 1) // 2, opinions, types + 1)


def label_counts(
    votes: NDArray[np.int16], opinions: NDArray[np.bool_], labels: int
) -> NDArray[np.int32]:
    """How many sources say each label at each token.  -> (N, L)"""
    counts = np.zeros((len(votes), labels), np.int32)
    for column, counted in zip(votes.T, opinions.T, strict=True):
        token = np.flatnonzero(counted)
        counts[token, column[token]] += 1
    return counts


def weighed_counts(
    votes: NDArray[np.int16],
    opinions: NDArray[np.bool_],
    weights: NDArray[np.float64],
    labels: int,
) -> NDArray[np.float64]:
    """What the votes for each label weigh at each token.  weights (K,) -> (N, L)"""
    counts = np.zeros((len(votes), labels))
    for column, counted, weight in zip(votes.T, opinions.T, weights, strict=True):
        token = np.flatnonzero(counted)
        counts[token, column[token]] += weight
    return counts


def odds(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Chances for against chances against."""
    found: NDArray[np.float64] = probabilities / (1 - probabilities)
    return found


def last_of_best(counts: NDArray[Any]) -> NDArray[np.int64]:
    """The column with the most votes, the last one of a tie; 0 where nobody voted.  -> (N,)"""
    columns = counts.shape[1]
    best = columns - 1 - np.argmax(counts[:, ::-1], axis=1)
    return np.where(counts.any(axis=1), best, 0)


def first_of_best(counts: NDArray[np.int32]) -> NDArray[np.int64]:
    """The column with the most votes, the first one of a tie.  -> (N,)"""
    best: NDArray[np.int64] = counts.argmax(axis=1)
    return best


def any_of_best(
    counts: NDArray[np.int32], place: NDArray[np.int64], seed: int
) -> NDArray[np.int64]:
    """A column with the most votes, drawn by place and seed alone; 0 where nobody voted.

    counts (N, C), place (N,) the token's number in its sentence -> (N,)
    """
    best = (counts == counts.max(axis=1, keepdims=True)) & counts.any(axis=1, keepdims=True)
    tied = best.sum(axis=1)
    chosen = np.where(tied > 0, scrambled(place, seed) % np.maximum(tied, 1), 0)
    drawn: NDArray[np.int64] = np.argmax(np.cumsum(best, axis=1) > chosen[:, None], axis=1)
    return drawn


def scrambled(numbers: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Numbers that look random and depend on these and the seed only.  (N,) -> (N,), >= 0"""
    bits = numbers.astype(np.uint64) + np.uint64((seed * 0x9E3779B97F4A7C15 + 1) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return ((bits ^ (bits >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def runs(kind: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int16]:
    """BIO labels whose spans are the maximal runs of one type; kind (N,) 0 = O -> (N,)"""
    goes_on = np.zeros(len(kind), bool)
    goes_on[1:] = kind[1:] == kind[:-1]
    goes_on[offsets[:-1][offsets[:-1] < len(kind)]] = False
    return np.where(kind == 0, 0, 2 * kind - 1 + goes_on).astype(np.int16)


def majority_begins(labels: NDArray[np.int16], counts: NDArray[np.int32]) -> NDArray[np.int16]:
    """The same labels with a new span wherever more sources begin one than go on.

    labels (N,) BIO, counts (N, L) of the votes for each label -> (N,)
    """
    inside = np.flatnonzero((labels > 0) & (labels % 2 == 0))
    label = labels[inside]
    begins = counts[inside, label - 1] > counts[inside, label]
    result = labels.copy()
    result[inside[begins]] -= 1
    return result


def majority_io(
    votes: NDArray[np.int16],
    opinions: NDArray[np.bool_],
    offsets: NDArray[np.int64],
    types: int,
) -> NDArray[np.int16]:
    """Majority vote in the IO scheme: the most voted type, runs of it as spans.  -> (N,)

    An O votes only where it is an opinion; ties go to the last type in order.
    """
    return runs(last_of_best(type_counts(votes, opinions, types)), offsets)


def span_union(
    sentence: NDArray[np.int64],
    start: NDArray[np.int32],
    end: NDArray[np.int32],
    preference: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Positions of the spans that stay when all sources' spans are put together.

    Longest first, then leftmost, then the lowest preference.  (S,) -> positions
    """
    order = longest_first(start, end, preference)
    return np.flatnonzero(rivals(sentence, start, end, order) < 0)


def label_probabilities(
    types: NDArray[np.floating[Any]], labels: NDArray[np.int16]
) -> NDArray[np.float32]:
    """Probabilities of types (N, 1+E) as probabilities of labels.  -> (N, L)

    A type that goes on here, by the labels (N,) chosen, puts its share on I-, every other on B-.
    """
    probabilities = np.zeros((len(types), 2 * types.shape[1] - 1), np.float32)
    probabilities[:, 0] = types[:, 0]
    probabilities[:, 1::2] = types[:, 1:]
    inside = np.flatnonzero((labels > 0) & (labels % 2 == 0))
    label = labels[inside]
    probabilities[inside, label] = probabilities[inside, label - 1]
    probabilities[inside, label - 1] = 0
    return probabilities
