"""What a model thinks of the spans that a source marks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError
from convener.evaluate.metrics import span_keys
from convener.packed import ranges
from convener.predictions import Predictions
from convener.spans import Spans


def marks_of(data: Dataset) -> list[Spans]:
    """The spans of each source, coarse labels left out."""
    fine = data.fine()
    return [fine.tags.spans(column, data.offsets, illegal="begin") for column in fine.votes.T]


def shares_of(answer: Predictions) -> NDArray[np.float32]:
    """The probabilities of a model's labels; an error where there are none.  -> (N, L)"""
    if answer.probabilities is None:
        raise DataError("these predictions came without probabilities; label the data with a model")
    return answer.probabilities


def probability_of(spans: Spans, answer: Predictions) -> NDArray[np.float64]:
    """How probable it is that each span is right, bounds and type.  -> (S,)

    That of the model where it has found the same span. Of others only the tokens' probabilities
    are known: the least of them, and that the span does not go on, is the most it can be.

    >>> data = Dataset.from_spans(["PER"], [["Ada", "Lovelace"]], {})
    >>> shares = np.array([[0.1, 0.9, 0.0], [0.2, 0.1, 0.7]], np.float32)
    >>> answer = Predictions(data=data, labels=np.array([1, 2], np.int16), probabilities=shares)
    >>> probability_of(Spans.of([(0, 0, 2, 0), (0, 0, 1, 0)]), answer).round(2).tolist()
    [0.7, 0.3]
    """
    shares, offsets = shares_of(answer), answer.data.offsets
    begins, sizes = (
        offsets[spans.sentence] + spans.start,
        (spans.end - spans.start).astype(np.int64),
    )
    inner = 2 * spans.type.astype(np.int64) + 2
    labels = np.repeat(inner, sizes)
    first = np.cumsum(sizes) - sizes
    labels[first] -= 1
    found = shares[ranges(begins, sizes), labels].astype(np.float64)
    least = np.minimum.reduceat(found, first) if len(spans) else np.zeros(0)
    ends = begins + sizes
    goes_on = np.zeros(len(spans))
    followed = ends < offsets[spans.sentence + 1]
    goes_on[followed] = shares[ends[followed], inner[followed]]
    least = np.minimum(least, 1 - goes_on)
    if answer.spans.score is not None:
        theirs, ours = span_keys(spans, answer.spans)
        place = np.searchsorted(ours, theirs)
        place[place == len(ours)] = 0
        same = ours[place] == theirs if len(ours) else np.zeros(len(theirs), bool)
        least[same] = answer.spans.score[place[same]]
    return least


def unmarked(spans: Spans, data: Dataset) -> NDArray[np.bool_]:
    """Which spans touch nothing that a source marks.  -> (S,)"""
    before = np.concatenate([[0], np.cumsum((data.votes > 0).any(axis=1))])
    begins = data.offsets[spans.sentence]
    found: NDArray[np.bool_] = before[begins + spans.end] == before[begins + spans.start]
    return found
