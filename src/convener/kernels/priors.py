"""Starting values of chain models: counted from labels of a simple vote, or as in the paper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_FALSE = 0.05
"""The share of its votes that a source is charged with at most: small corpora have few."""
LEAST_SILENCE = 0.1
"""A silence always counts for a little: most tokens are O."""

WORTH = 40.0
"""Least concentration where all lone marks are false; a twenty-fifth of the usual nu_expan."""


def move_counts(
    labels: NDArray[np.int16], offsets: NDArray[np.int64], size: int
) -> NDArray[np.float64]:
    """How often each label follows each other one; before a sentence stands O.  -> (L, L)

    labels (N,), or votes (N, K), of which pairs with an abstention are left out.
    """
    before = np.empty_like(labels)
    before[1:] = labels[:-1]
    before[offsets[:-1][np.diff(offsets) > 0]] = 0
    heard = (before >= 0) & (labels >= 0)
    pairs = before[heard].astype(np.int64) * size + labels[heard]
    return np.bincount(pairs, minlength=size * size).reshape(size, size).astype(np.float64)


def smoothed_emissions(
    counts: NDArray[np.float64],
    *,
    false_votes: float,
    floor: float = 0.5,
    precision: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Counts of what sources say where a vote says the truth is, made fit for a start.

    counts (K, L, L) [source, truth, said]. A vote contains all that its sources say, so by its
    count no source is ever wrong: each is charged with `false_votes` entity votes where the truth
    is O, spread as it speaks, but with no more than `MOST_FALSE` of its votes. Where its precision
    is known (K,), not NaN, just the rest of its votes are there. `floor` votes, spread likewise,
    keep every row from being empty.  -> (K, L, L)
    """
    said = counts.sum(axis=1, keepdims=True)
    if precision is not None:
        counts = _as_precise(counts, precision)
    usual = (said + 1e-3) / (said + 1e-3).sum(axis=2, keepdims=True)
    start: NDArray[np.float64] = counts + floor * usual
    spoken = usual[:, 0, 1:] / usual[:, 0, 1:].sum(axis=1, keepdims=True)
    charged = np.minimum(false_votes, MOST_FALSE * said[:, :, 1:].sum(axis=2))
    if precision is not None:
        charged[~np.isnan(precision)] = 0
    start[:, 0, 1:] += charged * spoken
    return start


def _as_precise(counts: NDArray[np.float64], precision: NDArray[np.float64]) -> NDArray[np.float64]:
    """Counts in which just (1 - precision) of each source's marks are where the truth is O.

    Where the truth is an entity, marks keep their proportions.  (K, L, L), (K,) -> (K, L, L)
    """
    counts = counts.copy()
    for k in np.flatnonzero(~np.isnan(precision)):
        marks = counts[k, :, 1:].sum(axis=0)
        right = counts[k, 1:, 1:] if counts[k, 1:, 1:].any() else np.diag(marks)
        counts[k, 1:, 1:] = right * (precision[k] * marks.sum() / max(right.sum(), 1e-12))
        counts[k, 0, 1:] = (1 - precision[k]) * marks
    return counts


def lone_votes(said: NDArray[np.bool_]) -> tuple[int, float]:
    """How many tokens only one source marks, and how many chance alone would leave so.

    said (N, K): who marks each token of one type, at least one of them each. If all marks were
    right and the sources independent, a token would have a lone mark by chance with
    sum_k r_k / (1 - r_k) prod_j (1 - r_j) / (1 - prod_j (1 - r_j)), r_k being the share of these
    tokens that source k marks. What exceeds that are mostly false marks.
    """
    if not len(said):
        return 0, 0.0
    miss = np.clip(1 - said.mean(axis=0), 1e-9, 1)
    nobody = miss.prod()
    chance = ((1 - miss) / miss).sum() * nobody / max(1 - nobody, 1e-12)
    return int((said.sum(axis=1) == 1).sum()), float(len(said) * min(chance, 1.0))


