"""Hidden Markov model with one observation stream per source."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from convener import insides
from convener.data import Dataset
from convener.errors import ConvenerWarning
from convener.kernels.chain import IMPOSSIBLE, expected_counts
from convener.kernels.coarse import folded
from convener.kernels.compiled import Array
from convener.kernels.confusion import emission_reliability
from convener.kernels.evidence import (
    SparseVotes,
    expected_emissions,
    log_evidence,
    sparse_votes,
)
from convener.kernels.priors import MOST_FALSE, silence_weight, smoothed_emissions
from convener.models.base import (
    EMConfig,
    Inference,
    LabelModel,
    Params,
    TokenRates,
    warn_of_silent_sources,
)
from convener.models.majority_vote import start_labels
from convener.settings import at_least
from convener.train.chain import Chain, decoded, log_begin, log_of
from convener.train.em import Trace, maximise
from convener.train.heard import (
    Fillings,
    fillings,
    marks,
    mean_labels,
    mean_moves,
    said_counts,
    spoken_types,
)

MOST_INVENTED = 1.5
"""More entity tokens than that many times the marked ones are a sign that learning went astray."""
OPEN_PRIOR = 0.1
"""Weight of the starting emissions for sources whose O is an opinion: they are learned freely."""


@dataclass(frozen=True, kw_only=True)
class HMMConfig(EMConfig):
    """Settings of the hidden Markov model."""

    start: Literal["union", "majority"] | None = None
    """Labels to start from: the union of all spans, longest first, or majority vote by type. By
    default the union where every source's silence is O, since each of them misses most."""
    prior: float = 10.0
    """Weight of the starting emissions against the data, for sources whose silence is O: their
    votes are correlated, and likelihood alone drives recall away. Others have `OPEN_PRIOR`."""
    false_votes: float = 10.0
    """Entity votes that each source is presumed to have cast where the truth is O; at most one in
    twenty of its votes. Where its precision is known, that decides."""
    silence: float | None = None
    """Weight of an O as evidence, for sources whose silence is O; 1 is the plain model. By
    default estimated: sources that miss the same entities are silent together, and their silence
    counts only as far as lone votes are more than chance explains (`kernels.priors`)."""
    restarts: int = 0
    """Further fits from disturbed starts; the best objective wins."""
    legal: bool = True
    """Forbid moves that BIO does not allow."""
    threads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, 1, "threads")
        at_least(self, 0, "prior", "false_votes", "restarts")
        at_least(self, 0.01, "silence")


