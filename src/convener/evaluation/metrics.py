"""Entity-level metrics: precision, recall and F1 of predicted spans against gold spans.

A span is correct if sentence, bounds and type equal those of a gold span. Two modes differ in how they read
an I- tag that continues no span:

conlleval  it starts a span, as in conlleval and in seqeval's default mode
strict     it is dropped together with the I- tags that continue it, as in seqeval's strict mode
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.schemes import RepairPolicy
from convener.data.spans import Spans
from convener.data.tags import TagSet
from convener.errors import ConfigError, DataError, MismatchError, unknown_name_message

Mode = Literal["conlleval", "strict"]
MODES: tuple[Mode, ...] = get_args(Mode)
_REPAIR_POLICY: dict[str, RepairPolicy] = {"conlleval": "start", "strict": "drop"}
Labels = NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Score:
    """Numbers of correct, predicted and gold spans; precision, recall and F1 follow from them.

    >>> score = Score(correct=1, predicted=2, gold=4)
    >>> score.precision, score.recall, round(score.f1, 4)
    (0.5, 0.25, 0.3333)
    """

    correct: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        """Share of the predicted spans that are correct; 0.0 if there are none."""
        return ratio(self.correct, self.predicted)

    @property
    def recall(self) -> float:
        """Share of the gold spans that are predicted; 0.0 if there are none."""
        return ratio(self.correct, self.gold)

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall."""
        return ratio(2 * self.correct, self.predicted + self.gold)

    def to_json(self) -> dict[str, float | int]:
        """Metrics and counts by name."""
        return {
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
            "correct": self.correct,
            "predicted": self.predicted,
            "gold": self.gold,
        }


@dataclass(frozen=True)
class Scores:
    """Score over all spans (micro average) and per entity type."""

    micro: Score
    per_type: dict[str, Score]

    @property
    def macro_f1(self) -> float:
        """Mean F1 over the types that occur in gold or predicted spans, as in seqeval."""
        values = [score.f1 for score in self.per_type.values() if score.predicted or score.gold]
        return ratio(sum(values), len(values))


def score_labels(
    predicted: Labels,
    gold: Labels,
    offsets: NDArray[np.int64],
    tags: TagSet,
    mode: Mode = "conlleval",
) -> Scores:
    """Scores of labels, which may contain illegal transitions; abstentions (-1) count as O.

    predicted (N,), gold (N,), offsets (M+1,).

    >>> tags = TagSet(("PER",))
    >>> predicted, gold = np.array([0, 2, 2]), np.array([0, 1, 2])  # O I-PER I-PER, O B-PER I-PER
    >>> offsets = np.array([0, 3])
    >>> score_labels(predicted, gold, offsets, tags).micro.f1
    1.0
    >>> score_labels(predicted, gold, offsets, tags, "strict").micro.f1
    0.0
    """
    _check_same_length(predicted, gold)
    return score_spans(
        labels_to_spans(predicted, offsets, tags, mode),
        labels_to_spans(gold, offsets, tags, mode),
        tags.types,
    )


def score_spans(predicted: Spans, gold: Spans, types: tuple[str, ...]) -> Scores:
    """Scores of predicted spans against gold spans; neither may contain duplicates."""
    correct_spans = predicted.take(is_correct(predicted, gold))
    counts = np.stack([np.bincount(spans.type, minlength=len(types)) for spans in (correct_spans, predicted, gold)])
    return Scores(
        Score(*counts.sum(axis=1).tolist()),
        {name: Score(*counts[:, number].tolist()) for number, name in enumerate(types)},
    )


def token_accuracy(predicted: Labels, gold: Labels) -> float:
    """Share of the tokens, O included, whose label equals gold."""
    _check_same_length(predicted, gold)
    return ratio(np.count_nonzero(np.asarray(predicted) == np.asarray(gold)), len(gold))


def labels_to_spans(labels: Labels, offsets: NDArray[np.int64], tags: TagSet, mode: Mode = "conlleval") -> Spans:
    """Spans of labels (N,), which may contain illegal transitions."""
    if mode not in MODES:
        raise ConfigError(unknown_name_message("mode", str(mode), MODES))
    ids = np.asarray(labels)
    if not -1 <= ids.min(initial=0) <= ids.max(initial=0) < len(tags):
        raise DataError(f"labels must be in [-1, {len(tags)}), got {ids.min()} to {ids.max()}")
    return tags.spans(ids.astype(np.int16, copy=False), offsets, on_illegal=_REPAIR_POLICY[mode])


def is_correct(predicted: Spans, gold: Spans) -> NDArray[np.bool_]:
    """Which predicted spans equal a gold span in sentence, bounds and type.  -> (P,)"""
    predicted_keys, gold_keys = span_keys(predicted, gold)
    return np.isin(predicted_keys, gold_keys)


def span_keys(*span_sets: Spans, typed: bool = True) -> list[NDArray[np.int64]]:
    """Integer keys per set of spans: equal if and only if sentence, bounds and (if typed) type are equal.

    Keys increase in text order and are comparable across the sets of one call.
    """
    columns = [
        np.concatenate([np.zeros(0, np.int64), *(getattr(spans, name) for spans in span_sets)])
        for name in ("sentence", "start", "end", "type")[: 4 if typed else 3]
    ]
    num_keys = 1
    for column in columns:
        num_keys *= int(column.max(initial=0)) + 1
    if num_keys >= 2**63:  # the product of the ranges does not fit into int64: rank the keys that occur
        _, keys = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        keys = keys.reshape(-1).astype(np.int64)
    else:
        keys = np.zeros(len(columns[0]), np.int64)
        for column in columns:
            keys = keys * (int(column.max(initial=0)) + 1) + column
    return np.split(keys, np.cumsum([len(spans) for spans in span_sets])[:-1])


def sentence_counts(predicted: Spans, gold: Spans, num_sentences: int) -> NDArray[np.int64]:
    """Numbers of correct, predicted and gold spans per sentence.  -> (M, 3)"""
    correct_spans = predicted.take(is_correct(predicted, gold))
    columns = [np.bincount(spans.sentence, minlength=num_sentences) for spans in (correct_spans, predicted, gold)]
    return np.stack(columns, axis=1).astype(np.int64)


def ratio(numerator: float | np.integer[Any], denominator: float) -> float:
    """Quotient; 0.0 if the denominator is 0."""
    return float(numerator) / denominator if denominator else 0.0


def check_same_tokens(predicted: Dataset, data: Dataset) -> None:
    """Raise MismatchError, naming the first difference, if predictions and data differ in sentences or tokens."""
    if predicted.tokens == data.tokens and np.array_equal(predicted.offsets, data.offsets):
        return
    for sentence, (left, right) in enumerate(zip(predicted, data, strict=False)):
        if len(left.tokens) != len(right.tokens):
            raise MismatchError(
                f"sentence {sentence} has {len(left.tokens)} tokens in the predictions, {len(right.tokens)} in the data"
            )
        for token, (own, expected) in enumerate(zip(left.tokens, right.tokens, strict=True)):
            if own != expected:
                raise MismatchError(
                    f"predictions and data contain different text: sentence {sentence}, token {token} is {own!r} in "
                    f"the predictions, {expected!r} in the data"
                )
    raise MismatchError(
        f"expected {len(data)} sentences as in the data, found {len(predicted)} in the predictions; "
        f"the first {min(len(predicted), len(data))} are equal"
    )


def _check_same_length(predicted: Labels, gold: Labels) -> None:
    if np.shape(predicted) != np.shape(gold):
        raise MismatchError(f"expected as many predicted as gold labels, found {len(predicted)} and {len(gold)}")
