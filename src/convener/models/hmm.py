"""Hidden Markov model with one observation stream per source."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from convener.config import check_min, check_range, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.data.votes import voted_types
from convener.errors import ConvenerWarning
from convener.inference._log_pass import IMPOSSIBLE
from convener.inference._numba import Array
from convener.inference.chain import default_log_initial, expected_counts, safe_log
from convener.inference.coarse import coarse_emission, fold_coarse_counts
from convener.inference.decoding import decode
from convener.inference.evidence import SparseVotes, expected_emission_counts, log_evidence, sparsify_votes
from convener.models.base import LabelModel, warn_unused_sources
from convener.models.em import EMConfig, EMTrace, run_em
from convener.models.fitted import Params
from convener.models.initialization import (
    MAX_FALSE_VOTE_RATE,
    WeightedLabels,
    complete_coarse_spans,
    emission_counts,
    estimate_unmarked_weight,
    mean_transition_counts,
    smoothed_emission_counts,
)
from convener.models.majority_vote import initial_labels

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class HMMParams:
    """Parameters of an HMM, as counts or as probabilities.

    transition (L, L); emission (K, L, L) [source, true label, vote]; unmarked_weight (K,): the weight of each source's
    O as evidence.
    """

    transition: Floats
    emission: Floats
    unmarked_weight: Floats

    @classmethod
    def from_arrays(cls, params: Mapping[str, NDArray[Any]]) -> HMMParams:
        """The parameters from named arrays."""
        return cls(**{item.name: params[item.name] for item in fields(cls)})

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The parameters as named arrays."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def log_emission(self, allowed: NDArray[np.bool_]) -> Floats:
        """Log-emissions of all votes, coarse ones included, with O weighted.

        allowed (S, L), see `inference.coarse` -> (K, L, S)
        """
        log_emission = safe_log(coarse_emission(self.emission, allowed))
        log_emission[:, :, 0] *= self.unmarked_weight[:, None]
        return log_emission

    def log_prior(self, prior: HMMParams) -> float:
        """Log-density of these probabilities, up to a constant, under the prior counts and one for each transition."""
        transition, emission = (np.maximum(each, np.finfo(float).tiny) for each in (self.transition, self.emission))
        allowed = self.transition > 0
        value = (prior.emission * np.log(emission)).sum()
        return float(value + ((prior.transition + 1) * np.log(transition))[allowed].sum())

    def normalize(self, allowed_transitions: NDArray[np.bool_]) -> HMMParams:
        """Counts as probabilities; one count is added for every allowed transition."""
        transition = np.where(allowed_transitions, self.transition + 1, 0.0)
        emission = self.emission / self.emission.sum(axis=2, keepdims=True)
        return replace(self, transition=transition / transition.sum(axis=1, keepdims=True), emission=emission)


OUTSIDE_PRIOR_STRENGTH = 0.1
"""Weight of the initial counts of workers (sources with unmarked="outside"): almost none."""
FALSE_VOTES = 10.0
"""Number of entity votes that each source is assumed to have cast where the true label is O, at most one in twenty of
its votes. The initial labels come from the votes, so they show few of the errors of a source. A known precision takes
precedence."""


@dataclass(frozen=True, kw_only=True)
class HMMConfig(EMConfig):
    """Settings of the hidden Markov model."""

    init_labels: Literal["union", "majority"] | None = None
    """Initial labels: the union of all spans, longest first, or majority vote by type. By default the union if
    all sources have unmarked="abstain", since each of them misses most entities."""
    prior_strength: float = 10.0
    """Weight of the initial counts as a prior, as a multiple, at least 0. It applies to labeling functions (sources
    with unmarked="abstain"): their votes are correlated, and their unmarked tokens do not tell how frequent entities
    are. 0 switches it off."""
    unmarked_weight: float | None = None
    """Weight of an unmarked token as a vote for O, for labeling functions (sources with unmarked="abstain"), in
    [0.01, 1]. 1 is the plain model. By default it is the estimated share of false single-source marks, since sources
    miss the same entities."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "prior_strength")
        check_range(self, "[0.01, 1]", "unmarked_weight")


