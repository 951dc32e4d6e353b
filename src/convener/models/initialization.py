"""Initial transition and emission matrices of chain models, estimated from votes or as in the paper."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.validation import Unmarked
from convener.data.votes import entity_votes
from convener.errors import DataError
from convener.inference import coarse
from convener.inference.counts import transition_counts
from convener.inference.evidence import SparseVotes, expected_emission_counts, sparsify_votes

MAX_FALSE_VOTE_RATE = 0.05
"""At most this share of a source's votes is assumed to be false: small corpora have few votes."""
MIN_UNMARKED_WEIGHT = 0.1
"""Lower bound of the estimated weight of an unmarked token: most tokens are O."""
MAX_NU_BASE = 40.0
"""nu_base where all marks of a single source are false; a twenty-fifth of the default nu_expan."""


def smoothed_emission_counts(
    counts: NDArray[np.float64],
    *,
    false_votes: float,
    smoothing: float = 0.5,
    precision: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Smooth counts of votes by label of a simple vote, so that EM can start from them.  -> (K, L, L)

    counts (K, L, L) [source, label, vote]. A union of all votes agrees with every source, so by its counts no source
    is ever wrong. Therefore each source is assumed to have cast `false_votes` entity votes where the label is O,
    distributed as its votes are, but at most MAX_FALSE_VOTE_RATE of them. Where its precision (K,) is known, not NaN,
    exactly that share of its votes is correct. `smoothing` votes, distributed likewise, keep every row from being
    empty.
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
    """Counts in which exactly (1 - precision) of each source's entity votes have the label O.

    Votes on entities keep their proportions.  (K, L, L), (K,) -> (K, L, L)
    """
    counts = counts.copy()
    for k in np.flatnonzero(~np.isnan(precision)):
        entity_votes = counts[k, :, 1:].sum(axis=0)
        entity_counts = counts[k, 1:, 1:] if counts[k, 1:, 1:].any() else np.diag(entity_votes)
        counts[k, 1:, 1:] = entity_counts * (precision[k] * entity_votes.sum() / max(entity_counts.sum(), 1e-12))
        counts[k, 0, 1:] = (1 - precision[k]) * entity_votes
    return counts


def count_single_source_tokens(marked: NDArray[np.bool_]) -> tuple[int, float]:
    """Number of tokens that only one source marks, and the number expected by chance.

    marked (N, K): which sources mark each token of one type, at least one each. If all marks were correct and the
    sources independent, a token would be marked by a single source with probability
    sum_k r_k / (1 - r_k) prod_j (1 - r_j) / (1 - prod_j (1 - r_j)), where r_k is the share of these tokens that
    source k marks. The excess over that are mostly false marks.
    """
    if not len(marked):
        return 0, 0.0
    miss_rate = np.clip(1 - marked.mean(axis=0), 1e-9, 1)
    all_miss = miss_rate.prod()
    chance = ((1 - miss_rate) / miss_rate).sum() * all_miss / max(1 - all_miss, 1e-12)
    return int((marked.sum(axis=1) == 1).sum()), float(len(marked) * min(chance, 1.0))


def estimate_unmarked_weight(votes: NDArray[np.int16], labels: NDArray[np.int16], num_types: int) -> float:
    """Weight of an unmarked token as a vote for O, in [MIN_UNMARKED_WEIGHT, 1].

    The estimated share of false single-source marks, over all types: low where sources simply miss much, near 1 where
    marks of a single source are mostly false.  votes (N, K), labels (N,) of the union of all spans
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
    """nu_base of Sparse-CHMM: the more single-source marks are false, the higher.

    It bounds the probability of a false mark from below, and so the evidence of a mark from above.
    votes (N, K), labels (N,) of the union of all spans
    """
    if votes.shape[1] < 2:
        return 1.0
    return MAX_NU_BASE * estimate_unmarked_weight(votes, labels, num_types) ** 2


def initial_reliability(
    counts: NDArray[np.float64], vote_counts: NDArray[np.float64], *, precision: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Initial reliability scores of each source, from the labels of a simple vote.  -> (K, L)

    counts (K, L, L) [source, label, vote]; vote_counts (K, L) votes of each source by label; precision (K,). The score
    of an entity label is the recall of the source; the score of O leaves (1 - precision) of its entity votes to be
    false.
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
    """Psi* of the paper (3.3.1): counts of neighbouring votes over all sources, plus one per legal transition.

    votes (N, K), legal_transitions (L, L) -> (L, L)
    """
    counts = transition_counts(votes, offsets, len(legal_transitions)) + legal_transitions
    transition: NDArray[np.float64] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-12)
    return transition


def paper_emission_matrix(vote_counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Phi* of the paper (3.3.1), from the number of votes of each source by label (K, L).  -> (K, L, L)

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


Floats = NDArray[np.float64]
Labels = NDArray[np.int16]
WeightedLabels = list[tuple[float, Labels]]
"""Alternative labelings of all tokens, with weights that sum to one."""


def complete_coarse_spans(data: Dataset, labels: Labels) -> WeightedLabels:
    """Labels of a simple vote, completed where only coarse votes mark a span: one labeling per type they allow."""
    if not data.coarse:
        return [(1.0, labels)]
    symbols, num_labels = np.zeros(len(labels), np.int16), len(data.fine_tags)
    for column, marked in zip(data.votes.T, entity_votes(data).T, strict=True):
        np.copyto(symbols, column, where=marked & (column >= num_labels) & (symbols == 0))
    return coarse.complete_coarse_spans(labels, symbols, data.allowed_labels(), data.offsets)


def mean_transition_counts(data: Dataset, weighted_labels: WeightedLabels) -> Floats:
    """Expected counts of transitions between labels.  -> (L, L)"""
    num_labels = len(data.fine_tags)
    return sum(
        (weight * transition_counts(labels, data.offsets, num_labels) for weight, labels in weighted_labels),
        start=np.zeros((num_labels, num_labels)),
    )


def mean_label_probabilities(data: Dataset, weighted_labels: WeightedLabels) -> NDArray[np.float32]:
    """Probability of each label at each token.  -> (N, L)"""
    one_hot = np.eye(len(data.fine_tags), dtype=np.float32)
    probabilities = one_hot[weighted_labels[0][1]] * np.float32(weighted_labels[0][0])
    for weight, labels in weighted_labels[1:]:
        probabilities[np.arange(len(probabilities)), labels] += np.float32(weight)
    return probabilities


def emission_counts(
    data: Dataset,
    weighted_labels: WeightedLabels,
    *,
    default_precision: float,
    votes: SparseVotes | None = None,
) -> Floats:
    """Counts of votes by source and label, with coarse votes assigned to the labels they allow.  -> (K, L, L)

    default_precision: precision of sources whose own is not known.
    """
    allowed, probabilities = data.allowed_labels(), mean_label_probabilities(data, weighted_labels)
    votes = sparsify_votes(data.votes) if votes is None else votes
    counts = expected_emission_counts(votes, probabilities, num_symbols=len(allowed))
    label_counts = probabilities.sum(axis=0, dtype=np.float64)
    return coarse.assign_coarse_counts(counts, label_counts, allowed, data.prior_precision_or(default_precision))


def add_source(data: Dataset, name: str, labels: NDArray[np.int16], unmarked: Unmarked) -> Dataset:
    """The data with these labels as the votes of an additional, last source."""
    votes = np.concatenate([data.votes, labels[:, None]], axis=1)
    return data.with_sources((*data.sources, name), votes, (*data.unmarked, unmarked))


NEGATIVE_VOTE_PRECISION = 0.95
"""Assumed precision of a negative vote such as "not PER", which cannot be estimated from votes."""
PRESUMED_PRECISION = 0.9
"""Assumed precision of sources without a prior precision, in the initial emissions of `chmm`, `dws`, `connet` and
`neural-hidden-crf`. It is not a setting: a known precision belongs to the data (`Dataset.prior_precision`)."""


def paper_transition(data: Dataset) -> Floats:
    """Psi* of the paper, the target of Eq. (7).  -> (L, L)"""
    data = data.without_coarse()
    return paper_transition_matrix(data.votes, data.offsets, data.tags.legal_transitions)


def paper_emission(data: Dataset) -> Floats:
    """Phi* of the paper, the target of Eq. (7).  -> (K, L, L)"""
    labels = range(len(data.fine_tags))
    vote_counts = np.stack([(data.votes == label).sum(axis=0) for label in labels], axis=1)
    return paper_emission_matrix(vote_counts.astype(np.float64))


def transition_from_votes(data: Dataset, weighted_labels: WeightedLabels) -> Floats:
    """Transitions between the labels of a simple vote, plus one per legal transition.  -> (L, L)"""
    return normalize_rows(mean_transition_counts(data, weighted_labels) + data.fine_tags.legal_transitions)


def emission_from_votes(data: Dataset, weighted_labels: WeightedLabels) -> Floats:
    """Emissions of each source given the labels of a simple vote.  -> (K, L, L)

    A union of all votes agrees with every source, so by its counts no source is ever wrong. Instead, (1 - precision)
    of a source's entity votes are assumed to have the label O, with its own precision where that is known.
    """
    counts = emission_counts(data, weighted_labels, default_precision=PRESUMED_PRECISION)
    emission = normalize_rows(smoothed_emission_counts(counts, false_votes=0.0))
    vote_frequencies = counts.sum(axis=1)
    vote_frequencies /= np.maximum(vote_frequencies.sum(axis=1, keepdims=True), 1)
    emission[:, 0] = (1 - data.prior_precision_or(PRESUMED_PRECISION))[:, None] * vote_frequencies
    emission[:, 0, 0] = 1 - emission[:, 0, 1:].sum(axis=1)
    return emission


def emission_from_gold(data: Dataset) -> Floats:
    """Emissions of each source given the gold labels (Phi true, 3.3.3), smoothed by half a vote.  -> (K, L, L)"""
    if data.gold is None:
        raise DataError("emissions from gold need gold labels; the data has none")
    counts = emission_counts(data, [(1.0, data.gold)], default_precision=NEGATIVE_VOTE_PRECISION)
    return normalize_rows(smoothed_emission_counts(counts, false_votes=0.0))


def network_sizes(data: Dataset) -> tuple[int, int, int]:
    """Dimension of the features, number of sources, number of labels."""
    input_dim = 0 if data.features is None else data.features.dim
    return input_dim, len(data.sources), len(data.fine_tags)


def normalize_rows(counts: Floats) -> Floats:
    """Divide each row by its sum."""
    rows: Floats = counts / counts.sum(axis=-1, keepdims=True)
    return rows
