"""Linked hidden Markov model: some sources say which neighbours belong together."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from convener.data import diagnostics
from convener.data.dataset import Dataset
from convener.errors import ConfigError, ConvenerWarning, DataError
from convener.inference.chain import default_log_initial, forward_backward
from convener.inference.coarse import extend_over_links
from convener.inference.decoding import decode
from convener.inference.evidence import log_evidence, sparsify_votes
from convener.models.base import LabelModel, LabelOutput, RecallPrecision, warn_unused_sources
from convener.models.em import EMTrace, run_em
from convener.models.fitted import Params
from convener.models.hmm import HMM, HMMConfig, HMMParams
from convener.models.initialization import complete_coarse_spans
from convener.models.majority_vote import initial_labels


def continues_span(num_labels: int) -> NDArray[np.bool_]:
    """Which moves keep two tokens together: into I-x within a span, or from O to O.  -> (L, L)"""
    same = np.zeros((num_labels, num_labels), bool)
    same[0, 0] = True
    for b_label in range(1, num_labels, 2):
        same[b_label : b_label + 2, b_label + 1] = True
    return same


def link_evidence(links: NDArray[np.bool_], accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much the links at each token speak for staying together, in nats.

    links (N, J), accuracy (J,) -> (N, 2): log p(links | together), log p(links | apart)
    """
    return np.stack([links @ np.log(accuracy), links @ np.log1p(-accuracy)], axis=1)


def linked_transition_logits(
    transition: NDArray[np.float64],
    link_log_likelihood: NDArray[np.float64],
    log_evidence: NDArray[np.float32],
    offsets: NDArray[np.int64],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Moves and evidence of the chain p(z(t) | z(t-1)) p(links(t) | z(t-1), z(t)) p(x(t) | z(t)).

    moves (L, L) probabilities, evidence (N, 2), log_like (N, L).  Logits are normalised by row
    when they are used; what a row loses by that is given to the evidence of the token before, so
    that the product is exact.  A link at a sentence's first token has nothing to link and is
    not heard.  -> logits (N, L, L), evidence (N, L)
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

    def _fit(self, train: Dataset, valid: Dataset | None, previous: Params | None) -> Params:
        """EM from simple labels of the tagging sources, grown over the links."""
        tagging, links = self._split_sources(train)
        warn_unused_sources(tagging, self.name)
        votes = sparsify_votes(tagging.votes)
        if not links.any():
            warnings.warn(
                f"{self.name}: no source {self.config.prefix}... links anything; this is the hmm",
                ConvenerWarning,
                stacklevel=3,
            )
        linked: NDArray[np.bool_] = np.logical_or.reduce(links, axis=1)
        baseline = initial_labels(tagging.without_coarse(), self.config.start)
        labels = extend_over_links(baseline, linked, tagging.offsets)
        initial = self._initial_counts(tagging, votes, complete_coarse_spans(tagging, labels))
        # Where no link is heard, nothing says that a span ends: moves keep to their start, too.
        prior = replace(
            initial,
            transition=initial.transition * links.any(),
            emission=self._prior_strengths(tagging)[:, None, None] * initial.emission,
        )
        params = initial.normalize(self._allowed_transitions(tagging))
        accuracy = np.full(links.shape[1], self.config.accuracy)
        if previous is not None:
            params, accuracy = HMMParams.from_arrays(previous), previous["accuracy"]
        initial_diagnostics = diagnostics.initial_emission(params.emission)
        best, trace = self._run_linked_em(params, accuracy, prior, tagging, links)
        return best[0].to_arrays() | {"accuracy": best[1]} | initial_diagnostics | trace.learning_curve()

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """Best paths, marginals and span probabilities with the links heard."""
        tagging, links = self._split_sources(data)
        transition_logits, evidence = self._potentials(
            HMMParams.from_arrays(params), params["accuracy"], tagging, links
        )
        return LabelOutput(*decode(transition_logits, evidence, data, self.config.threads))

    def _reliability(self, params: Params, train: Dataset, output: LabelOutput) -> RecallPrecision:
        """Counted against the posterior: a link says nothing of types."""
        return LabelModel._reliability(self, params, train, output)

    def diagnostics(self) -> diagnostics.Diagnostics:
        """What the fit left to look at; only tagging sources have emissions."""
        return diagnostics.Diagnostics.from_params(self._tagging_sources(self.fitted.used_sources), self.fitted.params)

    def _tagging_sources(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        """The sources whose tags are heard."""
        links_vote, prefix = self.config.both, self.config.prefix
        return tuple(name for name in sources if links_vote or not name.startswith(prefix))

    def _split_sources(self, data: Dataset) -> tuple[Dataset, NDArray[np.bool_]]:
        """The data with tagging sources only, and where the others link a token.  -> (N, J)"""
        is_linking = [name.startswith(self.config.prefix) for name in data.sources]
        tagging_sources = self._tagging_sources(data.sources)
        if not tagging_sources:
            raise DataError(
                f"{self.name}: every source is a linking one ({self.config.prefix}...); at least one must tag"
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
        """Moves (N, L, L) as logits and evidence (N, L), both with the links in them."""
        log_emission = params.log_emission(data.allowed_labels())
        evidence = log_evidence(sparsify_votes(data.votes), log_emission, num_threads=self.config.threads)
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
        prior_correct, prior_wrong = self.config.links * np.array([self.config.accuracy, 1 - self.config.accuracy])
        allowed_transitions = self._allowed_transitions(train)

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
                num_threads=self.config.threads,
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
                label_counts=result.marginals.sum(axis=0, dtype=np.float64),
            ).normalize(allowed_transitions)
            value = result.log_likelihood.sum() + (prior.emission * np.log(params.emission)).sum()
            nonzero = params.transition > 0
            value += ((prior.transition + 1)[nonzero] * np.log(params.transition[nonzero])).sum()
            value += (prior_correct * np.log(accuracies) + prior_wrong * np.log(1 - accuracies)).sum()
            total = links.sum(axis=0) + prior_correct + prior_wrong
            return (updated, (links_satisfied + prior_correct) / total), float(value) / max(1, len(train.tokens))

        return run_em(
            step,
            (initial, accuracy),
            name=self.name,
            limits=self.config,
        )
