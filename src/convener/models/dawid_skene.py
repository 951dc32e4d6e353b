"""Dawid-Skene: one confusion matrix per source, estimated by EM."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.config import check_min, check_range, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.inference import evidence
from convener.inference.evidence import expected_emission_counts, sparsify_votes
from convener.inference.voting import odds
from convener.models.base import LabelModel, warn_unused_sources
from convener.models.em import EMConfig, labels_from_classes, run_em
from convener.models.fitted import Params
from convener.models.initialization import estimate_unmarked_weight
from convener.models.majority_vote import DEFAULT_PRECISION, initial_labels

Array = NDArray[np.float64]
DIAGONAL_VOTES, UNIFORM_VOTES = 1.0, 0.1
"""Prior votes of each row of a confusion matrix: on its diagonal, and spread evenly over all classes. They decide only
where a source has hardly any vote."""


@dataclass(frozen=True, kw_only=True)
class DawidSkeneConfig(EMConfig):
    """Settings of Dawid-Skene."""

    scheme: Literal["io", "bio"] = "io"
    """Classes are O and the entity types, with runs of a type as spans ("io"), or the BIO labels ("bio")."""
    max_iter: int = 100
    unmarked_weight: float | None = None
    """Weight of an unmarked token as a vote for O, for labeling functions (sources with unmarked="abstain"), in (0, 1].
    1 counts it as a full vote, as in the plain model. By default it is the estimated share of false single-source
    marks, since sources miss the same entities."""
    prior_strength: float = 1.0
    """Weight of the initial counts, each source against the majority, as a prior in every M step: a multiple, at least
    0. It applies to labeling functions (sources with unmarked="abstain"): they are seldom independent, and their
    unmarked tokens do not tell how frequent entities are. 0 switches it off."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "prior_strength")
        check_range(self, "(0, 1]", "unmarked_weight")


class ConfusionCounts(NamedTuple):
    """Expected counts of the classes (C,), and of votes by source and true class."""

    classes: Array
    confusion: Array
    """(K, C, C) [source, true class, vote]"""

    def add(self, other: ConfusionCounts) -> ConfusionCounts:
        """The sum of both counts."""
        return ConfusionCounts(self.classes + other.classes, self.confusion + other.confusion)

    def log_probs(self) -> ConfusionCounts:
        """Log-probabilities of classes and of votes."""
        row_sums = self.confusion.sum(axis=2, keepdims=True)
        return ConfusionCounts(np.log(self.classes / self.classes.sum()), np.log(self.confusion / row_sums))


