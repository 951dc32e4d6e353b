"""Which source to mend next: where labels are expected to be wrong, and who made them so.

If the model's probabilities can be believed, of the P spans that it finds TP = sum of their scores
are right, G = sum over tokens of P(B-) are there, and F1 is 2 TP / (P + G). A source's wrong marks
do harm where the model follows them, its right ones do no good where the model does not: to mend a
source is to take away the first and to have the second believed. A mark that several sources make
is shared between them. What nobody marks is a gain for a source that is yet to be written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.spans import Spans
from convener.evaluation.metrics import is_correct, span_keys
from convener.report.source_quality import (
    require_probabilities,
    span_probabilities,
    spans_by_source,
    spans_without_votes,
)

MAX_EXAMPLES = 6
MAX_SPANS = 50_000
NEW_SOURCE = ""
"""In the place of a source: nobody marks these."""


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """What is to be gained with one source and one type.

    wrong, lost    spans of the labels expected to be wrong because of it, and right marks of it
                   that are not believed; for nobody: entities that are found by no source
    gain           of F1, if these were put right; true: the same by gold, None without
    examples       its most doubtful phrases, and for nobody the surest that no source marks
    """

    source: str
    type: str
    num_spans: int
    expected_false_positives: float
    expected_misses: float
    f1_gain: float
    gold_f1_gain: float | None
    examples: tuple[tuple[str, int], ...]


def recommend(data: Dataset, predictions: Predictions) -> list[Recommendation]:
    """All there is to gain, the most promising first."""
    fine, source_spans = data.without_coarse(), spans_by_source(data)
    gold = None if data.gold is None else fine.tags.spans(data.gold, data.offsets)
    probabilities = [span_probabilities(spans, predictions) for spans in source_spans]
    vote_shares = _vote_shares(source_spans)
    adopted = [is_correct(spans, predictions.spans) for spans in source_spans]
    gold_correct = None if gold is None else [is_correct(spans, gold) for spans in source_spans]
    expected_counts = _SpanCounts.from_probabilities(predictions)
    gold_counts = None if gold is None else _SpanCounts.from_gold(predictions, gold)
    result = []
    for k, source in enumerate(data.sources):
        for type_id in np.unique(source_spans[k].type).tolist():
            of_type = source_spans[k].type == type_id
            expected_false_positives, expected_misses = _expected_errors(
                probabilities[k], adopted[k], vote_shares[k], of_type
            )
            gold_f1_gain = None
            if gold_correct is not None and gold_counts is not None:
                gold_f1_gain = gold_counts.f1_gain(
                    *_expected_errors(gold_correct[k], adopted[k], vote_shares[k], of_type)
                )
            result.append(
                Recommendation(
                    source=source,
                    type=fine.tags.types[type_id],
                    num_spans=int(of_type.sum()),
                    expected_false_positives=expected_false_positives,
                    expected_misses=expected_misses,
                    f1_gain=expected_counts.f1_gain(expected_false_positives, expected_misses),
                    gold_f1_gain=gold_f1_gain,
                    examples=top_phrases(data, source_spans[k].take(of_type), 1 - probabilities[k][of_type]),
                )
            )
    result += _recommend_new_sources(data, predictions, source_spans, expected_counts, gold_counts, gold)
    return sorted(result, key=lambda fix: -fix.f1_gain)


def top_phrases(data: Dataset, spans: Spans, weight: NDArray[np.float64]) -> tuple[tuple[str, int], ...]:
    """The phrases with the most weight together, and how often each stands there.

    Of very many spans the heaviest are looked at.
    """
    if len(spans) > MAX_SPANS:
        heaviest = np.sort(np.argsort(-weight, kind="stable")[:MAX_SPANS])
        spans, weight = spans.take(heaviest), weight[heaviest]
    total: dict[str, float] = {}
    count: dict[str, int] = {}
    sentence_starts = data.offsets[spans.sentence]
    for a, b, value in zip(
        (sentence_starts + spans.start).tolist(),
        (sentence_starts + spans.end).tolist(),
        weight.tolist(),
        strict=True,
    ):
        phrase = " ".join(data.tokens[a:b].to_list())
        total[phrase] = total.get(phrase, 0.0) + value
        count[phrase] = count.get(phrase, 0) + 1
    selected = sorted(total, key=lambda phrase: (-total[phrase], phrase))[:MAX_EXAMPLES]
    return tuple((phrase, count[phrase]) for phrase in selected if total[phrase] > 0)


@dataclass(frozen=True)
class _SpanCounts:
    """Spans that are right, found and there."""

    correct: float
    predicted: float
    actual: float

    @classmethod
    def from_probabilities(cls, predictions: Predictions) -> _SpanCounts:
        """By the model's own probabilities."""
        correct = float(span_probabilities(predictions.spans, predictions).sum())
        actual = float(require_probabilities(predictions)[:, 1::2].sum(dtype=np.float64))
        return cls(correct, len(predictions.spans), actual)

    @classmethod
    def from_gold(cls, predictions: Predictions, gold: Spans) -> _SpanCounts:
        """By gold."""
        return cls(int(is_correct(predictions.spans, gold).sum()), len(predictions.spans), len(gold))

    @property
    def f1(self) -> float:
        return 2 * self.correct / max(self.predicted + self.actual, 1e-9)

    def f1_gain(self, false_positives: float, misses: float) -> float:
        """Of F1, without so many wrong spans and with so many right ones more."""
        improved = _SpanCounts(self.correct + misses, self.predicted - false_positives + misses, self.actual)
        return improved.f1 - self.f1


