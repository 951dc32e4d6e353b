"""Dawid-Skene: a confusion matrix for every source, token by token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import ConfigError
from convener.kernels import tokenwise
from convener.kernels.evidence import expected_emissions, sparse_votes
from convener.kernels.vote import odds
from convener.models.base import EMConfig, Inference, LabelModel, Params, warn_of_silent_sources
from convener.models.majority_vote import USUAL
from convener.settings import at_least
from convener.train.em import maximise
from convener.train.tokens import labelled

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class DawidSkeneConfig(EMConfig):
    """Settings of Dawid-Skene."""

    scheme: Literal["io", "bio"] = "io"
    """io: classes are O and the entity types, runs are spans. bio: classes are labels."""
    silence: float = 0.1
    """How much the O of a source whose silence is O counts. At 1 silence outvotes the sources
    that speak; near 0 nothing is known of how seldom they speak."""
    prior: float = 3.0
    """Weight of the start, each source against the majority, beside what is learned; only for
    sources whose silence is O, which are seldom independent of each other."""
    diagonal: float = 1.0
    """Votes that each row of a confusion matrix has beforehand for what is true."""
    rest: float = 0.1
    """Votes that each row has beforehand, in all, for everything alike."""
    steps: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 0, "prior", "diagonal")
        for name in ("silence", "rest"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)}")


class Counts(NamedTuple):
    """How often each class is true (C,), and how often each source says j where i is true."""

    classes: Array
    votes: Array
    """(K, C, C) [source, true, said]"""

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(self.classes + other.classes, self.votes + other.votes)

    def logs(self) -> Counts:
        """Log-probabilities of classes and of votes."""
        rows = self.votes.sum(axis=2, keepdims=True)
        return Counts(np.log(self.classes / self.classes.sum()), np.log(self.votes / rows))


class DawidSkene(LabelModel):
    """A confusion matrix for every source, learned by expectation maximisation.

    The true class of a token is z ~ pi; source k says j with probability C[k, z, j], independently
    of the others and of the other tokens: p(z = i | votes) ~ pi[i] prod_k C[k, i, vote_k]^w.
    Steps alternate between p(z | votes) and the best pi and C given it, with Dirichlet priors that
    favour the diagonal. Abstaining says nothing; w is 1, but `silence` for the O of a source whose
    silence is O: K - 1 sources that are silent are not K - 1 independent witnesses.

    Dawid and Skene, 1979: Maximum likelihood estimation of observer error-rates using the EM
    algorithm. Journal of the Royal Statistical Society C 28(1), 20-28.

    >>> name, none = [(0, 1, "PER")], []
    >>> said = {
    ...     "careful": [name, none, name, none] * 9,
    ...     "also careful": [name, none, name, none] * 8 + [none, none, name, none],
    ...     "fair": [name, none, none, none] * 9,
    ...     "spammer": [none, name, none, name] * 9,
    ...     "bored": [none, name, none, name] * 9,
    ... }
    >>> words = [["Ada"], ["wrote"], ["Grace"], ["ran"]] * 9
    >>> data = Dataset.from_spans(["PER"], words, said, silence="abstain")
    >>> DawidSkene().fit(data).predict(data).tags()[:4]
    [['B-PER'], ['O'], ['B-PER'], ['O']]
    """

    Config = DawidSkeneConfig
    summary = "a confusion matrix for every source, token by token"

    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """Expectation maximisation from the majority's shares; an earlier fit's counts are kept."""
        warn_of_silent_sources(train, self.name)
        votes, weights = sparse_votes(self._said(train)), self._weights(train)

        def counted(posterior: Array) -> Counts:
            return Counts(posterior.sum(axis=0), weights * expected_emissions(votes, posterior))

        if start is None:
            first = counted(self._shares(train))
            prior = self._prior(train, first)
        else:
            first = prior = Counts(start["classes"], start["votes"])

        def step(counts: Counts) -> tuple[Counts, float]:
            logs = counts.logs()
            posterior, value = tokenwise.class_posterior(votes, weights * logs.votes, logs.classes)
            value += float((prior.classes * logs.classes).sum() + (prior.votes * logs.votes).sum())
            return prior.plus(counted(posterior)), value / max(1, len(train.tokens))

        found, trace = maximise(
            step,
            prior.plus(first),
            name=self.name,
            limits=self.config,
        )
        return found._asdict() | trace.curve()

    def infer(self, params: Params, data: Dataset) -> Inference:
        """The most probable class of each token; runs of a type are spans."""
        logs = Counts(params["classes"], params["votes"]).logs()
        posterior, _ = tokenwise.class_posterior(
            sparse_votes(self._said(data)), self._weights(data) * logs.votes, logs.classes
        )
        # Without context, nothing tells of an entity where nobody has an opinion.
        heard = np.logical_or.reduce(data.opinions(), axis=1)
        posterior[~heard] = np.eye(self._classes(data))[0]
        best = tokenwise.winners(posterior)
        return Inference(*labelled(best, posterior, data, self.config.scheme))

    def _said(self, data: Dataset) -> NDArray[np.int16]:
        """Votes as classes.  -> (N, K)"""
        return tokenwise.type_votes(data.votes) if self.config.scheme == "io" else data.votes

    def _classes(self, data: Dataset) -> int:
        return 1 + len(data.tags.types) if self.config.scheme == "io" else len(data.tags)

    def _shares(self, data: Dataset) -> Array:
        """Shares of the opinions at each token, weighed by the odds that they are right.

        -> (N, C)
        """
        said = np.where(data.opinions(), self._said(data), np.int16(-1))
        weights = odds(data.presumed(USUAL)) / odds(np.array([USUAL]))
        return tokenwise.vote_shares(said, self._classes(data), weights)

    def _weights(self, data: Dataset) -> Array:
        """How much each vote counts.  -> (K, 1, C)"""
        weights = np.ones((len(data.sources), 1, self._classes(data)))
        weights[data.quiet(), :, 0] = self.config.silence
        return weights

    def _prior(self, data: Dataset, first: Counts) -> Counts:
        """Counts beforehand."""
        config, size = self.config, self._classes(data)
        quiet = data.quiet()[:, None, None]
        # In the units of the counts, or hundreds of silent sources would seem to have good recall.
        units = np.where(quiet, config.silence, 1.0)
        votes = units * (config.diagonal * np.eye(size) + config.rest / size)
        return Counts(np.ones(size), votes + np.where(quiet, config.prior, 0.0) * first.votes)