class DawidSkene(LabelModel):
    """Dawid-Skene model: tokens are independent, and every source has a confusion matrix.

    The true class of a token is z ~ pi; source k votes j with probability C[k, z, j]:
    p(z = i | votes) ~ pi[i] prod_k C[k, i, vote_k]^w. The E step computes this posterior; the M step re-estimates pi
    and C from expected counts plus a Dirichlet prior that favours the diagonal. Abstentions drop out of the product.
    The weight w is 1 for a vote and `unmarked_weight` for a token that a labeling function (a source with
    unmarked="abstain") leaves unmarked: many sources that mark nothing are not as many independent votes for O.

    Dawid and Skene, 1979: Maximum likelihood estimation of observer error-rates using the EM
    algorithm. Journal of the Royal Statistical Society C 28(1), 20-28.

    >>> name, none = [(0, 1, "PER")], []
    >>> votes = {
    ...     "careful": [name, none, name, none] * 9,
    ...     "also careful": [name, none, name, none] * 8 + [none, none, name, none],
    ...     "fair": [name, none, none, none] * 9,
    ...     "spammer": [none, name, none, name] * 9,
    ... }
    >>> words = [["Ada"], ["wrote"], ["Grace"], ["ran"]] * 9
    >>> data = Dataset.from_spans(["PER"], words, votes, unmarked="outside")
    >>> DawidSkene().fit(data).predict(data).tags()[:4]
    [['B-PER'], ['O'], ['B-PER'], ['O']]
    """

    Config = DawidSkeneConfig
    config: DawidSkeneConfig
    summary = "one confusion matrix per source; tokens are independent"

    @init_with(DawidSkeneConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Run EM from the shares of the votes; the counts of an earlier fit are a prior."""
        warn_unused_sources(train, self.name)
        if previous is None:
            unmarked_weight = self._unmarked_weight(train)
        else:
            unmarked_weight = previous["unmarked_weight"]
        votes, weights = sparsify_votes(self._class_votes(train)), self._vote_weights(train, unmarked_weight)
        num_threads = self.config.num_threads

        def count(posterior: Array) -> ConfusionCounts:
            counts = expected_emission_counts(votes, posterior, num_threads=num_threads)
            return ConfusionCounts(posterior.sum(axis=0), weights * counts)

        if previous is None:
            initial = count(self._vote_shares(train))
            prior = self._prior_counts(train, initial, weights)
        else:
            initial = prior = ConfusionCounts(previous["classes"], previous["confusion"])

        def step(counts: ConfusionCounts) -> tuple[ConfusionCounts, float]:
            log_probs = counts.log_probs()
            posterior, value = evidence.class_posterior(
                votes, weights * log_probs.confusion, log_probs.classes, num_threads=num_threads
            )
            value += float((prior.classes * log_probs.classes).sum() + (prior.confusion * log_probs.confusion).sum())
            return prior.add(count(posterior)), value / max(1, len(train.tokens))

        best, trace = run_em(step, prior.add(initial), name=self.name, config=self.config)
        return best._asdict() | {"unmarked_weight": unmarked_weight}, trace.diagnostics()

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """The most probable class of each token; runs of a type are spans."""
        log_probs = ConfusionCounts(params["classes"], params["confusion"]).log_probs()
        posterior, _ = evidence.class_posterior(
            sparsify_votes(self._class_votes(data)),
            self._vote_weights(data, params["unmarked_weight"]) * log_probs.confusion,
            log_probs.classes,
            num_threads=self.config.num_threads,
        )
        # Tokens are independent: where no source has an opinion, there is no evidence of an entity.
        has_opinion = np.logical_or.reduce(data.informative_votes(), axis=1)
        posterior[~has_opinion] = np.eye(self._num_classes(data))[0]
        best_class = evidence.most_probable_class(posterior)
        return labels_from_classes(best_class, posterior, data, self.config.scheme)

    def _class_votes(self, data: Dataset) -> NDArray[np.int16]:
        """Votes as classes.  -> (N, K)"""
        return evidence.to_type_votes(data.votes) if self.config.scheme == "io" else data.votes

    def _num_classes(self, data: Dataset) -> int:
        return 1 + len(data.tags.types) if self.config.scheme == "io" else len(data.tags)

    def _vote_shares(self, data: Dataset) -> Array:
        """Shares of the votes at each token, weighted by the odds that they are correct.  -> (N, C)"""
        votes = np.where(data.informative_votes(), self._class_votes(data), np.int16(-1))
        weights = odds(data.prior_precision_or(DEFAULT_PRECISION)) / odds(np.array([DEFAULT_PRECISION]))
        return evidence.vote_shares(votes, self._num_classes(data), weights)

    def _unmarked_weight(self, data: Dataset) -> Array:
        """Weight of an unmarked token of a labeling function.  -> ()"""
        weight = self.config.unmarked_weight
        if weight is None:
            marking = data.unmarked_is_abstain()
            labels = initial_labels(data, None)
            weight = estimate_unmarked_weight(data.votes[:, marking], labels, len(data.tags.types))
        return np.array(weight)

    def _vote_weights(self, data: Dataset, unmarked_weight: Array) -> Array:
        """Weight of each vote, by source and voted class.  -> (K, 1, C)"""
        weights = np.ones((len(data.sources), 1, self._num_classes(data)))
        weights[data.unmarked_is_abstain(), :, 0] = unmarked_weight
        return weights

    def _prior_counts(self, data: Dataset, initial: ConfusionCounts, weights: Array) -> ConfusionCounts:
        """Prior counts: multiples of the initial ones, and weak ones."""
        config, num_classes = self.config, self._num_classes(data)
        strengths = np.where(data.unmarked_is_abstain(), config.prior_strength, 0.0)
        # An unmarked token weighs little as evidence of the class, but it is one token of what the source does.
        confusion = strengths[:, None, None] * initial.confusion / weights
        return ConfusionCounts(
            1 + strengths.mean() * initial.classes,
            confusion + DIAGONAL_VOTES * np.eye(num_classes) + UNIFORM_VOTES / num_classes,
        )
