"""Snorkel's label model: one accuracy for every source, learned from agreement."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import ConfigError, ConvenerWarning
from convener.kernels import tokenwise
from convener.kernels.evidence import expected_emissions, sparse_votes
from convener.kernels.vote import odds
from convener.models.base import EMConfig, Inference, LabelModel, Params, warn_of_silent_sources
from convener.train.em import maximise
from convener.train.tokens import labelled

Array = NDArray[np.float64]
# How far above chance an accuracy stays.
_ABOVE = 1e-3


@dataclass(frozen=True, kw_only=True)
class SnorkelConfig(EMConfig):
    """Settings of Snorkel's label model."""

    scheme: Literal["io", "bio"] = "io"
    """io: classes are O and the entity types, runs are spans. bio: classes are labels."""
    balance: Literal["uniform", "learned"] = "uniform"
    """How probable each class is where somebody speaks: all alike, or as learned. Learned balance
    makes the frequent class swallow the rare one, O above all."""
    accuracy: float = 0.8
    """What is presumed of a source before it is heard, unless its precision is known. In (0, 1)."""
    strength: float = 100.0
    """How many votes that presumption is worth. Sources seldom err independently, so agreement
    flatters them, and weights far apart let one of them overrule the rest."""
    steps: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.accuracy < 1:
            raise ConfigError(f"accuracy must be in (0, 1), got {self.accuracy}")
        if self.strength <= 0:
            raise ConfigError(f"strength must be positive, got {self.strength}")


class Counts(NamedTuple):
    """How often each class is true (C,), and how often each source is right and wrong (K,)."""

    classes: Array
    right: Array
    wrong: Array

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))

    def logs(self) -> Counts:
        """Log-probabilities of the classes, of being right and of being wrong.

        No source is worse than chance, the best accuracy under that bound being the bound: so a
        vote never counts against what it says.
        """
        balance = self.classes / self.classes.sum()
        right = np.maximum(self.right / (self.right + self.wrong), 1 / len(balance) + _ABOVE)
        return Counts(np.log(balance), np.log(right), np.log1p(-right))

    def log_confusion(self) -> Array:
        """What `logs` says of every class: errors are spread evenly.  -> (K, C, C)"""
        classes = len(self.classes)
        truth = np.eye(classes, dtype=bool)
        wrong = self.wrong - np.log(classes - 1)
        return np.where(truth, self.right[:, None, None], wrong[:, None, None])


class Snorkel(LabelModel):
    """Votes weighed by the accuracy of each source, learned without gold from their agreement.

    The true class of a token is z ~ pi. Source k speaks or not whatever z is; where it speaks it
    is right with probability a_k, and any other of the C classes is equally likely:
    p(z = i | votes) ~ pi[i] exp(sum of w_k over the sources that say i), with the weights
    w_k = log(a_k (C - 1) / (1 - a_k)). Expectation maximisation of log p(votes), summed over z,
    with a Beta prior on a_k, which decides where fewer than three sources overlap. Only opinions
    count: an O of a source whose silence is O is none. Where nobody speaks the label is O.

    Ratner et al., 2017: Snorkel: rapid training data creation with weak supervision. VLDB 11(3).
    Ratner et al., 2019: Training complex models with multi-task weak supervision. AAAI.

    >>> person, place = [(0, 1, "PER")], [(0, 1, "LOC")]
    >>> said = {
    ...     "careful": [person, place, person, place] * 9,
    ...     "also careful": [person, place, person, place] * 8 + [[]] * 4,
    ...     "a": [place, [], place, []] * 9,
    ...     "b": [place, [], [], person] * 9,
    ...     "c": [[], person, person, person] * 9,
    ... }
    >>> data = Dataset.from_spans(["PER", "LOC"], [["Ada"], ["Bonn"], ["Eve"], ["Rome"]] * 9, said)
    >>> Snorkel().fit(data).predict(data).tags()[:4]
    [['B-PER'], ['B-LOC'], ['B-PER'], ['B-LOC']]
    """

    Config = SnorkelConfig
    summary = "votes weighed by accuracies learned from agreement, token by token"

    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """Expectation maximisation from the majority's shares; an earlier fit's counts are kept."""
        warn_of_silent_sources(train, self.name)
        said = self._said(train)
        said = said[(said >= 0).any(axis=1)]
        self._warn_of_harmony(train, said)
        votes, size = sparse_votes(said), self._classes(train)

        def counted(posterior: Array) -> Counts:
            counts = expected_emissions(votes, posterior)
            right = np.einsum("kii->k", counts)
            return Counts(self._balance(posterior), right, counts.sum(axis=(1, 2)) - right)

        if start is None:
            accuracies = train.presumed(self.config.accuracy)
            weights = odds(accuracies) / odds(np.array([self.config.accuracy]))
            first = counted(tokenwise.vote_shares(said, size, weights))
            prior = self._prior(accuracies, size)
        else:
            first = prior = Counts(start["classes"], start["right"], start["wrong"])

        def step(counts: Counts) -> tuple[Counts, float]:
            logs = counts.logs()
            posterior, value = tokenwise.class_posterior(votes, logs.log_confusion(), logs.classes)
            value += float(sum((a * b).sum() for a, b in zip(prior, logs, strict=True)))
            return prior.plus(counted(posterior)), value / max(1, len(said))

        found, trace = maximise(
            step,
            prior.plus(first),
            name=self.name,
            limits=self.config,
        )
        return found._asdict() | trace.curve()

    def infer(self, params: Params, data: Dataset) -> Inference:
        """The class with the most weight at each token; runs of a type are spans."""
        logs = Counts(params["classes"], params["right"], params["wrong"]).logs()
        said = self._said(data)
        spoken = np.flatnonzero((said >= 0).any(axis=1))
        posterior = np.zeros((len(said), self._classes(data)))
        posterior[:, 0] = 1
        posterior[spoken], _ = tokenwise.class_posterior(
            sparse_votes(said[spoken]), logs.log_confusion(), logs.classes
        )
        best = tokenwise.winners(posterior)
        return Inference(*labelled(best, posterior, data, self.config.scheme))

    def _said(self, data: Dataset) -> NDArray[np.int16]:
        """Opinions as classes, -1 where there is none.  -> (N, K)"""
        opinions = np.where(data.opinions(), data.votes, np.int16(-1))
        return tokenwise.type_votes(opinions) if self.config.scheme == "io" else opinions

    def _classes(self, data: Dataset) -> int:
        return 1 + len(data.tags.types) if self.config.scheme == "io" else len(data.tags)

    def _balance(self, posterior: Array) -> Array:
        """What is counted of the classes.  (N, C) -> (C,)"""
        if self.config.balance == "uniform":
            return np.zeros(posterior.shape[1])
        total: Array = posterior.sum(axis=0)
        return total

    def _prior(self, accuracies: Array, classes: int) -> Counts:
        """Counts beforehand.  accuracies (K,)"""
        right = self.config.strength * accuracies
        return Counts(np.ones(classes), right, self.config.strength - right)

    def _warn_of_harmony(self, data: Dataset, said: NDArray[np.int16]) -> None:
        """Say so where no two opinions could differ."""
        heard = np.unique(said[said >= 0])
        if len(heard) == 1:
            names = ("O", *data.tags.types) if self.config.scheme == "io" else data.tags.names
            warnings.warn(
                f"{self.name}: every opinion is {names[heard[0]]}, so no two sources ever "
                "disagree; their accuracies are a guess",
                ConvenerWarning,
                stacklevel=3,
            )
