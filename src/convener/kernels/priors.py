"""Starting values of chain models: counted from labels of a simple vote, or as in the paper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_FALSE_VOTE_RATE = 0.05
"""The share of its votes that a source is charged with at most: small corpora have few."""
MIN_UNMARKED_WEIGHT = 0.1
"""A silence always counts for a little: most tokens are O."""

MAX_NU_BASE = 40.0
"""Least concentration where all lone marks are false; a twenty-fifth of the usual nu_expan."""


def transition_counts(labels: NDArray[np.int16], offsets: NDArray[np.int64], num_labels: int) -> NDArray[np.float64]:
    """How often each label follows each other one; before a sentence stands O.  -> (L, L)

    labels (N,), or votes (N, K), of which pairs with an abstention are left out.
    """
    previous = np.empty_like(labels)
    previous[1:] = labels[:-1]
    previous[offsets[:-1][np.diff(offsets) > 0]] = 0
    both_vote = (previous >= 0) & (labels >= 0)
    pairs = previous[both_vote].astype(np.int64) * num_labels + labels[both_vote]
    return np.bincount(pairs, minlength=num_labels * num_labels).reshape(num_labels, num_labels).astype(np.float64)


def smoothed_emission_counts(
    counts: NDArray[np.float64],
    *,
    false_votes: float,
    smoothing: float = 0.5,
    precision: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Counts of what sources say where a vote says the truth is, made fit for a start.

    counts (K, L, L) [source, truth, said]. A vote contains all that its sources say, so by its
    count no source is ever wrong: each is charged with `false_votes` entity votes where the truth
    is O, spread as it speaks, but with no more than `MOST_FALSE` of its votes. Where its precision
    is known (K,), not NaN, just the rest of its votes are there. `floor` votes, spread likewise,
    keep every row from being empty.  -> (K, L, L)
    """
    vote_counts = counts.sum(axis=1, keepdims=True)
    if precision is not None:
        counts = _match_precision(counts, precision)
    vote_distribution = (vote_counts + 1e-3) / (vote_counts + 1e-3).sum(axis=2, keepdims=True)
    smoothed: NDArray[np.float64] = counts + smoothing * vote_distribution
    entity_distribution = vote_distribution[:, 0, 1:] / vote_distribution[:, 0, 1:].sum(axis=1, keepdims=True)
    false_counts = np.minimum(false_votes, MAX_FALSE_VOTE_RATE * vote_counts[:, :, 1:].sum(axis=2))
    if precision is not None:
        false_counts[~np.isnan(precision)] = 0
    smoothed[:, 0, 1:] += false_counts * entity_distribution
    return smoothed


def _match_precision(counts: NDArray[np.float64], precision: NDArray[np.float64]) -> NDArray[np.float64]:
    """Counts in which just (1 - precision) of each source's marks are where the truth is O.

    Where the truth is an entity, marks keep their proportions.  (K, L, L), (K,) -> (K, L, L)
    """
    counts = counts.copy()
    for k in np.flatnonzero(~np.isnan(precision)):
        entity_votes = counts[k, :, 1:].sum(axis=0)
        entity_counts = counts[k, 1:, 1:] if counts[k, 1:, 1:].any() else np.diag(entity_votes)
        counts[k, 1:, 1:] = entity_counts * (precision[k] * entity_votes.sum() / max(entity_counts.sum(), 1e-12))
        counts[k, 0, 1:] = (1 - precision[k]) * entity_votes
    return counts


def count_single_source_tokens(marked: NDArray[np.bool_]) -> tuple[int, float]:
    """How many tokens only one source marks, and how many chance alone would leave so.

    said (N, K): who marks each token of one type, at least one of them each. If all marks were
    right and the sources independent, a token would have a lone mark by chance with
    sum_k r_k / (1 - r_k) prod_j (1 - r_j) / (1 - prod_j (1 - r_j)), r_k being the share of these
    tokens that source k marks. What exceeds that are mostly false marks.
    """
    if not len(marked):
        return 0, 0.0
    miss_rate = np.clip(1 - marked.mean(axis=0), 1e-9, 1)
    all_miss = miss_rate.prod()
    chance = ((1 - miss_rate) / miss_rate).sum() * all_miss / max(1 - all_miss, 1e-12)
    return int((marked.sum(axis=1) == 1).sum()), float(len(marked) * min(chance, 1.0))


