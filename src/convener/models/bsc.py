"""Bayesian sequence combination: a Markov chain of true labels, and sources whose votes depend on their last vote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.config import check_min, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.errors import DataError
from convener.inference.chain import default_log_initial, expected_counts, safe_log
from convener.inference.counts import transition_counts
from convener.inference.decoding import decode
from convener.inference.evidence import SparseVotes, expected_emission_counts, log_evidence, sparsify_votes
from convener.models.base import LabelModel, warn_unused_sources
from convener.models.em import EMConfig, run_em
from convener.models.fitted import Params
from convener.models.majority_vote import baseline_labels

MAX_LABELS = 181
"""Maximum number of symbols: they are int16."""
# Weight in the prior of a source's own votes after the same last vote; pseudo-count of votes that never occur.
_HABIT_VOTES, _TINY = 1.0, 1e-2
POOLED_VOTES, DIAGONAL_VOTES = 5.0, 5.0
"""Prior votes of each row: distributed as the votes of all sources, and for the true label. They matter only for rows
in which a source has few votes."""
FALSE_SPANS = 10.0
"""Number of false spans that each source is assumed to have, unless its precision is known. The initial labels come
from the votes, so they show few of the errors of a source."""
Floats = NDArray[np.float64]


def with_previous_vote(votes: NDArray[np.int16], offsets: NDArray[np.int64], num_labels: int) -> NDArray[np.int16]:
    """Pairs of last and current vote as symbols; -1 where a source abstains.  -> (N, K)

    votes (N, K), offsets (M+1,). Before a sentence, and after an abstention, the last vote is O.
    """
    previous = np.zeros_like(votes)
    previous[1:] = np.maximum(votes[:-1], 0)
    previous[offsets[:-1][np.diff(offsets) > 0]] = 0
    return np.where(votes < 0, np.int16(-1), previous * np.int16(num_labels) + votes)


def history_evidence(votes: SparseVotes, log_emission: Floats, *, num_threads: int = 1) -> Floats:
    """Sum of log-probabilities over the sources that did not abstain.  -> (N, L)

    log_emission (K, L, L, L) [source, true label, last vote, vote].
    """
    num_sources, num_labels = log_emission.shape[:2]
    flat = log_emission.reshape(num_sources, num_labels, -1)
    evidence: Floats = log_evidence(votes, flat, dtype=np.float64, num_threads=num_threads)
    return evidence


def history_counts(votes: SparseVotes, marginals: Floats, *, num_threads: int = 1) -> Floats:
    """Expected counts of votes by source, true label and last vote.  -> (K, L, L, L)

    marginals (N, L)
    """
    num_labels = marginals.shape[1]
    counts = expected_emission_counts(votes, marginals, num_symbols=num_labels * num_labels, num_threads=num_threads)
    return counts.reshape(-1, num_labels, num_labels, num_labels)


def prior_counts(
    counts: Floats,
    weights: Floats,
    *,
    false_votes: Floats,
) -> Floats:
    """Prior counts, from the counts given the labels of a simple vote.  (K, L, L, L) -> the same shape

    Every row (source, true label, last vote) gets POOLED_VOTES distributed as those of all sources, DIAGONAL_VOTES
    for the true label, and one vote distributed as those of the source after such a last vote, whatever the true
    label: continuing a span, correct or not, is no new information. Where the true label is O, `false_votes` (K,)
    false spans are added, of the types that the source marks. Sources with `weights` (K,) keep that multiple of their
    own counts, and are assumed to end their spans where these end as often as they mark any: the labels of a simple
    vote contain no span that is too long. They get DIAGONAL_VOTES only for labels that they vote for.
    """
    num_labels = counts.shape[1]
    pooled_counts = counts.sum(axis=0)
    pooled_transition = _normalize_rows(pooled_counts.sum(axis=0) + _TINY)
    source_transition = _normalize_rows(counts.sum(axis=1) + pooled_transition)
    prior: Floats = _HABIT_VOTES * source_transition[:, None] + POOLED_VOTES * _normalize_rows(
        pooled_counts + pooled_transition
    )
    knows = (weights == 0)[:, None] | counts.any(axis=(1, 2))
    prior += DIAGONAL_VOTES * knows[:, :, None, None] * np.eye(num_labels)[:, None]
    begin_counts = counts[:, :, 0, 1:].sum(axis=1) + _TINY / num_labels
    prior[:, 0, 0, 1:] += false_votes[:, None] * _normalize_rows(begin_counts)
    prior[:, 0, 1:, 0] += weights[:, None] * counts[:, :, 1:].sum(axis=(1, 3))
    return prior + weights[:, None, None, None] * counts


def _normalize_rows(counts: Floats) -> Floats:
    probs: Floats = counts / counts.sum(axis=-1, keepdims=True)
    return probs


Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class BSCConfig(EMConfig):
    """Settings of Bayesian sequence combination."""

    init_labels: Literal["union", "majority"] | None = None
    """Initial labels: the union of all spans, longest first, or majority vote by type. By default the union if
    all sources have unmarked="abstain", since each of them misses most entities."""
    prior_strength: float = 20.0
    """Weight of the initial counts as a prior, as a multiple, at least 0. It applies to labeling functions (sources
    with unmarked="abstain"): they are seldom independent, and maximum likelihood alone loses recall. 0 switches it
    off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "prior_strength")


