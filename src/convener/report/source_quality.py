"""How good each source is for each type, and how far that is to be trusted."""

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


def spans_by_source(data: Dataset) -> list[Spans]:
    """The spans of each source, coarse labels left out."""
    fine = data.without_coarse()
    return [fine.tags.spans(column, data.offsets, on_illegal="begin") for column in fine.votes.T]


def require_probabilities(predictions: Predictions) -> NDArray[np.float32]:
    """The probabilities of a model's labels; an error where there are none.  -> (N, L)"""
    if predictions.probabilities is None:
        raise DataError("these predictions came without probabilities; label the data with a model")
    return predictions.probabilities


def span_probabilities(spans: Spans, predictions: Predictions) -> NDArray[np.float64]:
    """How probable it is that each span is right, bounds and type.  -> (S,)

    That of the model where it has found the same span. Of others only the tokens' probabilities
    are known: the least of them, and that the span does not go on, is the most it can be.

    >>> data = Dataset.from_spans(["PER"], [["Ada", "Lovelace"]], {})
    >>> shares = np.array([[0.1, 0.9, 0.0], [0.2, 0.1, 0.7]], np.float32)
    >>> answer = Predictions(data=data, labels=np.array([1, 2], np.int16), probabilities=shares)
    >>> span_probabilities(Spans.from_rows([(0, 0, 2, 0), (0, 0, 1, 0)]), answer).round(2).tolist()
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
    """Which spans touch nothing that a source marks.  -> (S,)"""
    cumulative_votes = np.concatenate([[0], np.cumsum((data.votes > 0).any(axis=1))])
    sentence_starts = data.offsets[spans.sentence]
    without_votes: NDArray[np.bool_] = (
        cumulative_votes[sentence_starts + spans.end] == cumulative_votes[sentence_starts + spans.start]
    )
    return without_votes


Z_95 = 1.96
"""Standard deviations on either side that hold 95 %."""


class SourceEstimate(NamedTuple):
    """What one source is worth for one type, by the model's labels and, if known, by gold."""

    source: str
    type: str
    num_spans: int
    precision: Interval
    recall: Interval
    f1: Interval
    gold_score: Score | None


def estimate_sources(data: Dataset, predictions: Predictions) -> list[SourceEstimate]:
    """Of every source and every type that it marks, source by source.

    Precision, recall and F1 of its spans, if the model's labels were the truth. The intervals
    know three doubts: other sentences might have been drawn, marks may be right or wrong other
    than the model thinks, and there may be entities that it does not find, as many as it expects.

    >>> data = Dataset.from_spans(["X"], [["a", "b"]] * 8, {"s": [[(0, 1, "X")], []] * 4})
    >>> shares = np.tile(np.array([[0.2, 0.8, 0.0], [1.0, 0.0, 0.0]], np.float32), (8, 1))
    >>> labels = np.array([1, 0] * 8, np.int16)
    >>> found = estimate_sources(data, Predictions(data=data, labels=labels, probabilities=shares))
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
    """A ratio of sums over sentences, and about 95 % around it.

    part, whole (M,); doubt: variance of the sum of the parts that lies in the parts themselves;
    false, unseen: how much less the parts, and how much more the whole is expected to be, which
    moves the lower end. The delta method: var(A / B) = (sum of (a - r b)^2 + doubt) / B^2.
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
    """Precision, recall and F1 of ours where theirs are the truth."""
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
    """Entities of each type that are expected where the labels have none.  -> (E,)"""
    begin_probs = require_probabilities(predictions)[predictions.labels == 0, 1::2]
    expected: NDArray[np.float64] = begin_probs.sum(axis=0, dtype=np.float64)
    return expected


def _gold_score(source_spans: Spans, gold_spans: Spans | None) -> Score | None:
    if gold_spans is None:
        return None
    return Score(int(is_correct(source_spans, gold_spans).sum()), len(source_spans), len(gold_spans))