class HMM(LabelModel):
    """Hidden Markov model: the true labels are a Markov chain, and every source is a noisy observation of them.

    p(x, z) = prod_t Psi[z(t-1), z(t)] prod_k Phi[k, z(t), x_k(t)]. Abstentions drop out of the product, the factor of
    an unmarked token is raised to the power `unmarked_weight`, and the factor of a coarse vote is the sum over the
    labels that it allows. EM maximizes log p(x) plus Dirichlet priors: xi and gamma by forward-backward, then Psi ~ sum
    xi + prior_strength * initial counts + 1 over legal transitions, and Phi ~ expected counts + prior_strength *
    initial counts. Expected unmarked tokens count `unmarked_weight` each, initial ones 1. Labels are the Viterbi path;
    spans carry their exact posterior probability. Several observation streams as in Lison et al. 2020, "Named
    Entity Recognition without Labelled Data: A Weak Supervision Approach".

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "wrote"]] * 20,
    ...     {"names": [[(0, 2, "PER")]] * 20, "first": [[(0, 1, "PER")]] * 10 + [[]] * 10},
    ... )
    >>> HMM().fit(data).predict(data).tags()[0]
    ['B-PER', 'I-PER', 'O']
    """

    Config = HMMConfig
    config: HMMConfig
    summary = "hidden Markov model with one observation stream per source"
    supports_coarse = True

    @init_with(HMMConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Run EM from the labels of a simple vote, or from the parameters of an earlier fit."""
        warn_unused_sources(train, self.name)
        votes = sparsify_votes(train.votes)
        labels = initial_labels(train.without_coarse(), self.config.init_labels)
        initial = self._initial_counts(train, votes, complete_coarse_spans(train, labels))
        prior = self._prior_counts(train, initial)
        initial = initial.normalize(allowed_transitions(train))
        if previous is not None:
            initial = HMMParams.from_arrays(previous)
        best, trace = self._run_em(initial, prior, train, votes)
        return best.to_arrays(), trace.diagnostics(emission=best.emission, initial_emission=initial.emission)

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """Viterbi labels, marginals, and exact posteriors of the predicted spans."""
        hmm_params = HMMParams.from_arrays(params)
        log_emission = hmm_params.log_emission(data.allowed_labels())
        evidence = log_evidence(sparsify_votes(data.votes), log_emission, num_threads=self.config.num_threads)
        return decode(safe_log(hmm_params.transition), evidence, data, self.config.num_threads)

    def _initial_counts(self, train: Dataset, votes: SparseVotes, weighted_labels: WeightedLabels) -> HMMParams:
        """Counts of transitions and emissions given these labels."""
        fine, unmarked_is_abstain = train.without_coarse(), train.unmarked_is_abstain()
        weight = self.config.unmarked_weight
        if weight is None:
            weight = estimate_unmarked_weight(
                fine.votes[:, unmarked_is_abstain], weighted_labels[0][1], len(fine.tags.types)
            )
        unmarked_weights = np.where(unmarked_is_abstain, weight, 1.0)
        counts = emission_counts(train, weighted_labels, default_precision=1 - MAX_FALSE_VOTE_RATE, votes=votes)
        emission = smoothed_emission_counts(counts, false_votes=FALSE_VOTES, precision=train.prior_precision_or(np.nan))
        return HMMParams(mean_transition_counts(train, weighted_labels), emission, unmarked_weights)

    def _prior_counts(self, train: Dataset, initial: HMMParams) -> HMMParams:
        """Multiples of the initial counts: of emissions by source, of transitions with the mean over the sources."""
        strengths = np.where(train.unmarked_is_abstain(), self.config.prior_strength, OUTSIDE_PRIOR_STRENGTH)
        return replace(
            initial,
            transition=strengths.mean() * initial.transition,
            emission=strengths[:, None, None] * initial.emission,
        )

    def _expected_emission_counts(
        self, votes: SparseVotes, marginals: Array, params: HMMParams, allowed: NDArray[np.bool_]
    ) -> NDArray[np.float64]:
        """Expected counts of votes by source and label.  -> (K, L, L)"""
        counts = expected_emission_counts(
            votes, marginals, num_symbols=len(allowed), num_threads=self.config.num_threads
        )
        counts[:, :, 0] *= params.unmarked_weight[:, None]
        return fold_coarse_counts(counts, params.emission, allowed)

    def _run_em(
        self, initial: HMMParams, prior: HMMParams, train: Dataset, votes: SparseVotes
    ) -> tuple[HMMParams, EMTrace]:
        """Run EM from one initial value.  -> parameters, trace of the objective"""
        transitions, allowed = allowed_transitions(train), train.allowed_labels()

        def step(params: HMMParams) -> tuple[HMMParams, float]:
            counts = expected_counts(
                default_log_initial(len(params.transition)),
                safe_log(params.transition),
                log_evidence(votes, params.log_emission(allowed), num_threads=self.config.num_threads),
                train.offsets,
                num_threads=self.config.num_threads,
            )
            if (counts.flags == IMPOSSIBLE).any():
                number = int(np.flatnonzero(counts.flags == IMPOSSIBLE)[0])
                warnings.warn(
                    f"{self.name}: sentence {number} has no possible labels under the model",
                    ConvenerWarning,
                    stacklevel=2,
                )
            expected = self._expected_emission_counts(votes, counts.marginals, params, allowed)
            updated = replace(
                params,
                transition=counts.transition_counts + prior.transition,
                emission=expected + prior.emission,
            ).normalize(transitions)
            value = float(counts.log_likelihood.sum()) + params.log_prior(prior)
            return updated, value / max(1, len(train.tokens))

        return run_em(step, initial, name=self.name, config=self.config)


def allowed_transitions(data: Dataset) -> NDArray[np.bool_]:
    """Legal transitions into types that some source votes for.  -> (L, L)"""
    allowed: NDArray[np.bool_] = data.fine_tags.legal_transitions & np.append(True, np.repeat(voted_types(data), 2))
    return allowed
