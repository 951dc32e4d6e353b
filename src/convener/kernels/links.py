"""Links between neighbouring tokens as part of a chain's moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def same_label(size: int) -> NDArray[np.bool_]:
    """Which moves keep two tokens together: into I-x within a span, or from O to O.  -> (L, L)"""
    same = np.zeros((size, size), bool)
    same[0, 0] = True
    for begin in range(1, size, 2):
        same[begin : begin + 2, begin + 1] = True
    return same


def extended(
    labels: NDArray[np.int16], linked: NDArray[np.bool_], offsets: NDArray[np.int64]
) -> NDArray[np.int16]:
    """Labels whose spans have grown over the tokens linked to them.

    labels (N,) BIO, linked (N,) to the token before -> (N,)
    """
    result = labels.copy()
    heard = linked.copy()
    heard[offsets[:-1][np.diff(offsets) > 0]] = False
    places = np.flatnonzero(heard).tolist()
    for token in places:
        if result[token] == 0 and result[token - 1] > 0:
            result[token] = result[token - 1] + result[token - 1] % 2
    for token in reversed(places):
        if result[token] % 2 == 1 and result[token - 1] == 0:
            result[token - 1] = result[token]
            result[token] += 1
    return result


def link_evidence(links: NDArray[np.bool_], accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much the links at each token speak for staying together, in nats.

    links (N, J), accuracy (J,) -> (N, 2): log p(links | together), log p(links | apart)
    """
    return np.stack([links @ np.log(accuracy), links @ np.log1p(-accuracy)], axis=1)


def linked_moves(
    moves: NDArray[np.float64],
    evidence: NDArray[np.float64],
    log_like: NDArray[np.float32],
    offsets: NDArray[np.int64],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Moves and evidence of the chain p(z(t) | z(t-1)) p(links(t) | z(t-1), z(t)) p(x(t) | z(t)).

    moves (L, L) probabilities, evidence (N, 2), log_like (N, L).  Logits are normalised by row
    when they are used; what a row loses by that is given to the evidence of the token before, so
    that the product is exact.  A link at a sentence's first token has nothing to link and is
    not heard.  -> logits (N, L, L), evidence (N, L)
    """
    first = offsets[:-1][np.diff(offsets) > 0]
    heard = evidence.astype(np.float32)
    heard[first] = 0
    with np.errstate(divide="ignore"):
        logits = np.log(moves).astype(np.float32) + np.where(
            same_label(len(moves)), heard[:, :1, None], heard[:, 1:, None]
        )
    top = logits.max(axis=2)
    rows = top + np.log(np.exp(logits - top[:, :, None]).sum(axis=2))
    like = log_like.copy()
    like[:-1] += rows[1:]
    last = offsets[1:][np.diff(offsets) > 0] - 1
    inner = last[last + 1 < len(like)]
    like[inner] = log_like[inner]  # the next row belongs to another sentence
    return logits, like
