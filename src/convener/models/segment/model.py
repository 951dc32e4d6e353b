"""The segment model: true spans, and sources that detect each of them or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from convener.config import check_min, check_range, init_with
from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import LabelOutput
from convener.inference.span_lattice import best_configuration
from convener.models.base import LabelModel, warn_unused_sources
from convener.models.em import EMConfig, run_em
from convener.models.fitted import Params
from convener.models.segment.marks import Ints, Marks, near_duplicate_of, worker_mask
from convener.models.segment.observations import Floats, SpanObservations
from convener.models.segment.outputs import (
    default_threshold,
    highest_scores,
    label_probabilities,
    reported_scores,
)
from convener.models.segment.prior import adjacency, initial_posterior, knowledge, lone_false_share, prior_counts
from convener.models.segment.sources import SourceCounts, SourceParams, e_step, expected_counts
from convener.storage import select_prefix


@dataclass(frozen=True, kw_only=True)
class SegmentConfig(EMConfig):
    """Settings of the segment model."""

    miss_weight: float | None = None
    """Weight of a missed span as evidence against it, for labeling functions (sources with unmarked="abstain"), in
    [0, 1]: the exponent of its probability. 1 takes these sources as independent. By default it is the estimated share
    of false lone marks; a lone mark is one that no second source supports."""
    prior_strength: float = 5.0
    """Multiple of the counts of the first E step that is added as a prior; at least 0. 0 leaves only the weak prior
    counts."""
    threshold: float | None = None
    """Minimum posterior of a predicted span, in [0, 1]. 0 keeps every span that overlaps no more probable one. None
    is 0.4, or 0.4 (1 - 1 / A)^2 if there are workers (sources with unmarked="outside"), A per token."""
    duplicate_similarity: float = 0.7
    """Jaccard similarity of the marks of two labeling functions from which they are near duplicates and count as one,
    in (0, 1]. 1 merges only sources with equal marks."""
    max_iter: int = 30
    tol: float = 1e-7

    def __post_init__(self) -> None:
        super().__post_init__()
        check_min(self, 0, "prior_strength")
        check_range(self, "[0, 1]", "miss_weight", "threshold")
        check_range(self, "(0, 1]", "duplicate_similarity")


class SegmentState(NamedTuple):
    """Fitted parameters.

    counts             expected and prior counts; the probabilities follow from them
    adjacency          (E,) log-weight of two touching spans of one type
    duplicate_of       (K,) the source that each source is a near duplicate of, or its own index
    false_share        (1,) f, the estimated share of false lone marks
    error_rate         (K,) probability that the lone mark of a source is false: f, or 1 - its known precision
    threshold          (1,) default of the setting of this name for this data
    """

    counts: SourceCounts
    adjacency: Floats
    duplicate_of: Ints
    false_share: Floats
    error_rate: Floats
    threshold: Floats

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Named arrays."""
        arrays = self._asdict()
        counts: SourceCounts = arrays.pop("counts")
        return arrays | {f"counts.{name}": np.asarray(array) for name, array in counts._asdict().items()}

    @classmethod
    def from_arrays(cls, arrays: Params) -> Self:
        """The inverse of `to_arrays`."""
        counts = SourceCounts(**select_prefix("counts.", arrays))
        return cls(counts, *(arrays[name] for name in cls._fields[1:]))