def silence_weight(votes: NDArray[np.int16], labels: NDArray[np.int16], types: int) -> float:
    """How much the silence of the others should count against a lone vote, at most 1.

    The share of lone marks that chance does not explain, over all types: low where sources simply
    miss much, near 1 where lone marks are mostly false.  votes (N, K), labels (N,) of a union
    """
    if votes.shape[1] < 2:
        return 1.0
    observed, expected = 0, 0.0
    kinds, spoken = (labels + 1) // 2, (votes + 1) // 2
    for kind in range(1, types + 1):
        said = spoken[kinds == kind] == kind
        seen, chance = lone_votes(said[said.any(axis=1)])
        observed, expected = observed + seen, expected + chance
    return float(np.clip(1 - expected / observed, LEAST_SILENCE, 1)) if observed else 1.0


def least_concentration(votes: NDArray[np.int16], labels: NDArray[np.int16], types: int) -> float:
    """nu_base of Sparse-CHMM, as the votes suggest: the more lone marks are false, the higher.

    It bounds the chance that a source marks what is none, and with it what a mark is worth.
    votes (N, K), labels (N,) of a union
    """
    if votes.shape[1] < 2:
        return 1.0
    return WORTH * silence_weight(votes, labels, types) ** 2


def vote_scores(
    counts: NDArray[np.float64], usual: NDArray[np.float64], *, precision: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How reliable each source is by the labels of a simple vote: the start of its scores.

    counts (K, L, L) [source, truth, said]; usual (K, L) how often it says each label; precision
    (K,). An entity's score is the share of it that the source finds; that of O leaves
    (1 - precision) of the source's marks to be false.  -> (K, L)
    """
    size = counts.shape[1]
    true = counts.sum(axis=2)
    scores: NDArray[np.float64] = counts[:, np.arange(size), np.arange(size)] / np.maximum(true, 1)
    marks = usual[:, 1:].sum(axis=1) / np.maximum(usual.sum(axis=1), 1)
    scores[:, 1:] = np.clip(scores[:, 1:], 0.01, 0.99)
    scores[:, 0] = 1 - (1 - precision) * marks
    return scores


def paper_moves(
    votes: NDArray[np.int16], offsets: NDArray[np.int64], legal: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Psi* as in the paper: neighbouring labels over all sources, one more for each legal move.

    votes (N, K), legal (L, L) -> (L, L)
    """
    counts = move_counts(votes, offsets, len(legal)) + legal
    moves: NDArray[np.float64] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-12)
    return moves


def paper_emissions(usual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Phi* as in the paper, from how often each source says each label (K, L).  -> (K, L, L)

    Diagonal 0.9 for O and 0.7 otherwise; the rest of a row goes to j in proportion to
    (1 - precision_j) (0.001 + share of j), precision 0.8 for O and 0.7 otherwise, five times for
    B and I of one type, twice for labels of one prefix.
    """
    size = usual.shape[1]
    own = np.where(np.arange(size) == 0, 0.9, 0.7)
    wrong = np.where(np.arange(size) == 0, 0.2, 0.3)
    shares = usual / np.maximum(usual.sum(axis=1, keepdims=True), 1)
    kind, prefix = (np.arange(size) + 1) // 2, np.arange(size) % 2
    marked = (np.arange(size)[:, None] > 0) & (np.arange(size) > 0)
    factor = np.where(marked & (kind[:, None] == kind), 5.0, 1.0)
    factor = np.where(marked & (kind[:, None] != kind) & (prefix[:, None] == prefix), 2.0, factor)
    weights = np.repeat((wrong * (0.001 + shares))[:, None], size, axis=1) * factor
    weights[:, np.arange(size), np.arange(size)] = 0
    emissions: NDArray[np.float64] = (
        weights / weights.sum(axis=2, keepdims=True) * (1 - own)[:, None]
    )
    emissions[:, np.arange(size), np.arange(size)] = own
    return emissions
