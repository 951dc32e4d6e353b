"""Hidden Markov model with one observation stream per source."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convener.config import check_min
from convener.data import diagnostics
from convener.data.dataset import Dataset
from convener.data.votes import entity_votes, voted_types
from convener.errors import ConvenerWarning
from convener.inference._log_pass import IMPOSSIBLE
from convener.inference._numba import Array
from convener.inference.chain import default_log_initial, expected_counts, safe_log
from convener.inference.coarse import coarse_emission, fold_coarse_counts
from convener.inference.counts import emission_reliability
from convener.inference.decoding import decode
from convener.inference.evidence import SparseVotes, expected_emission_counts, log_evidence, sparsify_votes
from convener.models.base import LabelModel, LabelOutput, RecallPrecision, warn_unused_sources
from convener.models.em import EMConfig, EMTrace, run_em
from convener.models.fitted import Params
from convener.models.initialization import (
    MAX_FALSE_VOTE_RATE,
    WeightedLabels,
    complete_coarse_spans,
    emission_counts,
    estimate_unmarked_weight,
    mean_label_probabilities,
    mean_transition_counts,
    smoothed_emission_counts,
)
from convener.models.majority_vote import initial_labels

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HMMParams:
    """Parameters of a chain, as counts or normalised.

    moves (L, L); emissions (K, L, L) [source, truth, said]; mass (L,) how often each label is
    true; silence (K,) the weight of each source's O as evidence.
    """

    transition: Floats
    emission: Floats
    label_counts: Floats
    unmarked_weight: Floats

    @classmethod
    def from_arrays(cls, params: Mapping[str, NDArray[Any]]) -> HMMParams:
        """The chain in a model's parameters."""
        return cls(params["moves"], params["emissions"], params["mass"], params["silence"])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """As a model's parameters."""
        return {
            "moves": self.transition,
            "emissions": self.emission,
            "mass": self.label_counts,
            "silence": self.unmarked_weight,
        }

    def log_emission(self, allowed: NDArray[np.bool_]) -> Floats:
        """Logarithms of the emissions of all that is said, those of O weighted.

        allowed (S, L), see `kernels.coarse` -> (K, L, S)
        """
        log_emission = safe_log(coarse_emission(self.emission, allowed))
        log_emission[:, :, 0] *= self.unmarked_weight[:, None]
        return log_emission

    def normalize(self, allowed_transitions: NDArray[np.bool_]) -> HMMParams:
        """Counts as probabilities; one count is added for every allowed move."""
        transition = np.where(allowed_transitions, self.transition + 1, 0.0)
        emission = self.emission / self.emission.sum(axis=2, keepdims=True)
        return replace(self, transition=transition / transition.sum(axis=1, keepdims=True), emission=emission)


