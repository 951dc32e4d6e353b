"""Bayesian sequence combination: a chain of true labels, and sources that remember."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError
from convener.kernels.chain import expected_counts
from convener.kernels.evidence import SparseVotes, sparse_votes
from convener.kernels.history import (
    MOST_LABELS,
    pair_counts,
    pair_evidence,
    pair_votes,
    presumed_counts,
)
from convener.kernels.priors import move_counts
from convener.models.base import EMConfig, Inference, LabelModel, Params, warn_of_silent_sources
from convener.models.majority_vote import simple_labels
from convener.settings import at_least
from convener.train.chain import decoded, log_begin, log_of
from convener.train.em import maximise

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class BSCConfig(EMConfig):
    """Settings of Bayesian sequence combination."""

    start: Literal["union", "majority"] | None = None
    """Labels to start from: the union of all spans, longest first, or majority vote by type. By
    default the union where every source's silence is O, since each of them misses most."""
    prior: float = 20.0
    """Weight of the start beside what is learned, for sources whose silence is O: they are seldom
    independent, and likelihood alone drives recall away. The others have none."""
    false_votes: float = 10.0
    """Spans that each source is presumed to have invented, unless its precision is known."""
    pooled: float = 5.0
    """Votes that each row has beforehand, spread as all sources together speak there."""
    diagonal: float = 5.0
    """Votes that each row has beforehand for what is true."""
    threads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "threads")
        at_least(self, 0, "prior", "false_votes", "pooled", "diagonal")


class Counts(NamedTuple):
    """How often labels follow each other, and what sources say where."""

    moves: Array
    """(L, L)"""
    votes: Array
    """(K, L, L, L) [source, true, last, said]"""

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(self.moves + other.moves, self.votes + other.votes)

    def logs(self) -> Counts:
        """Log-probabilities of moves, -inf for those never made, and of votes."""
        moves = self.moves / self.moves.sum(axis=1, keepdims=True)
        return Counts(log_of(moves), np.log(self.votes / self.votes.sum(axis=3, keepdims=True)))


class BSC(LabelModel):
    """The truth is a Markov chain, and what a source says depends on what it said before.

    p(x, z) = prod_t Psi[z(t-1), z(t)] prod_k W[k, z(t), x_k(t-1), x_k(t)], abstaining sources left
    out; before a sentence stands O. A source marks spans, not tokens: given its last label, going
    on with a span, or with silence, is hardly new evidence, so each is counted once. EM finds the
    best Psi and W under Dirichlet priors (the mode, where the paper has variational Bayes): one
    count for each legal move; for W what all sources do, the diagonal, and invented spans.

    Simpson and Gurevych, 2019: A Bayesian approach for sequence tagging with crowds. EMNLP, 1093
    (its worker model "seq").

    >>> name, none = [(0, 2, "PER")], []
    >>> said = {
    ...     "careful": [name, none] * 9,
    ...     "also careful": [name, none] * 9,
    ...     "short": [[(0, 1, "PER")], none] * 9,
    ...     "spammer": [none, [(2, 3, "PER")]] * 9,
    ... }
    >>> words = [["Ada", "Lovelace", "wrote"], ["It", "ran", "well"]] * 9
    >>> data = Dataset.from_spans(["PER"], words, said, silence="abstain")
    >>> BSC().fit(data).predict(data).tags()[:2]
    [['B-PER', 'I-PER', 'O'], ['O', 'O', 'O']]
    """

    Config = BSCConfig
    summary = "Bayesian sequence combination: a chain, and sources that remember their last label"

    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """EM from the labels of a simple vote; an earlier fit's counts are kept."""
        warn_of_silent_sources(train, self.name)
        pairs, config = self._pairs(train), self.config
        if start is None:
            first = self._first(train, pairs)
            prior = self._prior(train, first)
        else:
            first = prior = Counts(start["moves"], start["votes"])
        begin, possible = log_begin(len(train.tags)), prior.moves > 0

        def step(counts: Counts) -> tuple[Counts, float]:
            logs = counts.logs()
            evidence = pair_evidence(pairs, logs.votes, threads=config.threads)
            found = expected_counts(
                begin, logs.moves, evidence, train.offsets, threads=config.threads
            )
            value = found.log_likelihood.sum() + (prior.votes * logs.votes).sum()
            value += (prior.moves[possible] * logs.moves[possible]).sum()
            seen = Counts(
                found.transitions * possible,
                pair_counts(pairs, found.marginals, threads=config.threads),
            )
            return prior.plus(seen), float(value) / max(1, len(train.tokens))

        best, trace = maximise(
            step,
            prior.plus(first),
            name=self.name,
            limits=config,
        )
        return best._asdict() | trace.curve()

    def infer(self, params: Params, data: Dataset) -> Inference:
        """Best paths, marginals, and exact probabilities of the spans found."""
        logs = Counts(params["moves"], params["votes"]).logs()
        evidence = pair_evidence(self._pairs(data), logs.votes, threads=self.config.threads).astype(
            np.float32
        )
        return Inference(*decoded(logs.moves, evidence, data, self.config.threads))

    def _pairs(self, data: Dataset) -> SparseVotes:
        size = len(data.tags)
        if size > MOST_LABELS:
            raise DataError(
                f"{self.name} takes at most {MOST_LABELS // 2} entity types, "
                f"got {len(data.tags.types)}"
            )
        return sparse_votes(pair_votes(data.votes, data.offsets, size))

    def _first(self, data: Dataset, pairs: SparseVotes) -> Counts:
        """Counts by the labels of a simple vote."""
        size, labels = len(data.tags), simple_labels(data, self.config.start)
        moves = move_counts(labels, data.offsets, size)
        return Counts(moves, pair_counts(pairs, np.eye(size)[labels]))

    def _prior(self, data: Dataset, first: Counts) -> Counts:
        """Counts beforehand; moves that BIO forbids have none."""
        config = self.config
        weights = np.where(data.quiet(), config.prior, 0.0)
        # Counts weigh so much and once more, as what is seen.
        spans = (1 + weights) * first.votes[:, :, 0, 1:].sum(axis=(1, 2))
        known = data.presumed(np.nan)
        votes = presumed_counts(
            first.votes,
            weights,
            false_votes=np.where(np.isnan(known), config.false_votes, spans * (1 / known - 1)),
            pooled=config.pooled,
            diagonal=config.diagonal,
        )
        return Counts(data.tags.legal.astype(np.float64), votes)
