"""Comparison of the labels of a model with those of simple votes, by their expected F1 on train, without gold."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.spans import Spans
from convener.data.votes import VoteSelection, entity_votes
from convener.evaluation.metrics import ratio, span_keys
from convener.models.majority_vote import MajorityVote
from convener.models.segment.marks import Marks
from convener.models.segment.model import Segment, SegmentState
from convener.models.segment.observations import SpanObservations
from convener.models.segment.prior import initial_posterior, knowledge

MIN_F1_LOSS = 0.01
"""A model is probably worse than a vote if its expected F1 is lower by more than this."""
MAX_LOSS_TO_SEGMENT = 0.15
"""A model contradicts `segment` if its expected F1 is lower by more than this. Good models are up to 0.06 below on real
sets, and up to 0.11 on generated corpora, since `segment` itself judges."""
SUPPORT_WEIGHT = 0.25
"""Weight of the support of a span in its probability; the rest is that of the posterior of `segment`."""
VOTE_SCHEMES: tuple[Literal["io", "span"], ...] = ("io", "span")
"""Schemes of the votes that a model is compared with."""


class ExpectedF1(NamedTuple):
    """Expected F1 of a set of spans, and the number of these spans."""

    f1: float
    spans: int


class Comparison(NamedTuple):
    """A model, the simple vote with the higher expected F1, and `segment`."""

    model: ExpectedF1
    vote: ExpectedF1
    segment: ExpectedF1
    scheme: str
    """Scheme of the vote."""

    @property
    def is_worse(self) -> bool:
        """Whether the model is probably worse than the vote."""
        return self.model.f1 < self.vote.f1 - MIN_F1_LOSS

    @property
    def contradicts_segment(self) -> bool:
        """Whether the expected F1 is much lower than that of `segment`: the model makes little of the votes."""
        return self.model.f1 < self.segment.f1 - MAX_LOSS_TO_SEGMENT

    def warning(self, name: str) -> str:
        """Warning that the model with this name is probably worse, and what to use instead."""
        better = "" if name == Segment.name else f"{Segment.name} or "
        return (
            f"{name}: on this data it is probably worse than a simple vote (expected F1 on train: "
            f"{100 * self.model.f1:.0f} with {self.model.spans:,} spans, vote {100 * self.vote.f1:.0f} with "
            f"{self.vote.spans:,}); use {better}majority-vote with scheme={self.scheme}"
        )


def compare_with_votes(data: Dataset, labels: NDArray[np.int16]) -> Comparison:
    """Compare a model's labels (N,) of this data with those of simple votes, by their expected F1.

    The probability that a marked span is true is a weighted mean of two estimates: the posterior of `segment`, and the
    share of the sources that support the span, so that a bad fit of `segment` does not decide alone. Spans without any
    mark cannot be judged. They are ignored up to the number of spans of the larger vote; the rest count as false.
    Coarse votes count as no marks.

    >>> words, name, none = [["Ada", "wrote"], ["It", "ran"]] * 10, [(0, 1, "PER")], []
    >>> data = Dataset.from_spans(["PER"], words, {"a": [name, none] * 10, "b": [name, none] * 9 + [none, none]})
    >>> comparison = compare_with_votes(data, np.zeros(40, np.int16))
    >>> comparison.is_worse, comparison.vote.spans, comparison.model
    (True, 10, ExpectedF1(f1=0.0, spans=0))
    """
    fine = data.without_coarse()
    votes = {
        scheme: fine.tags.spans(MajorityVote(scheme=scheme)._infer({}, fine).labels, fine.offsets)
        for scheme in VOTE_SCHEMES
    }
    spans = data.fine_tags.spans(labels, data.offsets)
    num_marked = np.cumsum(np.append(0, entity_votes(fine).any(axis=1)))
    first = data.offsets[spans.sentence]
    is_marked = num_marked[first + spans.end] > num_marked[first + spans.start]
    most_votes = max(len(each) for each in votes.values())
    num_false = max(0, int((~is_marked).sum()) - most_votes)
    candidates, probabilities, predicted = _fit_segment(fine)
    expected = {scheme: _expected_f1(each, candidates, probabilities) for scheme, each in votes.items()}
    best = max(VOTE_SCHEMES, key=lambda scheme: expected[scheme].f1)
    model = _expected_f1(spans.take(is_marked), candidates, probabilities, num_false=num_false)
    segment = _expected_f1(candidates.take(predicted), candidates, probabilities)
    return Comparison(model._replace(spans=len(spans)), expected[best], segment, best)


def _fit_segment(data: Dataset) -> tuple[Spans, NDArray[np.float64], NDArray[np.int64]]:
    """Fit `segment`.  -> its candidate spans (n,), the probability that each is true (n,), indices of predicted ones"""
    names = [data.sources[source] for source in np.flatnonzero((data.votes > 0).any(axis=0))]
    if not names:
        return Spans.from_array(np.zeros((0, 4), np.int64)), np.zeros(0), np.zeros(0, np.int64)
    data = data.select_sources(names)
    data = VoteSelection.from_dataset(data, keep_coarse=False, keep_duplicates=False).apply(data)
    model = Segment()
    state = SegmentState.from_arrays(model._fit(data, None, None, None)[0])
    observed = SpanObservations.from_dataset(data, Marks.from_dataset(data), state.duplicate_of)
    known = knowledge(observed, observed.marks.counts(observed.num_sources, observed.num_types))
    support = initial_posterior(observed, known, state.error_rate)
    predicted, probabilities = model.predict_candidates(state, observed)
    return observed.candidates, SUPPORT_WEIGHT * support + (1 - SUPPORT_WEIGHT) * probabilities, predicted


def _expected_f1(
    spans: Spans, candidates: Spans, probabilities: NDArray[np.float64], *, num_false: int = 0
) -> ExpectedF1:
    """Expected F1 of these spans and of `num_false` false ones: 2 E[TP] / (predicted + E[true])."""
    keys, candidate_keys = span_keys(spans, candidates)
    num_correct = probabilities[np.isin(candidate_keys, keys)].sum()
    return ExpectedF1(ratio(2 * float(num_correct), len(spans) + num_false + float(probabilities.sum())), len(spans))