class BSCCounts(NamedTuple):
    """Counts of transitions and of votes."""

    transition: Array
    """(L, L)"""
    emission: Array
    """(K, L, L, L) [source, true label, last vote, vote]"""

    def add(self, other: BSCCounts) -> BSCCounts:
        """The sum of both counts."""
        return BSCCounts(self.transition + other.transition, self.emission + other.emission)

    def log_probs(self) -> BSCCounts:
        """Log-probabilities of transitions, -inf for those without counts, and of votes."""
        transition = self.transition / self.transition.sum(axis=1, keepdims=True)
        return BSCCounts(safe_log(transition), np.log(self.emission / self.emission.sum(axis=3, keepdims=True)))


class BSC(LabelModel):
    """The true labels are a Markov chain, and a vote depends on the true label and on the source's last vote.

    p(x, z) = prod_t Psi[z(t-1), z(t)] prod_k W[k, z(t), x_k(t-1), x_k(t)]. Abstentions drop out; the vote before a
    sentence is O. A source marks spans, not tokens: given its last vote, continuing a span or leaving further tokens
    unmarked is hardly new evidence. EM finds Psi and W under Dirichlet priors (the mode, where the paper uses
    variational Bayes): one count for each legal transition; for W the votes of all sources, the diagonal, and false
    spans.

    Simpson and Gurevych, 2019: A Bayesian approach for sequence tagging with crowds. EMNLP, 1093
    (its worker model "seq").

    >>> name, none = [(0, 2, "PER")], []
    >>> votes = {
    ...     "careful": [name, none] * 9,
    ...     "also careful": [name, none] * 9,
    ...     "short": [[(0, 1, "PER")], none] * 9,
    ...     "spammer": [none, [(2, 3, "PER")]] * 9,
    ... }
    >>> words = [["Ada", "Lovelace", "wrote"], ["It", "ran", "well"]] * 9
    >>> data = Dataset.from_spans(["PER"], words, votes, unmarked="outside")
    >>> BSC().fit(data).predict(data).tags()[:2]
    [['B-PER', 'I-PER', 'O'], ['O', 'O', 'O']]
    """

    Config = BSCConfig
    config: BSCConfig
    summary = "Bayesian sequence combination: a vote depends on the true label and the source's last vote"

    @init_with(BSCConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Run EM from the labels of a simple vote; the counts of an earlier fit are a prior."""
        warn_unused_sources(train, self.name)
        vote_pairs, config = self._vote_pairs(train), self.config
        if previous is None:
            initial = self._initial_counts(train, vote_pairs)
            prior = self._prior_counts(train, initial)
        else:
            initial = prior = BSCCounts(**previous)
        log_initial, allowed = default_log_initial(len(train.tags)), prior.transition > 0

        def step(counts: BSCCounts) -> tuple[BSCCounts, float]:
            log_probs = counts.log_probs()
            evidence = history_evidence(vote_pairs, log_probs.emission, num_threads=config.num_threads)
            expected = expected_counts(
                log_initial,
                log_probs.transition,
                evidence,
                train.offsets,
                num_threads=config.num_threads,
            )
            value = expected.log_likelihood.sum() + (prior.emission * log_probs.emission).sum()
            value += (prior.transition[allowed] * log_probs.transition[allowed]).sum()
            observed = BSCCounts(
                expected.transition_counts * allowed,
                history_counts(vote_pairs, expected.marginals, num_threads=config.num_threads),
            )
            return prior.add(observed), float(value) / max(1, len(train.tokens))

        best, trace = run_em(step, prior.add(initial), name=self.name, config=config)
        return best._asdict(), trace.diagnostics()

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """Viterbi labels, marginals, and exact posteriors of the predicted spans."""
        log_probs = BSCCounts(**params).log_probs()
        evidence = history_evidence(
            self._vote_pairs(data), log_probs.emission, num_threads=self.config.num_threads
        ).astype(np.float32)
        return decode(log_probs.transition, evidence, data, self.config.num_threads)

    def _vote_pairs(self, data: Dataset) -> SparseVotes:
        num_labels = len(data.tags)
        if num_labels > MAX_LABELS:
            raise DataError(f"{self.name} takes at most {MAX_LABELS // 2} entity types, got {len(data.tags.types)}")
        return sparsify_votes(with_previous_vote(data.votes, data.offsets, num_labels))

    def _initial_counts(self, data: Dataset, vote_pairs: SparseVotes) -> BSCCounts:
        """Counts given the labels of a simple vote."""
        num_labels, labels = len(data.tags), baseline_labels(data, self.config.init_labels)
        transition = transition_counts(labels, data.offsets, num_labels)
        return BSCCounts(transition, history_counts(vote_pairs, np.eye(num_labels)[labels]))

    def _prior_counts(self, data: Dataset, initial: BSCCounts) -> BSCCounts:
        """Prior counts; illegal transitions have none."""
        strengths = np.where(data.unmarked_is_abstain(), self.config.prior_strength, 0.0)
        # The counts enter with weight `strengths` as a prior, and once more as observations.
        num_spans = (1 + strengths) * initial.emission[:, :, 0, 1:].sum(axis=(1, 2))
        precision = data.prior_precision_or(np.nan)
        emission = prior_counts(
            initial.emission,
            strengths,
            false_votes=np.where(np.isnan(precision), FALSE_SPANS, num_spans * (1 / precision - 1)),
        )
        return BSCCounts(data.tags.legal_transitions * (1 + strengths.mean() * initial.transition), emission)
