"""Votes that allow several labels: a coarse vote is any of the labels it allows.

Symbols are what sources say, S of them: the L labels, and after these the coarse ones. `allowed`
(S, L) tells which labels each symbol stands for, a label for itself alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.kernels.links import extended

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_TINY = 1e-6
# Nothing is presumed to be wrong less often.
_SURE = 1e-3


def widened(emissions: Floats, allowed: Bools) -> Floats:
    """Probability that a source says each symbol: the sum over the labels that it allows.

    emissions (K, L, L) [source, truth, said], allowed (S, L) -> (K, L, S)
    """
    labels = allowed.shape[1]
    coarse = emissions @ allowed[labels:].T.astype(np.float64)
    return np.concatenate([emissions, coarse], axis=2)


def folded(counts: Floats, emissions: Floats, allowed: Bools) -> Floats:
    """Counts of symbols as counts of labels, given how often labels are said: the E-step of EM.

    counts (K, L, S) [source, truth, said], emissions (K, L, L) or what broadcasts to it, allowed
    (S, L) -> (K, L, L)
    """
    labels = allowed.shape[1]
    found = counts[:, :, :labels].copy()
    for symbol in range(labels, len(allowed)):
        among = allowed[symbol]
        part = np.broadcast_to(emissions, found.shape)[:, :, among] + np.finfo(float).tiny
        share = part / part.sum(axis=2, keepdims=True)
        found[:, :, among] += counts[:, :, symbol, None] * share
    return found


def settled(counts: Floats, mass: Floats, allowed: Bools, precision: Floats) -> Floats:
    """Counts of symbols as counts of labels when no emissions are known yet.

    A coarse vote that allows the truth says the truth; else it is spread as labels are. A vote
    that may be O ("not PER") tells something only if the source could have said PER: where it is
    wrong, it is presumed to be wrong once in 1 / (1 - precision) times that it could be.
    counts (K, L, S) [source, truth, said], mass (L,) how often labels are true, allowed (S, L),
    precision (K,) -> (K, L, L)
    """
    labels = allowed.shape[1]
    if len(allowed) == labels:
        return counts
    found = folded(counts, np.eye(labels) + _TINY * (mass + 1) / (mass + 1).sum(), allowed)
    odds = precision / np.maximum(1 - precision, _SURE)
    for symbol in range(labels, len(allowed)):
        said = counts[:, :, symbol]
        if allowed[symbol, 0] and said.any():
            against = np.flatnonzero(~allowed[symbol])
            speaks = said.sum(axis=1, keepdims=True) > 0
            found[:, against, against] += speaks * (said[:, against] + 1) * odds[:, None]
    return found


def fillings(
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
    >>> [(w, x.tolist()) for w, x in fillings(labels, symbols, allowed, np.array([0, 5]))]
    [(0.5, [1, 0, 1, 3, 0]), (0.5, [1, 0, 3, 3, 0])]
    """
    heard = symbols > 0
    labels = extended(labels, heard & (symbols % 2 == 0), offsets)
    places = np.flatnonzero(heard & (labels == 0))
    if not len(places):
        return [(1.0, labels)]
    kinds = allowed[:, 1::2] | allowed[:, 2::2]
    begun = np.bincount(labels[labels % 2 == 1] // 2, minlength=kinds.shape[1])
    used = np.unique(symbols[places])
    open_to = np.logical_or.reduce(kinds[used], axis=0)
    weights = np.where(open_to, begun if (begun * open_to).any() else 1, 0)
    usual = np.argmax(np.where(kinds, begun + 1, 0), axis=1)
    first = np.zeros(len(labels), bool)
    first[offsets[:-1][np.diff(offsets) > 0]] = True
    found = []
    for kind in np.flatnonzero(weights):
        chosen = np.where(kinds[symbols[places], kind], kind, usual[symbols[places]])
        filled = labels.copy()
        filled[places] = 2 * chosen + 1 + (symbols[places] % 2 == 0)
        types = (filled + 1) // 2
        stray = (filled[places] % 2 == 0) & (first[places] | (types[places] != types[places - 1]))
        filled[places[stray]] -= 1
        found.append((float(weights[kind] / weights.sum()), filled))
    return found
