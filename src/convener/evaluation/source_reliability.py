"""Recall, precision and F1 of the sources by span, estimated without gold, with intervals.

A model gives every span that a source marks a probability of being true. Their sum H is the expected number of correct
marks. With n marks of a type, and G true spans of it to expect in the text that the source read,

    recall = H / G,    precision = H / n,    F1 = 2 H / (n + G), their harmonic mean.

An interval covers two estimates: that of the model, and that of the agreement between sources. Models are wrong most
often where they contradict what several sources mark alike.

- Precision may be the share of the marks that another source makes, too, if that is higher.
- Recall may be the share that a source finds of the spans that two or more others mark.

The bounds are those of Wilson score intervals of 95 %. A source counts as n / (1 + n / MAX_EFFECTIVE_SPANS) independent
spans, since the errors of a model are shared by many spans. Bounds are rounded outward to whole spans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.ragged import concat_ranges, lengths_to_offsets
from convener.data.spans import Spans
from convener.data.tables import PERCENT, Table
from convener.evaluation.intervals import Interval
from convener.evaluation.metrics import span_keys
from convener.inference.counts import safe_divide

METRICS = ("recall", "precision", "F1")
INTERVAL_NOTE = "brackets: interval of about 95 %"
BOUNDS = tuple(f"{metric} {end}" for metric in METRICS for end in ("low", "high"))
MAX_EFFECTIVE_SPANS = 50
"""The number of independent spans that no source exceeds; see `docs/research-notes.md`."""
MIN_SHARED_SPANS = 5
"""Number of spans of two other sources from which the share that a source finds of them is an estimate of recall."""
Z_95 = 1.96
"""Half width of a 95% interval in standard deviations."""
_MIN_SPANS, _TOLERANCE = 1e-6, 1e-9
"""Of numbers of spans: least one in a denominator, and tolerance for rounding to whole ones."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reliability:
    """How good each of K sources is for each of E types, by span; NaN for a type that a source never gives.

    marks                  (K, E) number of spans that the source marks
    recall, precision, f1  (K, E, 3) estimate, lower and upper bound of an interval of about 95 %
    """

    marks: NDArray[np.int64]
    recall: Floats
    precision: Floats
    f1: Floats

    def intervals(self, source: int, type_index: int) -> tuple[Interval, Interval, Interval]:
        """Recall, precision and F1 of one source for one type."""
        recall, precision, f1 = (
            Interval(*array[source, type_index].tolist()) for array in (self.recall, self.precision, self.f1)
        )
        return recall, precision, f1

    def table(self, sources: Sequence[str], types: Sequence[str], *, title: str, notes: Sequence[str] = ()) -> Table:
        """One row per source and type that it gives, in the order of the sources."""
        rows: list[tuple[Any, ...]] = []
        for k, e in np.argwhere(self.marks > 0).tolist():
            found = self.intervals(k, e)
            bounds = [bound for interval in found for bound in (interval.low, interval.high)]
            rows.append((sources[k], types[e], int(self.marks[k, e]), *(each.value for each in found), *bounds))
        columns = ("source", "type", "marks", *METRICS, *BOUNDS)
        return Table(title=title, columns=columns, rows=rows, formats=dict.fromkeys(columns[3:], PERCENT), notes=notes)


def interval_of(row: Mapping[str, Any], metric: str) -> Interval:
    """A metric and its bounds, from a row of the table as a record."""
    return Interval(row[metric], row[f"{metric} low"], row[f"{metric} high"])


class SpanCounts(NamedTuple):
    """What is expected of the marks of each source, by type.

    marks    (K, E) marks of the source
    correct  (K, E) expected number of correct ones
    present  (K, E) expected number of true spans in the text that it read, at least `correct`
    """

    marks: Floats
    correct: Floats
    present: Floats


def expected_counts(data: Dataset, predictions: Predictions) -> SpanCounts:
    """Expected counts for every source and type under the probabilities of a model.

    Tokens that a source did not read, or for which it votes for a coarse label, do not count.
    """
    spans, num_types = spans_by_source(data), len(data.fine_tags.types)
    marks = _count_by_type([(each, np.ones(len(each))) for each in spans], num_types)
    correct = _count_by_type([(each, span_probabilities(each, predictions)) for each in spans], num_types)
    correct = np.clip(correct, 0, marks)  # up to rounding
    return SpanCounts(marks, correct, np.maximum(_expected_spans(data.without_coarse(), predictions), correct))