MAX_ENTITY_RATIO = 1.5
"""More entity tokens than that many times the marked ones are a sign that learning went astray."""
OUTSIDE_PRIOR_STRENGTH = 0.1
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
        check_min(self, 1, "threads")
        check_min(self, 0, "prior", "false_votes", "restarts")
        check_min(self, 0.01, "silence")


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
    supports_coarse = True

    def _fit(self, train: Dataset, valid: Dataset | None, previous: Params | None) -> Params:
        """EM from labels of a simple vote, or on from an earlier fit."""
        warn_unused_sources(train, self.name)
        votes = sparsify_votes(train.votes)
        labels = initial_labels(train.without_coarse(), self.config.start)
        initial = self._initial_counts(train, votes, complete_coarse_spans(train, labels))
        prior = self._prior_strengths(train)[:, None, None] * initial.emission
        starts = [initial.normalize(self._allowed_transitions(train))]
        if previous is not None:
            starts = [HMMParams.from_arrays(previous)]
        rng = np.random.default_rng(self.config.seed)
        starts += [self._disturbed(starts[0], rng) for _ in range(self.config.restarts)]
        results = [self._run_em(params, prior, train, votes) for params in starts]
        best, trace = max(results, key=lambda result: result[1].objective[-1])
        self._warn_unsupported_entities(best, train)
        return best.to_arrays() | diagnostics.initial_emission(starts[0].emission) | trace.learning_curve()

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """Best paths, marginals, and exact probabilities of the spans found."""
        hmm_params = HMMParams.from_arrays(params)
        log_emission = hmm_params.log_emission(data.allowed_labels())
        evidence = log_evidence(sparsify_votes(data.votes), log_emission, num_threads=self.config.threads)
        return LabelOutput(*decode(safe_log(hmm_params.transition), evidence, data, self.config.threads))

    def _reliability(self, params: Params, train: Dataset, output: LabelOutput) -> RecallPrecision:
        """As the emissions have it, an O counted in full again."""
        emission = params["emissions"].copy()
        emission[:, :, 0] /= params["silence"][:, None]
        emission /= emission.sum(axis=2, keepdims=True)
        return emission_reliability(emission, params["mass"])

    def _initial_counts(self, train: Dataset, votes: SparseVotes, weighted_labels: WeightedLabels) -> HMMParams:
        """Counts of moves and emissions by these labels."""
        fine, unmarked_is_abstain = train.without_coarse(), train.quiet()
        weight = self.config.silence
        if weight is None:
            weight = estimate_unmarked_weight(
                fine.votes[:, unmarked_is_abstain], weighted_labels[0][1], len(fine.tags.types)
            )
        unmarked_weights = np.where(unmarked_is_abstain, weight, 1.0)
        counts = emission_counts(
            train,
            weighted_labels,
            default_precision=1 - MAX_FALSE_VOTE_RATE,
            unmarked_weight=unmarked_weights,
            votes=votes,
        )
        emission = smoothed_emission_counts(
            counts, false_votes=self.config.false_votes, precision=train.prior_precision_or(np.nan)
        )
        label_counts = mean_label_probabilities(train, weighted_labels).sum(axis=0, dtype=np.float64)
        return HMMParams(mean_transition_counts(train, weighted_labels), emission, label_counts, unmarked_weights)

    def _prior_strengths(self, train: Dataset) -> NDArray[np.float64]:
        return np.where(train.quiet(), self.config.prior, OUTSIDE_PRIOR_STRENGTH)

    def _allowed_transitions(self, data: Dataset) -> NDArray[np.bool_]:
        """Which moves are possible: into types that somebody marks, and legal if so set."""
        voted = np.append(True, np.repeat(voted_types(data), 2))
        allowed: NDArray[np.bool_] = (data.fine_tags.legal_transitions | (not self.config.legal)) & voted
        return allowed

    def _disturbed(self, chain: HMMParams, rng: np.random.Generator) -> HMMParams:
        noise = rng.gamma(5.0, 0.2, chain.emission.shape)
        emissions = chain.emission * noise
        return replace(chain, emission=emissions / emissions.sum(axis=2, keepdims=True))

    def _warn_unsupported_entities(self, params: HMMParams, train: Dataset) -> None:
        """Say so where many of the entities are where no source marks anything."""
        num_marked = np.logical_or.reduce(entity_votes(train), axis=1).sum()
        if params.label_counts[1:].sum() > MAX_ENTITY_RATIO * num_marked:
            warnings.warn(
                f"{self.name}: {params.label_counts[1:].sum():.0f} tokens are taken for entities, but only "
                f"{num_marked} are marked by any source; do not trust this fit (a larger prior helps)",
                ConvenerWarning,
                stacklevel=4,
            )

    def _expected_emission_counts(
        self, votes: SparseVotes, marginals: Array, params: HMMParams, allowed: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """How often each source is expected to have said what.  -> (K, L, L)"""
        threads, symbols = self.config.threads, len(allowed)
        counts = expected_emission_counts(votes, marginals, num_symbols=symbols, num_threads=threads)
        counts[:, :, 0] *= params.unmarked_weight[:, None]
        return fold_coarse_counts(counts, params.emission, allowed)

    def _run_em(
        self, initial: HMMParams, prior: NDArray[np.float64], train: Dataset, votes: SparseVotes
    ) -> tuple[HMMParams, EMTrace]:
        """EM from one start; the chain, and how the objective rose."""
        allowed_transitions, allowed = self._allowed_transitions(train), train.allowed_labels()

        def step(params: HMMParams) -> tuple[HMMParams, float]:
            counts = expected_counts(
                default_log_initial(len(params.label_counts)),
                safe_log(params.transition),
                log_evidence(votes, params.log_emission(allowed), num_threads=self.config.threads),
                train.offsets,
                num_threads=self.config.threads,
            )
            if (counts.flags == IMPOSSIBLE).any():
                number = int(np.flatnonzero(counts.flags == IMPOSSIBLE)[0])
                warnings.warn(
                    f"{self.name}: sentence {number} has no possible labels under the model",
                    ConvenerWarning,
                    stacklevel=2,
                )
            expected = self._expected_emission_counts(votes, counts.marginals, params, allowed)
            label_counts = counts.transition_counts.sum(axis=0)  # every token is entered by one move
            updated = replace(
                params,
                transition=counts.transition_counts,
                emission=expected + prior,
                label_counts=label_counts,
            ).normalize(allowed_transitions)
            nonzero = params.transition > 0
            value = counts.log_likelihood.sum() + (prior * np.log(params.emission)).sum()
            value += np.log(params.transition[nonzero]).sum()
            return updated, float(value) / max(1, len(train.tokens))

        return run_em(
            step,
            initial,
            name=self.name,
            limits=self.config,
        )
