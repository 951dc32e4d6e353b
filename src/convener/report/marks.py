"""What a model thinks of the spans that a source marks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError
from convener.evaluate.metrics import span_keys
from convener.packed import concat_ranges
from convener.predictions import Predictions
from convener.spans import Spans


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
