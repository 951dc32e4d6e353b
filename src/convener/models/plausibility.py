"""Whether a model labels its training data better than a simple vote, estimated without gold."""

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

MARGIN = 0.01
"""A model is probably worse than a vote if its expected F1 is lower by more than this."""
SUPPORT_WEIGHT = 0.25
"""Weight of the support of a span in its probability; the rest is that of the posterior of `segment`."""
VOTES: tuple[Literal["io", "span"], ...] = ("io", "span")
"""Schemes of the votes that a model is compared with."""


class Expected(NamedTuple):
    """Expected F1 of spans, and their number."""

    f1: float
    spans: int


class Comparison(NamedTuple):
    """A model, and the better of two simple votes."""

    model: Expected
    vote: Expected
    scheme: str
    """Scheme of the vote."""

    @property
    def is_worse(self) -> bool:
        """Whether the model is probably worse than the vote."""
        return self.model.f1 < self.vote.f1 - MARGIN


def compare_with_votes(data: Dataset, labels: NDArray[np.int16]) -> Comparison:
    """Compare a model's labels (N,) of this data with those of simple votes, by their expected F1.

    The probability that a marked span is true is a weighted mean of two estimates: the posterior of `segment`, and the
    share of the sources that support the span, which protects from wrong fits. Spans where no source marks anything
    count as false only as far as they outnumber the spans of the vote: nothing is known of them. Coarse votes
    count as no marks.

    >>> words, name, none = [["Ada", "wrote"], ["It", "ran"]] * 10, [(0, 1, "PER")], []
    >>> data = Dataset.from_spans(["PER"], words, {"a": [name, none] * 10, "b": [name, none] * 9 + [none, none]})
    >>> comparison = compare_with_votes(data, np.zeros(40, np.int16))
    >>> comparison.is_worse, comparison.vote.spans, comparison.model
    (True, 10, Expected(f1=0.0, spans=0))
    """
    fine = data.without_coarse()
    votes = {
        scheme: fine.tags.spans(MajorityVote(scheme=scheme)._infer({}, fine).labels, fine.offsets) for scheme in VOTES
    }
    spans = data.fine_tags.spans(labels, data.offsets)
    num_marked = np.cumsum(np.append(0, entity_votes(fine).any(axis=1)))
    first = data.offsets[spans.sentence]
    is_marked = num_marked[first + spans.end] > num_marked[first + spans.start]
    most_votes = max(len(each) for each in votes.values())
    num_false = max(0, int((~is_marked).sum()) - most_votes)
    candidates, probabilities = _candidates(fine)
    expected = {scheme: _expected(each, candidates, probabilities) for scheme, each in votes.items()}
    best = max(VOTES, key=lambda scheme: expected[scheme].f1)
    model = _expected(spans.take(is_marked), candidates, probabilities, num_false=num_false)
    return Comparison(model._replace(spans=len(spans)), expected[best], best)


def _candidates(data: Dataset) -> tuple[Spans, NDArray[np.float64]]:
    """All marked spans, and the probability that each is true."""
    names = [data.sources[source] for source in np.flatnonzero((data.votes > 0).any(axis=0))]
    if not names:
        return Spans.from_array(np.zeros((0, 4), np.int64)), np.zeros(0)
    data = data.select_sources(names)
    data = VoteSelection.from_dataset(data, keep_coarse=False, keep_duplicates=False).apply(data)
    model = Segment()
    state = SegmentState.from_arrays(model._fit(data, None, None, None)[0])
    observed = SpanObservations.from_dataset(data, Marks.from_dataset(data), state.heads)
    known = knowledge(observed, observed.marks.counts(observed.num_sources, observed.num_types))
    support = initial_posterior(observed, known, state.error_rate)
    posterior = model._span_probabilities(state, observed)
    return observed.candidates, SUPPORT_WEIGHT * support + (1 - SUPPORT_WEIGHT) * posterior


def _expected(spans: Spans, candidates: Spans, probabilities: NDArray[np.float64], *, num_false: int = 0) -> Expected:
    """Expected F1 of spans, and of as many false ones: ratio of expected counts."""
    keys, candidate_keys = span_keys(spans, candidates)
    num_correct = probabilities[np.isin(candidate_keys, keys)].sum()
    return Expected(ratio(2 * float(num_correct), len(spans) + num_false + float(probabilities.sum())), len(spans))
