"""Linked hidden Markov model: some sources vote on which neighbouring tokens belong together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.config import check_range, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.errors import DataError
from convener.inference.chain import default_log_initial, forward_backward
from convener.inference.coarse import extend_over_links
from convener.inference.decoding import decode
from convener.inference.evidence import log_evidence, sparsify_votes
from convener.models.base import warn_unused_sources
from convener.models.em import EMTrace, run_em
from convener.models.fitted import Params
from convener.models.hmm import HMM, HMMConfig, HMMParams, allowed_transitions
from convener.models.initialization import complete_coarse_spans
from convener.models.majority_vote import initial_labels


def continues_span(num_labels: int) -> NDArray[np.bool_]:
    """Transitions that keep two tokens together: into I-x within a span, or from O to O.  -> (L, L)"""
    same = np.zeros((num_labels, num_labels), bool)
    same[0, 0] = True
    for b_label in range(1, num_labels, 2):
        same[b_label : b_label + 2, b_label + 1] = True
    return same


def link_evidence(links: NDArray[np.bool_], accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-evidence of the links at each token for its belonging to the token before.

    links (N, J), accuracy (J,) -> (N, 2): log p(links | together), log p(links | apart)
    """
    return np.stack([links @ np.log(accuracy), links @ np.log1p(-accuracy)], axis=1)


