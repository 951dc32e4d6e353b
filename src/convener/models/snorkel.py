"""Snorkel's label model: one accuracy per source, estimated from agreement."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.config import check_range, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.errors import ConvenerWarning
from convener.inference import evidence
from convener.inference.evidence import expected_emission_counts, sparsify_votes
from convener.inference.voting import odds
from convener.models.base import LabelModel, warn_unused_sources
from convener.models.em import EMConfig, labels_from_classes, run_em
from convener.models.fitted import Params

Array = NDArray[np.float64]
# How far above chance an accuracy stays.
_MIN_MARGIN = 1e-3


@dataclass(frozen=True, kw_only=True)
class SnorkelConfig(EMConfig):
    """Settings of Snorkel's label model."""

    scheme: Literal["io", "bio"] = "io"
    """Classes are O and the entity types, with runs of a type as spans ("io"), or the BIO labels ("bio")."""
    max_iter: int = 100
    class_balance: Literal["uniform", "learned"] = "uniform"
    """Class balance at tokens with votes: uniform, or learned. A learned balance lets frequent classes absorb rare
    ones."""
    prior_accuracy: float = 0.8
    """Prior accuracy of a source whose precision is not known, in (0, 1)."""
    prior_votes: float = 100.0
    """Weight of that prior in pseudo-votes, above 0. Errors of sources are correlated, so agreement overestimates their
    accuracy, and very different weights let one source overrule the rest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "(0, 1)", "prior_accuracy")
        check_range(self, "(0, inf)", "prior_votes")


class AccuracyCounts(NamedTuple):
    """Expected counts of the classes (C,), and of correct and incorrect votes of each source (K,)."""

    classes: Array
    correct: Array
    incorrect: Array

    def add(self, other: AccuracyCounts) -> AccuracyCounts:
        """The sum of both counts."""
        return AccuracyCounts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def log_probs(self) -> AccuracyCounts:
        """Log-probabilities of the classes, of a correct and of an incorrect vote.

        Accuracies are at least chance, so that a vote never counts against its own class.
        """
        balance = self.classes / self.classes.sum()
        accuracy = np.maximum(self.correct / (self.correct + self.incorrect), 1 / len(balance) + _MIN_MARGIN)
        return AccuracyCounts(np.log(balance), np.log(accuracy), np.log1p(-accuracy))

    def log_confusion(self) -> Array:
        """Log-confusion matrices with errors spread evenly over the other classes.  -> (K, C, C)"""
        num_classes = len(self.classes)
        is_correct = np.eye(num_classes, dtype=bool)
        incorrect = self.incorrect - np.log(num_classes - 1)
        return np.where(is_correct, self.correct[:, None, None], incorrect[:, None, None])


class Snorkel(LabelModel):
    """Votes weighted by the accuracy of each source, which is estimated from agreement.

    The true class of a token is z ~ pi. Whether source k votes does not depend on z; its vote is correct with
    probability a_k, and every other of the C classes is equally likely:
    p(z = i | votes) ~ pi[i] exp(sum of w_k over the sources that vote i), with w_k = log(a_k (C - 1) / (1 - a_k)).
    EM maximizes log p(votes) with a Beta prior on a_k, which decides where fewer than three sources overlap. Unmarked
    tokens of labeling functions (sources with unmarked="abstain") are abstentions. Tokens without votes are O.

    Ratner et al., 2017: Snorkel: rapid training data creation with weak supervision. VLDB 11(3).
    Ratner et al., 2019: Training complex models with multi-task weak supervision. AAAI.

    >>> person, place = [(0, 1, "PER")], [(0, 1, "LOC")]
    >>> votes = {
    ...     "careful": [person, place, person, place] * 9,
    ...     "also careful": [person, place, person, place] * 8 + [[]] * 4,
    ...     "a": [place, [], place, []] * 9,
    ...     "b": [place, [], [], person] * 9,
    ... }
    >>> data = Dataset.from_spans(["PER", "LOC"], [["Ada"], ["Bonn"], ["Eve"], ["Rome"]] * 9, votes)
    >>> Snorkel().fit(data).predict(data).tags()[:4]
    [['B-PER'], ['B-LOC'], ['B-PER'], ['B-LOC']]
    """

    Config = SnorkelConfig
    config: SnorkelConfig
    summary = "votes weighed by accuracies learned from agreement, token by token"

    @init_with(SnorkelConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Run EM from the shares of the votes; the counts of an earlier fit are a prior."""
        warn_unused_sources(train, self.name)
        class_votes = self._class_votes(train)
        class_votes = class_votes[(class_votes >= 0).any(axis=1)]
        self._warn_no_disagreement(train, class_votes)
        votes, num_classes = sparsify_votes(class_votes), self._num_classes(train)
        num_threads = self.config.num_threads

        def count(posterior: Array) -> AccuracyCounts:
            counts = expected_emission_counts(votes, posterior, num_threads=num_threads)
            correct = np.einsum("kii->k", counts)
            return AccuracyCounts(self._class_counts(posterior), correct, counts.sum(axis=(1, 2)) - correct)

        if previous is None:
            accuracies = train.prior_precision_or(self.config.prior_accuracy)
            weights = odds(accuracies) / odds(np.array([self.config.prior_accuracy]))
            initial = count(evidence.vote_shares(class_votes, num_classes, weights))
            prior = self._prior_counts(accuracies, num_classes)
        else:
            initial = prior = AccuracyCounts(**previous)

        def step(counts: AccuracyCounts) -> tuple[AccuracyCounts, float]:
            log_probs = counts.log_probs()
            posterior, value = evidence.class_posterior(
                votes, log_probs.log_confusion(), log_probs.classes, num_threads=num_threads
            )
            value += float(sum((a * b).sum() for a, b in zip(prior, log_probs, strict=True)))
            return prior.add(count(posterior)), value / max(1, len(class_votes))

        best, trace = run_em(step, prior.add(initial), name=self.name, config=self.config)
        return best._asdict(), trace.diagnostics()

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """The class with the largest weight at each token; runs of a type are spans."""
        log_probs = AccuracyCounts(**params).log_probs()
        class_votes = self._class_votes(data)
        voted = np.flatnonzero((class_votes >= 0).any(axis=1))
        posterior = np.zeros((len(class_votes), self._num_classes(data)))
        posterior[:, 0] = 1
        posterior[voted], _ = evidence.class_posterior(
            sparsify_votes(class_votes[voted]),
            log_probs.log_confusion(),
            log_probs.classes,
            num_threads=self.config.num_threads,
        )
        best_class = evidence.most_probable_class(posterior)
        return labels_from_classes(best_class, posterior, data, self.config.scheme)

    def _class_votes(self, data: Dataset) -> NDArray[np.int16]:
        """Votes as classes, -1 for an abstention.  -> (N, K)"""
        votes = np.where(data.informative_votes(), data.votes, np.int16(-1))
        return evidence.to_type_votes(votes) if self.config.scheme == "io" else votes

    def _num_classes(self, data: Dataset) -> int:
        return 1 + len(data.tags.types) if self.config.scheme == "io" else len(data.tags)

    def _class_counts(self, posterior: Array) -> Array:
        """Expected counts of the classes.  (N, C) -> (C,)"""
        if self.config.class_balance == "uniform":
            return np.zeros(posterior.shape[1])
        total: Array = posterior.sum(axis=0)
        return total

    def _prior_counts(self, accuracies: Array, num_classes: int) -> AccuracyCounts:
        """Prior counts.  accuracies (K,)"""
        prior_votes = self.config.prior_votes
        correct = prior_votes * accuracies
        return AccuracyCounts(np.ones(num_classes), correct, prior_votes - correct)

    def _warn_no_disagreement(self, data: Dataset, class_votes: NDArray[np.int16]) -> None:
        """Warn if no token has two votes that could differ."""
        classes = np.unique(class_votes[class_votes >= 0])
        if len(classes) == 1:
            names = ("O", *data.tags.types) if self.config.scheme == "io" else data.tags.names
            warnings.warn(
                f"{self.name}: all votes are for {names[classes[0]]}, so sources never "
                "disagree and their accuracies cannot be estimated",
                ConvenerWarning,
                stacklevel=3,
            )