class Segment(LabelModel):
    """True spans are disjoint, and every source detects each of them or not, as one event.

    Labeling functions are the sources with unmarked="abstain", workers those with unmarked="outside".

    z is a set of disjoint typed spans. Spans of type c begin at the rate lambda[c]. Source k detects one with
    probability r[k, c], marks it with type u with probability T[k, c, u], and with the bounds o (exact, too short, too
    long or crossing) with probability B[k, o]. Besides, it makes false marks of type u at the rate phi[k, u]. With the
    candidates e that any source marks, simplified,

        p(z | votes) ~ prod_e lambda[c] prod_k (1 - r[k, c])^w
                       prod_marks r[k, c] / (1 - r[k, c])^w T[k, c, u] B[k, o] / phi[k, u]

    over the spans e of z with their types c, the sources k that read e, and the marks on e with their types u and
    bounds o. Factors of extra marks and of shared wrong bounds are left out: see docs/models/segment.md.

    w weights a miss. It is 1 for workers. For labeling functions it is `miss_weight`, by default f, the share of lone
    marks (without a second source) in excess of the number expected from independent, error-free sources; f = 0 makes
    misses uninformative. An unmarked token is no event of its own: it only adds to the text in which a source could
    make false marks. Near duplicates count as one source.

    Posteriors are exact, by forward-backward over the candidates. EM maximizes log p(votes) plus the log-density of
    the prior: the counts of the first E step, times `prior_strength`, and weak counts. The objective never decreases.
    The detection rates r of labeling functions are fixed after the first E step: since misses are weighted by w,
    maximizing would no longer estimate a detection rate. The predicted spans maximize the sum of p(e) - threshold. The
    reported probability of a span that n labeling functions mark exactly is at most 1 - f^n; scores of spans are
    calibrated, see `outputs.reported_scores`.

    The model of the lattice is a semi-Markov chain as in Sarawagi and Cohen, 2004: Semi-Markov conditional random
    fields for information extraction. NIPS 17.

    >>> whole, first, none = [(0, 2, "PER")], [(0, 1, "PER")], []
    >>> votes = {
    ...     "names": [whole, none] * 8 + [first, none],
    ...     "more names": [whole, none] * 8 + [none, none],
    ...     "first names": [first, none] * 9,
    ... }
    >>> words = [["Ada", "Lovelace", "wrote"], ["It", "ran", "well"]] * 9
    >>> data = Dataset.from_spans(["PER"], words, votes)
    >>> predictions = Segment().fit(data).predict(data)
    >>> predictions.tags()[0], predictions.tags()[16]
    (['B-PER', 'I-PER', 'O'], ['B-PER', 'O', 'O'])
    """

    Config = SegmentConfig
    config: SegmentConfig
    summary = "disjoint true spans, each detected by a source or not, as one event"

    @init_with(SegmentConfig)
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)

    def _fit(
        self, train: Dataset, valid: Dataset | None, previous: Params | None, checkpoint_dir: Path | None
    ) -> tuple[Params, Diagnostics]:
        """EM from the shares of support of the candidates; the counts of an earlier fit are a prior."""
        warn_unused_sources(train, self.name)
        marks, is_worker = Marks.from_dataset(train), worker_mask(train)
        if previous is None:
            duplicate_of = near_duplicate_of(marks, is_worker, self.config.duplicate_similarity)
            observed = SpanObservations.from_dataset(train, marks, duplicate_of)
            state, prior = self._initialize(observed)
        else:
            state = SegmentState.from_arrays(previous)
            observed, prior = SpanObservations.from_dataset(train, marks, state.duplicate_of), state.counts
        miss_weight = self._miss_weight(state, is_worker)

        def step(counts: SourceCounts) -> tuple[SourceCounts, float]:
            params = SourceParams.from_counts(counts, is_worker)
            result = e_step(observed, params, miss_weight, state.adjacency, num_threads=self.config.num_threads)
            value = result.log_likelihood + params.log_likelihood(prior)
            expected = expected_counts(observed, result.posterior.spans, result.covered)
            return prior.add(expected.without_detections(~is_worker)), value / max(1, len(train.tokens))

        best, trace = run_em(step, state.counts, name=self.name, config=self.config)
        return state._replace(counts=best).to_arrays(), trace.diagnostics()

    def _initialize(self, observed: SpanObservations) -> tuple[SegmentState, SourceCounts]:
        """The state before the first step, and prior counts: those of one E step, and weak ones."""
        is_worker, strength = observed.is_worker, self.config.prior_strength
        mark_counts = observed.marks.counts(observed.num_sources, observed.num_types)
        known, false_share = knowledge(observed, mark_counts), lone_false_share(observed)
        error_rate = np.where(np.isnan(observed.precision), false_share, 1 - observed.precision)
        posterior = initial_posterior(observed, known, error_rate)
        counts = expected_counts(observed, posterior, observed.covered(posterior))
        counts = counts.add(prior_counts(observed, counts, mark_counts, known))
        touching = adjacency(observed, mark_counts, counts)
        threshold = np.array([default_threshold(observed)])
        state = SegmentState(counts, touching, observed.duplicate_of, np.array([false_share]), error_rate, threshold)
        miss_weight = self._miss_weight(state, is_worker)
        result = e_step(observed, SourceParams.from_counts(counts, is_worker), miss_weight, touching)
        first = expected_counts(observed, result.posterior.spans, result.covered)
        weak = prior_counts(observed, first, mark_counts, known)
        prior = first.scale(strength).add(weak.scale(1 + strength))
        # Detection counts of labeling functions stay at their initial value: move them into the prior.
        rest = first.without_detections(~is_worker)
        prior = prior._replace(
            detected=prior.detected + first.detected - rest.detected, missed=prior.missed + first.missed - rest.missed
        )
        return state._replace(counts=prior.add(rest)), prior

    def _infer(self, params: Params, data: Dataset) -> LabelOutput:
        """The best disjoint spans with their probabilities, and the marginals of the labels."""
        state = SegmentState.from_arrays(params)
        observed = SpanObservations.from_dataset(data, Marks.from_dataset(data), state.duplicate_of)
        predicted, probabilities = self.predict_candidates(state, observed)
        labels = data.tags.labels(observed.candidates.take(predicted), data.offsets)
        scores = reported_scores(observed, probabilities)[predicted].astype(np.float32)
        return LabelOutput(labels, label_probabilities(observed, probabilities, data), scores)

    def explain(self) -> tuple[str, ...]:
        """The estimated share of false lone marks, and which sources count as one."""
        state, names = SegmentState.from_arrays(self.fitted.params), self.fitted.used_sources
        pairs = [f"{names[k]} of {names[other]}" for k, other in enumerate(state.duplicate_of.tolist()) if k != other]
        lone = f"{float(state.false_share[0]):.0%} of the marks without a second source are presumed false"
        return (lone, *([f"near duplicates count as one source: {', '.join(pairs)}"] if pairs else []))

    def predict_candidates(self, state: SegmentState, observed: SpanObservations) -> tuple[NDArray[np.int64], Floats]:
        """Indices of the predicted candidates, and the probability that each candidate is a true span.  -> (p,), (n,)

        The predicted ones are disjoint and have the largest sum of posterior - threshold. The probabilities are
        posteriors, limited because labeling functions share errors.
        """
        params = SourceParams.from_counts(state.counts, observed.is_worker)
        miss_weight = self._miss_weight(state, observed.is_worker)
        result = e_step(observed, params, miss_weight, state.adjacency, num_threads=self.config.num_threads)
        posterior = result.posterior.spans
        threshold = float(state.threshold[0]) if self.config.threshold is None else self.config.threshold
        predicted = np.flatnonzero(best_configuration(observed.lattice, posterior - threshold))
        return predicted, np.minimum(posterior, highest_scores(observed, state.error_rate))

    def _miss_weight(self, state: SegmentState, is_worker: NDArray[np.bool_]) -> Floats:
        """Weight of a missed span, by source.  -> (K,)"""
        weight = float(state.false_share[0]) if self.config.miss_weight is None else self.config.miss_weight
        return np.where(is_worker, 1.0, weight)