def linked_transition_logits(
    transition: NDArray[np.float64],
    link_log_likelihood: NDArray[np.float64],
    log_evidence: NDArray[np.float32],
    offsets: NDArray[np.int64],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Transition logits and evidence of the chain p(z(t) | z(t-1)) p(links(t) | z(t-1), z(t)) p(x(t) | z(t)).

    Rows of logits are normalized when they are used; the normalizer of a row is added to the evidence of the token
    before, so that the product is exact. A link at the first token of a sentence is ignored.
    -> logits (N, L, L), evidence (N, L)
    """
    first = offsets[:-1][np.diff(offsets) > 0]
    link_terms = link_log_likelihood.astype(np.float32)
    link_terms[first] = 0
    with np.errstate(divide="ignore"):
        logits = np.log(transition).astype(np.float32) + np.where(
            continues_span(len(transition)), link_terms[:, :1, None], link_terms[:, 1:, None]
        )
    top = logits.max(axis=2)
    log_norm = top + np.log(np.exp(logits - top[:, :, None]).sum(axis=2))
    adjusted_evidence = log_evidence.copy()
    adjusted_evidence[:-1] += log_norm[1:]
    last = offsets[1:][np.diff(offsets) > 0] - 1
    inner = last[last + 1 < len(adjusted_evidence)]
    adjusted_evidence[inner] = log_evidence[inner]  # the next row belongs to another sentence
    return logits, adjusted_evidence


@dataclass(frozen=True, kw_only=True)
class LinkedHMMConfig(HMMConfig):
    """Settings of the linked hidden Markov model, in addition to those of `hmm`."""

    link_prefix: str = "link-"
    """Prefix of the names of linking sources."""
    link_sources_vote: bool = False
    """Whether linking sources also vote for the type of their spans."""
    link_accuracy: float = 0.9
    """Prior accuracy of a link, in [0.5, 1)."""
    link_prior_votes: float = 100.0
    """Weight of that prior in pseudo-votes, above 0."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "[0.5, 1)", "link_accuracy")
        check_range(self, "(0, inf)", "link_prior_votes")


class LinkedHMM(HMM):
    """Hidden Markov model with votes on which neighbouring tokens belong together.

    Inside a span of a linking source each token is linked to the one before it; the span's type
    is ignored, and elsewhere the source abstains. A link of source k holds with probability a_k:
    p(link | z(t-1), z(t)) = a_k if the two labels belong to one span or both are O, else 1 - a_k.
    The other sources emit as in `hmm`. EM learns transitions, emissions and a_k. After
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
    config: LinkedHMMConfig
    summary = "hidden Markov model with sources that link neighbouring tokens"

    @init_with(LinkedHMMConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """Run EM from the labels of a simple vote of the tagging sources, extended over links."""
        tagging, links = self._split_sources(train)
        warn_unused_sources(tagging, self.name)
        votes = sparsify_votes(tagging.votes)
        linked: NDArray[np.bool_] = np.logical_or.reduce(links, axis=1)
        baseline = initial_labels(tagging.without_coarse(), self.config.init_labels)
        labels = extend_over_links(baseline, linked, tagging.offsets)
        initial = self._initial_counts(tagging, votes, complete_coarse_spans(tagging, labels))
        prior = self._prior_counts(tagging, initial)
        # Links do not show where a span ends, so with links the initial transition counts always remain as a prior.
        if links.any():
            prior = replace(prior, transition=np.maximum(prior.transition, initial.transition))
        params = initial.normalize(allowed_transitions(tagging))
        accuracy = np.full(links.shape[1], self.config.link_accuracy)
        if previous is not None:
            params, accuracy = HMMParams.from_arrays(previous), previous["link_accuracy"]
        initial_emission = params.emission
        best, trace = self._run_linked_em(params, accuracy, prior, tagging, links)
        diagnostics = trace.diagnostics(emission=best[0].emission, initial_emission=initial_emission)
        return best[0].to_arrays() | {"link_accuracy": best[1]}, replace(diagnostics, sources=tagging.sources)

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """Viterbi labels, marginals and span posteriors, with the links as evidence."""
        tagging, links = self._split_sources(data)
        transition_logits, evidence = self._potentials(
            HMMParams.from_arrays(params), params["link_accuracy"], tagging, links
        )
        return decode(transition_logits, evidence, data, self.config.num_threads)

    def explain(self) -> tuple[str, ...]:
        """Whether there are linking sources at all."""
        if len(self.fitted.params["link_accuracy"]):
            return ()
        return (f"no source is named {self.config.link_prefix}...: the model equals hmm",)

    def _tagging_sources(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        """The sources that vote for types."""
        links_vote, prefix = self.config.link_sources_vote, self.config.link_prefix
        return tuple(name for name in sources if links_vote or not name.startswith(prefix))

    def _split_sources(self, data: Dataset) -> tuple[Dataset, NDArray[np.bool_]]:
        """The data with tagging sources only, and the links of the others (N, J)."""
        is_linking = [name.startswith(self.config.link_prefix) for name in data.sources]
        tagging_sources = self._tagging_sources(data.sources)
        if not tagging_sources:
            raise DataError(
                f"{self.name}: all sources are linking sources ({self.config.link_prefix}...); one must vote for types"
            )
        votes = data.votes[:, is_linking]
        return data.select_sources(tagging_sources), (votes > 0) & (votes % 2 == 0)

    def _potentials(
        self,
        params: HMMParams,
        accuracy: NDArray[np.float64],
        data: Dataset,
        links: NDArray[np.bool_],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Transition logits (N, L, L) and evidence (N, L), with the links."""
        log_emission = params.log_emission(data.allowed_labels())
        evidence = log_evidence(sparsify_votes(data.votes), log_emission, num_threads=self.config.num_threads)
        return linked_transition_logits(params.transition, link_evidence(links, accuracy), evidence, data.offsets)

    def _run_linked_em(
        self,
        initial: HMMParams,
        accuracy: NDArray[np.float64],
        prior: HMMParams,
        train: Dataset,
        links: NDArray[np.bool_],
    ) -> tuple[tuple[HMMParams, NDArray[np.float64]], EMTrace]:
        votes = sparsify_votes(train.votes)
        allowed, num_labels = train.allowed_labels(), len(train.fine_tags)
        same_span = continues_span(num_labels)
        link_accuracy = self.config.link_accuracy
        prior_correct, prior_wrong = self.config.link_prior_votes * np.array([link_accuracy, 1 - link_accuracy])
        transitions = allowed_transitions(train)

        def step(
            state: tuple[HMMParams, NDArray[np.float64]],
        ) -> tuple[tuple[HMMParams, NDArray[np.float64]], float]:
            params, accuracies = state
            transition_logits, evidence = self._potentials(params, accuracies, train, links)
            result = forward_backward(
                default_log_initial(num_labels),
                transition_logits,
                evidence,
                train.offsets,
                return_transitions=True,
                num_threads=self.config.num_threads,
            )
            pair_posteriors = (
                np.zeros((0, num_labels, num_labels))
                if result.transition_posteriors is None
                else result.transition_posteriors
            )
            links_satisfied = (pair_posteriors * same_span).sum(axis=(1, 2), dtype=np.float64) @ links
            expected = self._expected_emission_counts(votes, result.marginals, params, allowed)
            updated = replace(
                params,
                transition=pair_posteriors.sum(axis=0, dtype=np.float64) + prior.transition,
                emission=expected + prior.emission,
            ).normalize(transitions)
            value = float(result.log_likelihood.sum()) + params.log_prior(prior)
            value += (prior_correct * np.log(accuracies) + prior_wrong * np.log(1 - accuracies)).sum()
            total = links.sum(axis=0) + prior_correct + prior_wrong
            return (updated, (links_satisfied + prior_correct) / total), float(value) / max(1, len(train.tokens))

        return run_em(step, (initial, accuracy), name=self.name, config=self.config)
