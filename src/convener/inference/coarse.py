"""Votes that allow several labels: a coarse vote is any of the labels it allows.

Symbols are what sources say, S of them: the L labels, and after these the coarse ones. `allowed`
(S, L) tells which labels each symbol stands for, a label for itself alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_TINY = 1e-6
# Nothing is presumed to be wrong less often.
_MIN_ERROR_RATE = 1e-3


def coarse_emission(emission: Floats, allowed: Bools) -> Floats:
    """Probability that a source says each symbol: the sum over the labels that it allows.

    emissions (K, L, L) [source, truth, said], allowed (S, L) -> (K, L, S)
    """
    num_labels = allowed.shape[1]
    coarse = emission @ allowed[num_labels:].T.astype(np.float64)
    return np.concatenate([emission, coarse], axis=2)


def fold_coarse_counts(counts: Floats, emission: Floats, allowed: Bools) -> Floats:
    """Counts of symbols as counts of labels, given how often labels are said: the E-step of EM.

    counts (K, L, S) [source, truth, said], emissions (K, L, L) or what broadcasts to it, allowed
    (S, L) -> (K, L, L)
    """
    num_labels = allowed.shape[1]
    label_counts = counts[:, :, :num_labels].copy()
    for symbol in range(num_labels, len(allowed)):
        allowed_labels = allowed[symbol]
        probs = np.broadcast_to(emission, label_counts.shape)[:, :, allowed_labels] + np.finfo(float).tiny
        responsibility = probs / probs.sum(axis=2, keepdims=True)
        label_counts[:, :, allowed_labels] += counts[:, :, symbol, None] * responsibility
    return label_counts


def assign_coarse_counts(counts: Floats, label_mass: Floats, allowed: Bools, precision: Floats) -> Floats:
    """Counts of symbols as counts of labels when no emissions are known yet.

    A coarse vote that allows the truth says the truth; else it is spread as labels are. A vote
    that may be O ("not PER") tells something only if the source could have said PER: where it is
    wrong, it is presumed to be wrong once in 1 / (1 - precision) times that it could be.
    counts (K, L, S) [source, truth, said], mass (L,) how often labels are true, allowed (S, L),
    precision (K,) -> (K, L, L)
    """
    num_labels = allowed.shape[1]
    if len(allowed) == num_labels:
        return counts
    assigned = fold_coarse_counts(
        counts, np.eye(num_labels) + _TINY * (label_mass + 1) / (label_mass + 1).sum(), allowed
    )
    odds = precision / np.maximum(1 - precision, _MIN_ERROR_RATE)
    for symbol in range(num_labels, len(allowed)):
        symbol_counts = counts[:, :, symbol]
        if allowed[symbol, 0] and symbol_counts.any():
            excluded = np.flatnonzero(~allowed[symbol])
            has_votes = symbol_counts.sum(axis=1, keepdims=True) > 0
            assigned[:, excluded, excluded] += has_votes * (symbol_counts[:, excluded] + 1) * odds[:, None]
    return assigned


def complete_coarse_spans(
    labels: NDArray[np.int16],
    symbols: NDArray[np.int16],
    allowed: Bools,
    offsets: NDArray[np.int64],
) -> list[tuple[float, NDArray[np.int16]]]:
    """Labels of a simple vote, with something for the spans that only coarse votes mark.

    labels (N,); symbols (N,) the coarse vote at each token, none of which may be O, 0 where there
    is none; allowed (S, L); offsets (M+1,). Spans of the labels grow over the coarse ones that
    they overlap. All others are each type in turn, weighed as the labels have them; what a coarse
    vote does not allow becomes the most usual type that it does.  -> [weight, labels (N,)]

    >>> labels, symbols = np.array([1, 0, 0, 3, 0], np.int16), np.array([0, 0, 5, 0, 0], np.int16)
    >>> allowed = np.array([[0, 1, 0, 1, 0], [0, 0, 1, 0, 1]], bool)
    >>> allowed = np.concatenate([np.eye(5, dtype=bool), allowed])
    >>> [(w, x.tolist()) for w, x in complete_coarse_spans(labels, symbols, allowed, np.array([0, 5]))]
    [(0.5, [1, 0, 1, 3, 0]), (0.5, [1, 0, 3, 3, 0])]
    """
    has_coarse_vote = symbols > 0
    labels = extend_over_links(labels, has_coarse_vote & (symbols % 2 == 0), offsets)
    positions = np.flatnonzero(has_coarse_vote & (labels == 0))
    if not len(positions):
        return [(1.0, labels)]
    allowed_types = allowed[:, 1::2] | allowed[:, 2::2]
    type_counts = np.bincount(labels[labels % 2 == 1] // 2, minlength=allowed_types.shape[1])
    symbols_used = np.unique(symbols[positions])
    possible_types = np.logical_or.reduce(allowed_types[symbols_used], axis=0)
    weights = np.where(possible_types, type_counts if (type_counts * possible_types).any() else 1, 0)
    default_type = np.argmax(np.where(allowed_types, type_counts + 1, 0), axis=1)
    is_first = np.zeros(len(labels), bool)
    is_first[offsets[:-1][np.diff(offsets) > 0]] = True
    completions = []
    for type_index in np.flatnonzero(weights):
        chosen_types = np.where(
            allowed_types[symbols[positions], type_index],
            type_index,
            default_type[symbols[positions]],
        )
        completed = labels.copy()
        completed[positions] = 2 * chosen_types + 1 + (symbols[positions] % 2 == 0)
        types = (completed + 1) // 2
        stray = (completed[positions] % 2 == 0) & (is_first[positions] | (types[positions] != types[positions - 1]))
        completed[positions[stray]] -= 1
        completions.append((float(weights[type_index] / weights.sum()), completed))
    return completions


def extend_over_links(
    labels: NDArray[np.int16], linked: NDArray[np.bool_], offsets: NDArray[np.int64]
) -> NDArray[np.int16]:
    """Labels whose spans have grown over the tokens linked to them.

    labels (N,) BIO, linked (N,) to the token before -> (N,)
    """
    result = labels.copy()
    is_linked = linked.copy()
    is_linked[offsets[:-1][np.diff(offsets) > 0]] = False
    positions = np.flatnonzero(is_linked).tolist()
    for token in positions:
        if result[token] == 0 and result[token - 1] > 0:
            result[token] = result[token - 1] + result[token - 1] % 2
    for token in reversed(positions):
        if result[token] % 2 == 1 and result[token - 1] == 0:
            result[token - 1] = result[token]
            result[token] += 1
    return result
