"""Estimated precision, recall and F1 of each source and type, with intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.ragged import concat_ranges
from convener.data.spans import Spans
from convener.errors import DataError
from convener.evaluation.intervals import Interval
from convener.evaluation.metrics import Score, is_correct, span_keys

Z_95 = 1.96
"""Half width of a 95% interval in standard deviations."""


class SourceEstimate(NamedTuple):
    """Quality of one source for one type, estimated from the predictions and, if available, from gold."""

    source: str
    type: str
    num_spans: int
    precision: Interval
    recall: Interval
    f1: Interval
    gold_score: Score | None


def spans_by_source(data: Dataset) -> list[Spans]:
    """Spans of each source, without votes for coarse types."""
    fine = data.without_coarse()
    return [fine.tags.spans(column, data.offsets, on_illegal="start") for column in fine.votes.T]


def require_probabilities(predictions: Predictions) -> NDArray[np.float32]:
    """Label probabilities; an error if the predictions have none.  -> (N, L)"""
    if predictions.probabilities is None:
        raise DataError("the predictions have no probabilities; predict with a label model")
    return predictions.probabilities


def span_probabilities(spans: Spans, predictions: Predictions) -> NDArray[np.float64]:
    """Probability that each span is correct in boundaries and type.  -> (S,)

    For a span that the model predicts, its score. For any other, an upper bound from the token
    probabilities: the minimum over its tokens and over the probability that the span ends there.

    >>> data = Dataset.from_spans(["PER"], [["Ada", "Lovelace"]], {})
    >>> probs = np.array([[0.1, 0.9, 0.0], [0.2, 0.1, 0.7]], np.float32)
    >>> predictions = Predictions(data=data, labels=np.array([1, 2], np.int16), probabilities=probs)
    >>> span_probabilities(Spans.from_rows([(0, 0, 2, 0), (0, 0, 1, 0)]), predictions).round(2).tolist()
    [0.7, 0.3]
    """
    probabilities, offsets = require_probabilities(predictions), predictions.data.offsets
    starts, lengths = (
        offsets[spans.sentence] + spans.start,
        (spans.end - spans.start).astype(np.int64),
    )
    i_labels = 2 * spans.type.astype(np.int64) + 2
    labels = np.repeat(i_labels, lengths)
    first = np.cumsum(lengths) - lengths
    labels[first] -= 1
    token_probs = probabilities[concat_ranges(starts, lengths), labels].astype(np.float64)
    min_probs = np.minimum.reduceat(token_probs, first) if len(spans) else np.zeros(0)
    ends = starts + lengths
    continuation_probs = np.zeros(len(spans))
    has_next = ends < offsets[spans.sentence + 1]
    continuation_probs[has_next] = probabilities[ends[has_next], i_labels[has_next]]
    min_probs = np.minimum(min_probs, 1 - continuation_probs)
    if predictions.spans.score is not None:
        keys, predicted_keys = span_keys(spans, predictions.spans)
        position = np.searchsorted(predicted_keys, keys)
        position[position == len(predicted_keys)] = 0
        is_match = predicted_keys[position] == keys if len(predicted_keys) else np.zeros(len(keys), bool)
        min_probs[is_match] = predictions.spans.score[position[is_match]]
    return min_probs


def spans_without_votes(spans: Spans, data: Dataset) -> NDArray[np.bool_]:
    """Whether no source marks any token of a span.  -> (S,)"""
    cumulative_votes = np.concatenate([[0], np.cumsum((data.votes > 0).any(axis=1))])
    sentence_starts = data.offsets[spans.sentence]
    without_votes: NDArray[np.bool_] = (
        cumulative_votes[sentence_starts + spans.end] == cumulative_votes[sentence_starts + spans.start]
    )
    return without_votes


def estimate_sources(data: Dataset, predictions: Predictions) -> list[SourceEstimate]:
    """Quality of every source and every type it marks, ordered by source.

    Precision, recall and F1 of the spans of a source against the predicted spans. The intervals cover three
    kinds of uncertainty: the sample of sentences, whether a span is correct given its probability, and
    entities that the model expects but does not predict.

    >>> data = Dataset.from_spans(["X"], [["a", "b"]] * 8, {"s": [[(0, 1, "X")], []] * 4})
    >>> probs = np.tile(np.array([[0.2, 0.8, 0.0], [1.0, 0.0, 0.0]], np.float32), (8, 1))
    >>> labels = np.array([1, 0] * 8, np.int16)
    >>> found = estimate_sources(data, Predictions(data=data, labels=labels, probabilities=probs))
    >>> found[0].num_spans, found[0].precision.value, found[0].recall.value
    (4, 1.0, 0.5)
    """
    fine = data.without_coarse()
    gold = None if data.gold is None else fine.tags.spans(data.gold, data.offsets)
    expected_missed = _expected_missed(predictions)
    result = []
    for name, spans in zip(data.sources, spans_by_source(data), strict=True):
        probabilities = span_probabilities(spans, predictions)
        for type_id in np.unique(spans.type).tolist():
            source_spans = spans.take(spans.type == type_id)
            predicted_spans = predictions.spans.take(predictions.spans.type == type_id)
            gold_spans = None if gold is None else gold.take(gold.type == type_id)
            precision, recall, f1 = _estimate_metrics(
                source_spans,
                predicted_spans,
                probabilities[spans.type == type_id],
                expected_missed[type_id],
                len(data),
            )
            result.append(
                SourceEstimate(
                    name,
                    fine.tags.types[type_id],
                    len(source_spans),
                    precision,
                    recall,
                    f1,
                    _gold_score(source_spans, gold_spans),
                )
            )
    return result


def ratio_interval(
    numerators: NDArray[np.float64],
    denominators: NDArray[np.float64],
    *,
    variance: float = 0.0,
    expected_false: float = 0.0,
    expected_missed: float = 0.0,
) -> Interval:
    """Ratio r = A / B of sums over sentences, with an interval of about 95%.

    numerators, denominators (M,): the terms of A and B per sentence. variance: additional variance of A.
    expected_false, expected_missed: expected decrease of A and increase of B; they lower the lower end.
    Delta method: var(A / B) = (sum of (a - r b)^2 + variance) / B^2.
    """
    total = float(denominators.sum())
    if not total:
        return Interval(0.0, 0.0, 1.0)
    value, lower_value = (
        float(numerators.sum()) / total,
        (float(numerators.sum()) - expected_false) / (total + expected_missed),
    )
    margin = Z_95 * float(np.sqrt(((numerators - value * denominators) ** 2).sum() + variance)) / total
    return Interval(value, max(0.0, lower_value - margin), min(1.0, value + margin))


def _estimate_metrics(
    source_spans: Spans,
    predicted_spans: Spans,
    probabilities: NDArray[np.float64],
    expected_missed: float,
    num_sentences: int,
) -> tuple[Interval, Interval, Interval]:
    """Precision, recall and F1 of the spans of a source against predicted spans."""
    is_match = is_correct(source_spans, predicted_spans)
    match_counts, source_counts, predicted_counts = (
        np.bincount(spans.sentence, minlength=num_sentences).astype(np.float64)
        for spans in (source_spans.take(is_match), source_spans, predicted_spans)
    )
    variance, expected_false = (
        float((probabilities * (1 - probabilities)).sum()),
        float((1 - probabilities)[is_match].sum()),
    )
    return (
        ratio_interval(match_counts, source_counts, variance=variance, expected_false=expected_false),
        ratio_interval(
            match_counts,
            predicted_counts,
            variance=variance,
            expected_false=expected_false,
            expected_missed=expected_missed,
        ),
        ratio_interval(
            2 * match_counts,
            source_counts + predicted_counts,
            variance=4 * variance,
            expected_false=2 * expected_false,
            expected_missed=expected_missed,
        ),
    )


def _expected_missed(predictions: Predictions) -> NDArray[np.float64]:
    """Expected number of entities by type among tokens predicted as O.  -> (E,)"""
    begin_probs = require_probabilities(predictions)[predictions.labels == 0, 1::2]
    expected: NDArray[np.float64] = begin_probs.sum(axis=0, dtype=np.float64)
    return expected


def _gold_score(source_spans: Spans, gold_spans: Spans | None) -> Score | None:
    if gold_spans is None:
        return None
    return Score(int(is_correct(source_spans, gold_spans).sum()), len(source_spans), len(gold_spans))
