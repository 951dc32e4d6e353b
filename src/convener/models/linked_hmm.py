"""Linked hidden Markov model: some sources say which neighbours belong together."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from convener import insides
from convener.data import Dataset
from convener.errors import ConfigError, ConvenerWarning, DataError
from convener.kernels.chain import posterior
from convener.kernels.evidence import log_evidence, sparse_votes
from convener.kernels.links import extended, link_evidence, linked_moves, same_label
from convener.models.base import Inference, LabelModel, Params, TokenRates, warn_of_silent_sources
from convener.models.hmm import HMM, HMMConfig
from convener.models.majority_vote import start_labels
from convener.train.chain import Chain, decoded, log_begin
from convener.train.em import Trace, maximise
from convener.train.heard import fillings


@dataclass(frozen=True, kw_only=True)
class LinkedHMMConfig(HMMConfig):
    """Settings of the linked hidden Markov model, beside those of the plain one."""

    prefix: str = "link-"
    """Sources whose names begin so are linking sources."""
    both: bool = False
    """Let linking sources also vote for the type of their spans, as any other source."""
    accuracy: float = 0.9
    """How often a link is presumed right."""
    links: float = 100.0
    """So many links that presumption is worth."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.5 <= self.accuracy < 1:
            raise ConfigError(f"accuracy must be in [0.5, 1), got {self.accuracy}")
        if self.links <= 0:
            raise ConfigError(f"links must be positive, got {self.links}")


class LinkedHMM(HMM):
    """A hidden Markov model that also hears which neighbours belong together.

    Inside a span of a linking source each token is linked to the one before it; the span's type
    is ignored, and elsewhere the source abstains. A link of source k holds with probability a_k:
    p(link | z(t-1), z(t)) = a_k if the two labels belong to one span or both are O, else 1 - a_k.
    The other sources emit as in the plain model. EM learns moves, emissions and a_k. After
    Safranchik, Luo, Bach 2020, "Weakly Supervised Sequence Tagging from Noisy Rules" (WISER).

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 30 + [["She", "left"]] * 30,
    ...     {
    ...         "first": [[(0, 1, "PER")]] * 30 + [[]] * 30,
    ...         "link-capitals": [[(0, 2, "PER")]] * 30 + [[]] * 30,
    ...     },
    ... )
    >>> LinkedHMM().fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = LinkedHMMConfig
    summary = "hidden Markov model with sources that link neighbouring tokens"

    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """EM from simple labels of the tagging sources, grown over the links."""
        tagging, links = self._parted(train)
        warn_of_silent_sources(tagging, self.name)
        votes = sparse_votes(tagging.votes)
        if not links.any():
            warnings.warn(
                f"{self.name}: no source {self.config.prefix}... links anything; this is the hmm",
                ConvenerWarning,
                stacklevel=3,
            )
        linked: NDArray[np.bool_] = np.logical_or.reduce(links, axis=1)
        simple = start_labels(tagging.fine(), self.config.start)
        labels = extended(simple, linked, tagging.offsets)
        first = self._start(tagging, votes, fillings(tagging, labels))
        # Where no link is heard, nothing says that a span ends: moves keep to their start, too.
        prior = replace(
            first,
            moves=first.moves * links.any(),
            emissions=self._weights(tagging)[:, None, None] * first.emissions,
        )
        chain = first.normalised(self._allowed(tagging))
        accuracy = np.full(links.shape[1], self.config.accuracy)
        if start is not None:
            chain, accuracy = Chain.of(start), start["accuracy"]
        before = insides.start(chain.emissions)
        found, trace = self._fit_linked(chain, accuracy, prior, tagging, links)
        return found[0].params() | {"accuracy": found[1]} | before | trace.curve()

    def infer(self, params: Params, data: Dataset) -> Inference:
        """Best paths, marginals and span probabilities with the links heard."""
        tagging, links = self._parted(data)
        moves, log_like = self._potentials(Chain.of(params), params["accuracy"], tagging, links)
        return Inference(*decoded(moves, log_like, data, self.config.threads))

    def reliability_of(self, params: Params, train: Dataset, found: Inference) -> TokenRates:
        """Counted against the posterior: a link says nothing of types."""
        return LabelModel.reliability_of(self, params, train, found)

    def insides(self) -> insides.Insides:
        """What the fit left to look at; only tagging sources have emissions."""
        return insides.Insides.of(self._tagging(self.fitted.heard), self.fitted.params)

    def _tagging(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        """The sources whose tags are heard."""
        both, prefix = self.config.both, self.config.prefix
        return tuple(name for name in sources if both or not name.startswith(prefix))

    def _parted(self, data: Dataset) -> tuple[Dataset, NDArray[np.bool_]]:
        """The data with tagging sources only, and where the others link a token.  -> (N, J)"""
        linking = [name.startswith(self.config.prefix) for name in data.sources]
        tagging = self._tagging(data.sources)
        if not tagging:
            raise DataError(
                f"{self.name}: every source is a linking one ({self.config.prefix}...); "
                "at least one must tag"
            )
        votes = data.votes[:, linking]
        return data.select_sources(tagging), (votes > 0) & (votes % 2 == 0)

    def _potentials(
        self,
        chain: Chain,
        accuracy: NDArray[np.float64],
        data: Dataset,
        links: NDArray[np.bool_],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Moves (N, L, L) as logits and evidence (N, L), both with the links in them."""
        logs = chain.log_emissions(data.allowed())
        log_like = log_evidence(sparse_votes(data.votes), logs, threads=self.config.threads)
        return linked_moves(chain.moves, link_evidence(links, accuracy), log_like, data.offsets)

    def _fit_linked(
        self,
        begin: Chain,
        accuracy: NDArray[np.float64],
        prior: Chain,
        train: Dataset,
        links: NDArray[np.bool_],
    ) -> tuple[tuple[Chain, NDArray[np.float64]], Trace]:
        votes = sparse_votes(train.votes)
        allowed, size = train.allowed(), len(train.fine_tags)
        same = same_label(size)
        right, wrong = self.config.links * np.array(
            [self.config.accuracy, 1 - self.config.accuracy]
        )
        possible_moves = self._allowed(train)

        def step(
            state: tuple[Chain, NDArray[np.float64]],
        ) -> tuple[tuple[Chain, NDArray[np.float64]], float]:
            chain, trust = state
            moves, log_like = self._potentials(chain, trust, train, links)
            found = posterior(
                log_begin(size),
                moves,
                log_like,
                train.offsets,
                pairs=True,
                threads=self.config.threads,
            )
            pairs = np.zeros((0, size, size)) if found.pairs is None else found.pairs
            holds = (pairs * same).sum(axis=(1, 2), dtype=np.float64) @ links
            seen = self._seen(votes, found.marginals, chain, allowed)
            better = replace(
                chain,
                moves=pairs.sum(axis=0, dtype=np.float64) + prior.moves,
                emissions=seen + prior.emissions,
                mass=found.marginals.sum(axis=0, dtype=np.float64),
            ).normalised(possible_moves)
            value = found.log_likelihood.sum() + (prior.emissions * np.log(chain.emissions)).sum()
            possible = chain.moves > 0
            value += ((prior.moves + 1)[possible] * np.log(chain.moves[possible])).sum()
            value += (right * np.log(trust) + wrong * np.log(1 - trust)).sum()
            total = links.sum(axis=0) + right + wrong
            return (better, (holds + right) / total), float(value) / max(1, len(train.tokens))

        return maximise(
            step,
            (begin, accuracy),
            name=self.name,
            limits=self.config,
        )