def estimate_reliability(data: Dataset, predictions: Predictions, *, by_type: bool = True) -> Reliability:
    """Reliability of every source for every type it gives, from the predictions of a model on the same data.

    by_type: whether to separate types; if not, E is 1, and no value is NaN.

    Tokens that a source did not read, or for which it votes for a coarse label, do not count.

    >>> data = Dataset.from_spans(["X"], [["a", "b"]] * 8, {"s": [[(0, 1, "X")], []] * 4})
    >>> probs = np.tile(np.array([[0, 1, 0], [1, 0, 0]], np.float32), (8, 1))
    >>> labels = np.array([1, 0] * 8, np.int16)
    >>> found = estimate_reliability(data, Predictions(data=data, labels=labels, probabilities=probs))
    >>> [float(interval.value) for interval in found.intervals(0, 0)]
    [0.5, 1.0, 0.6666666666666666]
    """
    marks, hits, present = expected_counts(data, predictions)
    confirmed, found, shared = _agreement(data.without_coarse(), spans_by_source(data))
    if not by_type:
        marks, hits, present, confirmed, found, shared = (
            counts.sum(axis=1, keepdims=True) for counts in (marks, hits, present, confirmed, found, shared)
        )
    recall, precision = _ratio(hits, present), _ratio(hits, marks)
    high_precision = np.maximum(precision, _ratio(confirmed, marks))
    found_share = np.where(shared >= MIN_SHARED_SPANS, _ratio(found, shared), recall)
    low_recall, high_recall = np.minimum(recall, found_share), np.maximum(recall, found_share)
    estimates = {
        "recall": (recall, low_recall, high_recall, present),
        "precision": (precision, precision, high_precision, marks),
        "f1": (
            _harmonic_mean(recall, precision),
            _harmonic_mean(low_recall, precision),
            _harmonic_mean(high_recall, high_precision),
            (marks + present) / 2,
        ),
    }
    given = ((marks > 0) | (not by_type))[:, :, None]
    columns = {name: np.where(given, _with_bounds(*each), np.nan) for name, each in estimates.items()}
    return Reliability(marks=marks.astype(np.int64), **columns)


def spans_by_source(data: Dataset) -> list[Spans]:
    """Spans of each source, without votes for coarse types."""
    fine = data.without_coarse()
    return [fine.tags.spans(column, data.offsets, on_illegal="start") for column in fine.votes.T]


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
    probabilities, offsets = predictions.require_probabilities(), predictions.data.offsets
    starts, lengths = offsets[spans.sentence] + spans.start, (spans.end - spans.start).astype(np.int64)
    i_labels = 2 * spans.type.astype(np.int64) + 2
    labels = np.repeat(i_labels, lengths)
    first = lengths_to_offsets(lengths)[:-1]
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


def _count_by_type(weighted: Sequence[tuple[Spans, Floats]], num_types: int) -> Floats:
    """Sum of the weights of the spans of each source, by type.  -> (K, E)"""
    rows = [np.bincount(spans.type, weights=weights, minlength=num_types) for spans, weights in weighted]
    return np.array(rows, np.float64).reshape(len(weighted), num_types)


def _expected_spans(fine: Dataset, predictions: Predictions) -> Floats:
    """Expected number of true spans by type in the text that each source read: the sum of P(B-).  -> (K, E)"""
    begins = predictions.require_probabilities()[:, 1::2]
    total = begins.sum(axis=0, dtype=np.float64)
    rows = [total - begins[column < 0].sum(axis=0, dtype=np.float64) for column in fine.votes.T]
    expected: Floats = np.maximum(np.array(rows).reshape(len(rows), len(total)), 0.0)
    return expected


def _agreement(fine: Dataset, spans: Sequence[Spans]) -> tuple[Floats, Floats, Floats]:
    """How far the sources mark the same spans, by source and type.  -> 3 x (K, E)

    confirmed  marks of the source that another source makes, too
    shared     spans that two or more other sources mark, in the text that the source read
    found      those of them that the source marks
    """
    num_types = len(fine.tags.types)
    keys = np.concatenate([np.zeros(0, np.int64), *span_keys(*spans)])
    _, first, index, num_marks = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    types = np.concatenate([np.zeros(0, np.int16), *(each.type for each in spans)])[first]
    starts = [fine.offsets[each.sentence] + each.start for each in spans]
    first_token = np.concatenate([np.zeros(0, np.int64), *starts])[first]
    found = np.zeros((3, len(spans), num_types))
    offsets = lengths_to_offsets([len(each) for each in spans])
    for source in range(len(spans)):
        own = index[offsets[source] : offsets[source + 1]]
        others = num_marks.copy()
        others[own] -= 1
        is_shared = (others >= 2) & (fine.votes[first_token, source] >= 0)
        found[0, source] = np.bincount(types[own[others[own] > 0]], minlength=num_types)
        found[1, source] = np.bincount(types[own[others[own] >= 2]], minlength=num_types)
        found[2, source] = np.bincount(types[is_shared], minlength=num_types)
    return found[0], found[1], found[2]


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    """Element-wise quotient; 0 where the denominator is 0."""
    return np.nan_to_num(safe_divide(numerator, denominator))


def _harmonic_mean(a: Floats, b: Floats) -> Floats:
    return _ratio(2 * a * b, a + b)


def _with_bounds(estimate: Floats, lowest: Floats, highest: Floats, num_spans: Floats) -> Floats:
    """An estimate, with Wilson bounds of a lowest and a highest one, rounded to whole spans.  -> (K, E, 3)"""
    size = np.maximum(num_spans, _MIN_SPANS)
    low = np.floor(_wilson(lowest, size, -Z_95) * size + _TOLERANCE) / size
    high = np.ceil(_wilson(highest, size, Z_95) * size - _TOLERANCE) / size
    return np.stack([estimate, np.clip(low, 0, lowest), np.clip(high, highest, 1)], axis=-1)


def _wilson(share: Floats, num_spans: Floats, z: float) -> Floats:
    """Bound of a Wilson score interval, z standard deviations above a share of dependent spans."""
    size = num_spans / (1 + num_spans / MAX_EFFECTIVE_SPANS)
    spread = np.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    return (share + z**2 / (2 * size) + z * spread) / (1 + z**2 / size)
