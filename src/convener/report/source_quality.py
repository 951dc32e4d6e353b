"""Estimated quality of each source and type beside the true one, and spans without votes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.spans import Spans
from convener.evaluation.intervals import Interval
from convener.evaluation.metrics import Score, score_spans
from convener.evaluation.source_reliability import estimate_reliability, spans_by_source


class SourceEstimate(NamedTuple):
    """Quality of one source for one type, estimated from the predictions and, if available, from gold."""

    source: str
    type: str
    num_spans: int
    recall: Interval
    precision: Interval
    f1: Interval
    gold_score: Score | None


def spans_without_votes(spans: Spans, data: Dataset) -> NDArray[np.bool_]:
    """Whether no source marks any token of a span.  -> (S,)"""
    cumulative_votes = np.concatenate([[0], np.cumsum((data.votes > 0).any(axis=1))])
    sentence_starts = data.offsets[spans.sentence]
    without_votes: NDArray[np.bool_] = (
        cumulative_votes[sentence_starts + spans.end] == cumulative_votes[sentence_starts + spans.start]
    )
    return without_votes


def estimate_sources(data: Dataset, predictions: Predictions) -> list[SourceEstimate]:
    """Quality of every source and every type it marks, ordered by source: that of `estimate_reliability`, and gold.

    Like `LabelModel.reliability`, which estimates it on train; but on any data.

    >>> data = Dataset.from_spans(["X"], [["a", "b"]] * 8, {"s": [[(0, 1, "X")], []] * 4})
    >>> probs = np.tile(np.array([[0, 1, 0], [1, 0, 0]], np.float32), (8, 1))
    >>> labels = np.array([1, 0] * 8, np.int16)
    >>> found = estimate_sources(data, Predictions(data=data, labels=labels, probabilities=probs))
    >>> found[0].num_spans, found[0].precision.value, found[0].recall.value
    (4, 1.0, 0.5)
    """
    reliability, types = estimate_reliability(data, predictions), data.fine_tags.types
    gold_scores = _gold_scores(data)
    return [
        SourceEstimate(
            data.sources[k],
            types[e],
            int(reliability.marks[k, e]),
            *reliability.intervals(k, e),
            gold_scores[k][types[e]] if gold_scores else None,
        )
        for k, e in np.argwhere(reliability.marks > 0).tolist()
    ]


def _gold_scores(data: Dataset) -> list[dict[str, Score]]:
    """Scores of each source by type on the text that it read; empty without gold."""
    if data.gold is None:
        return []
    fine = data.without_coarse()
    gold = fine.tags.spans(data.gold, data.offsets)
    first_token = data.offsets[gold.sentence] + gold.start
    return [
        score_spans(spans, gold.take(votes[first_token] >= 0), fine.tags.types).per_type
        for spans, votes in zip(spans_by_source(data), fine.votes.T, strict=True)
    ]
