"""Coarse votes in EM: a coarse vote stands for any of the labels it allows.

Symbols are the possible votes, S of them: the L labels, then the coarse labels. `allowed` (S, L) states which labels
each symbol allows; a label allows only itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.data.schemes import is_sentence_start

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_TINY = 1e-6
# Lower bound of the presumed error rate of a source.
_MIN_ERROR_RATE = 1e-3


def coarse_emission(emission: Floats, allowed: Bools) -> Floats:
    """Probability of each symbol: the sum over the labels that it allows.

    emission (K, L, L) [source, true label, vote], allowed (S, L) -> (K, L, S)
    """
    num_labels = allowed.shape[1]
    coarse = emission @ allowed[num_labels:].T.astype(np.float64)
    return np.concatenate([emission, coarse], axis=2)


def fold_coarse_counts(counts: Floats, emission: Floats, allowed: Bools) -> Floats:
    """Distribute counts of coarse symbols over the labels they allow, in proportion to the emission: the E step of EM.

    counts (K, L, S) [source, true label, symbol], emission broadcastable to (K, L, L), allowed (S, L) -> (K, L, L)
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
    """Distribute counts of coarse symbols over labels when no emission is known yet.

    A coarse vote that allows the true label counts as a vote for it; any other is spread over the labels it allows in
    proportion to `label_mass`. A symbol that allows O ("not PER") is informative only if the source could have voted
    PER: for each excluded label, correct votes are added such that the source errs with probability 1 - precision.
    counts (K, L, S) [source, true label, symbol], label_mass (L,) frequency of the true labels, allowed (S, L),
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
    """Complete the labels of a simple vote with the spans that only coarse votes mark.

    labels (N,); symbols (N,) the coarse vote at each token, 0 for none, without symbols that allow O; allowed (S, L);
    offsets (M+1,). Spans of `labels` are extended over the coarse spans they overlap. All other coarse spans get each
    possible type in turn, weighted by its frequency in `labels`; where a coarse vote does not allow the type, they get
    the most frequent one it allows.  -> list of (weight, labels (N,))

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
    is_first = is_sentence_start(len(labels), offsets)
    completions = []
    for type_index in np.flatnonzero(weights):
        is_allowed = allowed_types[symbols[positions], type_index]
        chosen_types = np.where(is_allowed, type_index, default_type[symbols[positions]])
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
    """Extend spans over the tokens linked to them.

    labels (N,) BIO, linked (N,) whether a token is linked to the previous one -> (N,)
    """
    result = labels.copy()
    positions = np.flatnonzero(linked & ~is_sentence_start(len(labels), offsets)).tolist()
    for token in positions:
        if result[token] == 0 and result[token - 1] > 0:
            result[token] = result[token - 1] + result[token - 1] % 2
    for token in reversed(positions):
        if result[token] % 2 == 1 and result[token - 1] == 0:
            result[token - 1] = result[token]
            result[token] += 1
    return result
