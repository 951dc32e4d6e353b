"""Recommendations: which source to improve next, by expected gain in F1.

If the probabilities of the model are calibrated, then of the P predicted spans TP = sum of their scores are
correct, G = sum over tokens of P(B-) entities exist, and F1 = 2 TP / (P + G). Improving a source removes its
false positives that the model adopts and adds its correct spans that the model rejects. A span marked by n
sources counts 1/n for each. Entities that no source marks are the gain of a new source.
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
from convener.evaluation.source_reliability import span_probabilities, spans_by_source
from convener.report.source_quality import spans_without_votes

MAX_EXAMPLES = 6
MAX_SPANS = 50_000
"""Spans that examples are selected from."""
NEW_SOURCE = ""
"""Name of the source in recommendations for a new source."""


@dataclass(frozen=True, kw_only=True)
class Recommendation:
    """Expected gain from improving one source for one type."""

    source: str
    """Name of the source, or `NEW_SOURCE`."""
    type: str
    num_spans: int
    """Spans of the type marked by the source."""
    expected_false_positives: float
    """Spans of the source that the model adopts and expects to be wrong."""
    expected_misses: float
    """Correct spans of the source that the model rejects; for a new source, entities without votes."""
    f1_gain: float
    """Expected gain in F1 if these errors were corrected."""
    gold_f1_gain: float | None
    """The same computed from gold labels; None without gold."""
    examples: tuple[tuple[str, int], ...]
    """Least probable phrases with their counts; for a new source, the most probable phrases without votes."""


def recommend(data: Dataset, predictions: Predictions) -> list[Recommendation]:
    """Recommendations for every source and type, largest expected gain first."""
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
    return sorted(result, key=lambda item: -item.f1_gain)


def top_phrases(data: Dataset, spans: Spans, weight: NDArray[np.float64]) -> tuple[tuple[str, int], ...]:
    """The phrases with the largest total weight, and their counts; only the heaviest `MAX_SPANS` spans are used."""
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
    """Numbers of correct, predicted and existing spans."""

    correct: float
    predicted: float
    actual: float

    @classmethod
    def from_probabilities(cls, predictions: Predictions) -> _SpanCounts:
        """Expected counts under the probabilities of the model."""
        correct = float(span_probabilities(predictions.spans, predictions).sum())
        actual = float(predictions.require_probabilities()[:, 1::2].sum(dtype=np.float64))
        return cls(correct, len(predictions.spans), actual)

    @classmethod
    def from_gold(cls, predictions: Predictions, gold: Spans) -> _SpanCounts:
        """Counts against gold labels."""
        return cls(int(is_correct(predictions.spans, gold).sum()), len(predictions.spans), len(gold))

    @property
    def f1(self) -> float:
        return 2 * self.correct / max(self.predicted + self.actual, 1e-9)

    def f1_gain(self, false_positives: float, misses: float) -> float:
        """Gain in F1 from removing false positives and adding correct spans."""
        improved = _SpanCounts(self.correct + misses, self.predicted - false_positives + misses, self.actual)
        return improved.f1 - self.f1


def _expected_errors(
    correct_probs: NDArray[np.float64] | NDArray[np.bool_],
    adopted: NDArray[np.bool_],
    vote_shares: NDArray[np.float64],
    selected: NDArray[np.bool_],
) -> tuple[float, float]:
    """Expected false positives among adopted spans, and expected correct spans among rejected ones."""
    false_positives = ((1.0 - correct_probs) * adopted * vote_shares)[selected].sum()
    misses = (correct_probs * ~adopted * vote_shares)[selected].sum()
    return float(false_positives), float(misses)


def _vote_shares(source_spans: Sequence[Spans]) -> list[NDArray[np.float64]]:
    """One over the number of sources that mark the same span."""
    keys = span_keys(*source_spans)
    _, span_index, counts = np.unique(
        np.concatenate([np.zeros(0, np.int64), *keys]), return_inverse=True, return_counts=True
    )
    by_source = np.split(span_index.reshape(-1), np.cumsum([len(key) for key in keys])[:-1])
    return [1.0 / counts[indices] for indices in by_source[: len(source_spans)]]


def _recommend_new_sources(
    data: Dataset,
    predictions: Predictions,
    source_spans: Sequence[Spans],
    expected_counts: _SpanCounts,
    gold_counts: _SpanCounts | None,
    gold: Spans | None,
) -> list[Recommendation]:
    """Gain of a new source by type: expected entities that neither a source nor the model marks."""
    probabilities, types = predictions.require_probabilities(), data.fine_tags.types
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
