"""Links between neighbouring tokens as part of a chain's moves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def continues_span(num_labels: int) -> NDArray[np.bool_]:
    """Which moves keep two tokens together: into I-x within a span, or from O to O.  -> (L, L)"""
    same = np.zeros((num_labels, num_labels), bool)
    same[0, 0] = True
    for b_label in range(1, num_labels, 2):
        same[b_label : b_label + 2, b_label + 1] = True
    return same


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


def link_evidence(links: NDArray[np.bool_], accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much the links at each token speak for staying together, in nats.

    links (N, J), accuracy (J,) -> (N, 2): log p(links | together), log p(links | apart)
    """
    return np.stack([links @ np.log(accuracy), links @ np.log1p(-accuracy)], axis=1)


def linked_transition_logits(
    transition: NDArray[np.float64],
    link_log_likelihood: NDArray[np.float64],
    log_evidence: NDArray[np.float32],
    offsets: NDArray[np.int64],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Moves and evidence of the chain p(z(t) | z(t-1)) p(links(t) | z(t-1), z(t)) p(x(t) | z(t)).

    moves (L, L) probabilities, evidence (N, 2), log_like (N, L).  Logits are normalised by row
    when they are used; what a row loses by that is given to the evidence of the token before, so
    that the product is exact.  A link at a sentence's first token has nothing to link and is
    not heard.  -> logits (N, L, L), evidence (N, L)
    """
    first = offsets[:-1][np.diff(offsets) > 0]
    link_terms = link_log_likelihood.astype(np.float32)
    link_terms[first] = 0
    with np.errstate(divide="ignore"):
        logits = np.log(transition).astype(np.float32) + np.where(
            continues_span(len(transition)), link_terms[:, :1, None], link_terms[:, 1:, None]
        )
    top = logits.max(axis=2)
    log_norm = top + np.log(np.exp(logits - top[:, :, None]).sum(axis=2))
    adjusted_evidence = log_evidence.copy()
    adjusted_evidence[:-1] += log_norm[1:]
    last = offsets[1:][np.diff(offsets) > 0] - 1
    inner = last[last + 1 < len(adjusted_evidence)]
    adjusted_evidence[inner] = log_evidence[inner]  # the next row belongs to another sentence
    return logits, adjusted_evidence