def _expected_errors(
    correct_probs: NDArray[np.float64] | NDArray[np.bool_],
    adopted: NDArray[np.bool_],
    vote_shares: NDArray[np.float64],
    selected: NDArray[np.bool_],
) -> tuple[float, float]:
    """Wrong marks that are followed, and right ones that are not."""
    false_positives = ((1.0 - correct_probs) * adopted * vote_shares)[selected].sum()
    misses = (correct_probs * ~adopted * vote_shares)[selected].sum()
    return float(false_positives), float(misses)


def _vote_shares(source_spans: Sequence[Spans]) -> list[NDArray[np.float64]]:
    """One over the number of sources that make each mark."""
    keys = span_keys(*source_spans)
    _, span_index, counts = np.unique(
        np.concatenate([np.zeros(0, np.int64), *keys]), return_inverse=True, return_counts=True
    )
    split = np.split(span_index.reshape(-1), np.cumsum([len(key) for key in keys])[:-1])
    return [1.0 / counts[numbers] for numbers in split[: len(source_spans)]]


def _recommend_new_sources(
    data: Dataset,
    predictions: Predictions,
    source_spans: Sequence[Spans],
    expected_counts: _SpanCounts,
    gold_counts: _SpanCounts | None,
    gold: Spans | None,
) -> list[Recommendation]:
    """For each type what a new source could find: entities that nobody marks, and not the model."""
    probabilities, types = require_probabilities(predictions), data.fine_tags.types
    unvoted = ~(data.votes > 0).any(axis=1) & (predictions.labels == 0)
    unvoted_spans = predictions.spans.take(spans_without_votes(predictions.spans, data))
    result = []
    for type_id, name in enumerate(types):
        expected_misses = float(probabilities[unvoted, 1 + 2 * type_id].sum(dtype=np.float64))
        gold_f1_gain = None
        if gold_counts is not None and gold is not None:
            gold_of_type = gold.take(gold.type == type_id)
            starts = data.offsets[gold_of_type.sentence] + gold_of_type.start
            gold_f1_gain = gold_counts.f1_gain(0.0, float(unvoted[starts].sum()))
        examples = unvoted_spans.take(unvoted_spans.type == type_id)
        score = np.zeros(0) if examples.score is None else examples.score.astype(np.float64)
        result.append(
            Recommendation(
                source=NEW_SOURCE,
                type=name,
                num_spans=0,
                expected_false_positives=0.0,
                expected_misses=expected_misses,
                f1_gain=expected_counts.f1_gain(0.0, expected_misses),
                gold_f1_gain=gold_f1_gain,
                examples=top_phrases(data, examples, score),
            )
        )
    return result