class HMM(LabelModel):
    """The truth is a Markov chain, and each source a noisy channel that reads it.

    p(x, z) = prod_t Psi[z(t-1), z(t)] prod_k Phi[k, z(t), x_k(t)], abstaining sources left out,
    an O weighted by `silence` (a power of its factor), a coarse vote the sum of what it allows.
    EM maximises log p(x) plus Dirichlet priors: xi and gamma by forward-backward, then
    Psi ~ sum xi + 1 over legal moves and Phi ~ expected counts + prior * start. Labels are the
    best path, spans carry their exact posterior probability. Several streams as in Lison et al.
    2020, "Named Entity Recognition without Labelled Data: A Weak Supervision Approach".

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> HMM().fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = HMMConfig
    summary = "hidden Markov model with one observation stream per source"
    hears_coarse = True

    def learn(self, train: Dataset, valid: Dataset | None, start: Params | None) -> Params:
        """EM from labels of a simple vote, or on from an earlier fit."""
        warn_of_silent_sources(train, self.name)
        votes = sparse_votes(train.votes)
        labels = start_labels(train.fine(), self.config.start)
        first = self._start(train, votes, fillings(train, labels))
        prior = self._weights(train)[:, None, None] * first.emissions
        begins = [first.normalised(self._allowed(train))]
        if start is not None:
            begins = [Chain.of(start)]
        rng = np.random.default_rng(self.config.seed)
        begins += [self._disturbed(begins[0], rng) for _ in range(self.config.restarts)]
        found = [self._fit(begin, prior, train, votes) for begin in begins]
        best, trace = max(found, key=lambda result: result[1].objective[-1])
        self._warn_of_inventions(best, train)
        return best.params() | insides.start(begins[0].emissions) | trace.curve()

    def infer(self, params: Params, data: Dataset) -> Inference:
        """Best paths, marginals, and exact probabilities of the spans found."""
        chain = Chain.of(params)
        logs = chain.log_emissions(data.allowed())
        log_like = log_evidence(sparse_votes(data.votes), logs, threads=self.config.threads)
        return Inference(*decoded(log_of(chain.moves), log_like, data, self.config.threads))

    def reliability_of(self, params: Params, train: Dataset, found: Inference) -> TokenRates:
        """As the emissions have it, an O counted in full again."""
        emissions = params["emissions"].copy()
        emissions[:, :, 0] /= params["silence"][:, None]
        emissions /= emissions.sum(axis=2, keepdims=True)
        return emission_reliability(emissions, params["mass"])

    def _start(self, train: Dataset, votes: SparseVotes, labels: Fillings) -> Chain:
        """Counts of moves and emissions by these labels."""
        fine, silent = train.fine(), train.quiet()
        weight = self.config.silence
        if weight is None:
            weight = silence_weight(fine.votes[:, silent], labels[0][1], len(fine.tags.types))
        weights = np.where(silent, weight, 1.0)
        counts = said_counts(train, labels, precision=1 - MOST_FALSE, silence=weights, votes=votes)
        emissions = smoothed_emissions(
            counts, false_votes=self.config.false_votes, precision=train.presumed(np.nan)
        )
        mass = mean_labels(train, labels).sum(axis=0, dtype=np.float64)
        return Chain(mean_moves(train, labels), emissions, mass, weights)

    def _weights(self, train: Dataset) -> NDArray[np.float64]:
        return np.where(train.quiet(), self.config.prior, OPEN_PRIOR)

    def _allowed(self, data: Dataset) -> NDArray[np.bool_]:
        """Which moves are possible: into types that somebody marks, and legal if so set."""
        spoken = np.append(True, np.repeat(spoken_types(data), 2))
        moves: NDArray[np.bool_] = (data.fine_tags.legal | (not self.config.legal)) & spoken
        return moves

    def _disturbed(self, chain: Chain, rng: np.random.Generator) -> Chain:
        noise = rng.gamma(5.0, 0.2, chain.emissions.shape)
        emissions = chain.emissions * noise
        return replace(chain, emissions=emissions / emissions.sum(axis=2, keepdims=True))

    def _warn_of_inventions(self, chain: Chain, train: Dataset) -> None:
        """Say so where many of the entities are where no source marks anything."""
        spoken = np.logical_or.reduce(marks(train), axis=1).sum()
        if chain.mass[1:].sum() > MOST_INVENTED * spoken:
            warnings.warn(
                f"{self.name}: {chain.mass[1:].sum():.0f} tokens are taken for entities, but only "
                f"{spoken} are marked by any source; do not trust this fit (a larger prior helps)",
                ConvenerWarning,
                stacklevel=4,
            )

    def _seen(
        self, votes: SparseVotes, marginals: Array, chain: Chain, allowed: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """How often each source is expected to have said what.  -> (K, L, L)"""
        threads, symbols = self.config.threads, len(allowed)
        seen = expected_emissions(votes, marginals, symbols=symbols, threads=threads)
        seen[:, :, 0] *= chain.silence[:, None]
        return folded(seen, chain.emissions, allowed)

    def _fit(
        self, begin: Chain, prior: NDArray[np.float64], train: Dataset, votes: SparseVotes
    ) -> tuple[Chain, Trace]:
        """EM from one start; the chain, and how the objective rose."""
        possible_moves, allowed = self._allowed(train), train.allowed()

        def step(chain: Chain) -> tuple[Chain, float]:
            counts = expected_counts(
                log_begin(len(chain.mass)),
                log_of(chain.moves),
                log_evidence(votes, chain.log_emissions(allowed), threads=self.config.threads),
                train.offsets,
                threads=self.config.threads,
            )
            if (counts.flags == IMPOSSIBLE).any():
                number = int(np.flatnonzero(counts.flags == IMPOSSIBLE)[0])
                warnings.warn(
                    f"{self.name}: sentence {number} has no possible labels under the model",
                    ConvenerWarning,
                    stacklevel=2,
                )
            seen = self._seen(votes, counts.marginals, chain, allowed)
            mass = counts.transitions.sum(axis=0)  # every token is entered by one move
            better = replace(
                chain, moves=counts.transitions, emissions=seen + prior, mass=mass
            ).normalised(possible_moves)
            possible = chain.moves > 0
            value = counts.log_likelihood.sum() + (prior * np.log(chain.emissions)).sum()
            value += np.log(chain.moves[possible]).sum()
            return better, float(value) / max(1, len(train.tokens))

        return maximise(
            step,
            begin,
            name=self.name,
            limits=self.config,
        )