def estimate_unmarked_weight(votes: NDArray[np.int16], labels: NDArray[np.int16], num_types: int) -> float:
    """How much the silence of the others should count against a lone vote, at most 1.

    The share of lone marks that chance does not explain, over all types: low where sources simply
    miss much, near 1 where lone marks are mostly false.  votes (N, K), labels (N,) of a union
    """
    if votes.shape[1] < 2:
        return 1.0
    observed, expected = 0, 0.0
    label_types, type_votes = (labels + 1) // 2, (votes + 1) // 2
    for type_index in range(1, num_types + 1):
        marked = type_votes[label_types == type_index] == type_index
        single, chance = count_single_source_tokens(marked[marked.any(axis=1)])
        observed, expected = observed + single, expected + chance
    return float(np.clip(1 - expected / observed, MIN_UNMARKED_WEIGHT, 1)) if observed else 1.0


def estimate_nu_base(votes: NDArray[np.int16], labels: NDArray[np.int16], num_types: int) -> float:
    """nu_base of Sparse-CHMM, as the votes suggest: the more lone marks are false, the higher.

    It bounds the chance that a source marks what is none, and with it what a mark is worth.
    votes (N, K), labels (N,) of a union
    """
    if votes.shape[1] < 2:
        return 1.0
    return MAX_NU_BASE * estimate_unmarked_weight(votes, labels, num_types) ** 2


def initial_reliability(
    counts: NDArray[np.float64], vote_counts: NDArray[np.float64], *, precision: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How reliable each source is by the labels of a simple vote: the start of its scores.

    counts (K, L, L) [source, truth, said]; usual (K, L) how often it says each label; precision
    (K,). An entity's score is the share of it that the source finds; that of O leaves
    (1 - precision) of the source's marks to be false.  -> (K, L)
    """
    num_labels = counts.shape[1]
    label_counts = counts.sum(axis=2)
    scores: NDArray[np.float64] = counts[:, np.arange(num_labels), np.arange(num_labels)] / np.maximum(label_counts, 1)
    marked_share = vote_counts[:, 1:].sum(axis=1) / np.maximum(vote_counts.sum(axis=1), 1)
    scores[:, 1:] = np.clip(scores[:, 1:], 0.01, 0.99)
    scores[:, 0] = 1 - (1 - precision) * marked_share
    return scores


def paper_transition_matrix(
    votes: NDArray[np.int16], offsets: NDArray[np.int64], legal_transitions: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Psi* as in the paper: neighbouring labels over all sources, one more for each legal move.

    votes (N, K), legal (L, L) -> (L, L)
    """
    counts = transition_counts(votes, offsets, len(legal_transitions)) + legal_transitions
    transition: NDArray[np.float64] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-12)
    return transition


def paper_emission_matrix(vote_counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Phi* as in the paper, from how often each source says each label (K, L).  -> (K, L, L)

    Diagonal 0.9 for O and 0.7 otherwise; the rest of a row goes to j in proportion to
    (1 - precision_j) (0.001 + share of j), precision 0.8 for O and 0.7 otherwise, five times for
    B and I of one type, twice for labels of one prefix.
    """
    num_labels = vote_counts.shape[1]
    diagonal = np.where(np.arange(num_labels) == 0, 0.9, 0.7)
    error_rate = np.where(np.arange(num_labels) == 0, 0.2, 0.3)
    vote_shares = vote_counts / np.maximum(vote_counts.sum(axis=1, keepdims=True), 1)
    type_index, prefix = (np.arange(num_labels) + 1) // 2, np.arange(num_labels) % 2
    both_entities = (np.arange(num_labels)[:, None] > 0) & (np.arange(num_labels) > 0)
    factor = np.where(both_entities & (type_index[:, None] == type_index), 5.0, 1.0)
    factor = np.where(
        both_entities & (type_index[:, None] != type_index) & (prefix[:, None] == prefix),
        2.0,
        factor,
    )
    weights = np.repeat((error_rate * (0.001 + vote_shares))[:, None], num_labels, axis=1) * factor
    weights[:, np.arange(num_labels), np.arange(num_labels)] = 0
    emission: NDArray[np.float64] = weights / weights.sum(axis=2, keepdims=True) * (1 - diagonal)[:, None]
    emission[:, np.arange(num_labels), np.arange(num_labels)] = diagonal
    return emission
