"""Evaluation of predictions against gold, with majority vote as the baseline."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.predictions import UPPER_BOUND, GoldUse, Predictions, is_upper_bound
from convener.data.spans import Spans
from convener.data.tables import PERCENT, Table
from convener.data.tags import TagSet
from convener.errors import ConfigError, DataError, unknown_name_message
from convener.evaluation.calibration import Calibration, span_calibration, token_calibration
from convener.evaluation.error_types import ErrorTypeCounts, count_error_types
from convener.evaluation.intervals import (
    Intervals,
    bootstrap_intervals,
    paired_difference,
    resampling_units,
    sum_by_unit,
)
from convener.evaluation.metrics import (
    MODES,
    Mode,
    Scores,
    check_same_tokens,
    labels_to_spans,
    score_spans,
    sentence_counts,
    token_accuracy,
)
from convener.inference.voting import majority_vote_io

_METRICS = ("precision", "recall", "f1")


@dataclass(frozen=True, eq=False, kw_only=True)
class Evaluation:
    """Scores of predictions and the analyses behind them; without gold, every metric is None.

    model                        name of the model that made the predictions
    mode                         how illegal labels are read, see `evaluation.metrics`
    types                        entity types of the data, then types that occur only in the predictions
    has_sources                  whether the data has sources
    uses_gold                    which gold labels the model used, as in `Predictions`
    scores                       micro average and per type
    token_accuracy               share of the tokens whose label equals gold
    majority_vote                scores of majority vote in the IO scheme; None without sources
    error_types                  spans by error type, and the confusion of entity types
    calibration                  by "tokens", "entity_tokens" and "spans", if there are probabilities or span scores
    intervals                    bootstrap intervals, if requested
    difference_to_majority_vote  intervals of the paired difference to majority vote, if requested
    """

    model: str
    mode: Mode
    types: tuple[str, ...]
    has_sources: bool
    uses_gold: GoldUse = "none"
    scores: Scores | None = None
    token_accuracy: float | None = None
    majority_vote: Scores | None = None
    error_types: ErrorTypeCounts | None = None
    calibration: dict[str, Calibration] = field(default_factory=dict)
    intervals: Intervals | None = None
    difference_to_majority_vote: Intervals | None = None

    @property
    def precision(self) -> float | None:
        """Micro-averaged precision of spans."""
        return None if self.scores is None else self.scores.micro.precision

    @property
    def recall(self) -> float | None:
        """Micro-averaged recall of spans."""
        return None if self.scores is None else self.scores.micro.recall

    @property
    def f1(self) -> float | None:
        """Micro-averaged F1 of spans."""
        return None if self.scores is None else self.scores.micro.f1

    @property
    def macro_f1(self) -> float | None:
        """Mean F1 over the types that occur in gold or predicted spans."""
        return None if self.scores is None else self.scores.macro_f1

    @property
    def per_type(self) -> dict[str, dict[str, Any]]:
        """Precision, recall, F1 and support (number of gold spans) by entity type."""
        empty = dict.fromkeys((*_METRICS, "support"))
        if self.scores is None:
            return {name: dict(empty) for name in self.types}
        return {
            name: {
                "precision": score.precision,
                "recall": score.recall,
                "f1": score.f1,
                "support": score.gold,
            }
            for name, score in self.scores.per_type.items()
        }

    def table(self) -> Table:
        """Scores of the model and of majority vote."""
        rows: list[tuple[Any, ...]] = [(self.model or "predictions", *_table_row(self.scores))]
        if self.has_sources:
            rows.append(("majority vote (IO)", *_table_row(self.majority_vote)))
        return Table(
            title=f"Entity-level scores, {self.mode} mode",
            columns=("", "precision", "recall", "F1", "macro F1", "gold spans"),
            rows=rows,
            formats=dict.fromkeys(("precision", "recall", "F1", "macro F1"), PERCENT),
            notes=self._notes(),
        )

    def type_table(self) -> Table:
        """Scores of the model, one row per entity type."""
        return Table(
            title=f"{self.model or 'predictions'} by entity type, {self.mode} mode",
            columns=("type", "precision", "recall", "F1", "gold spans"),
            rows=[(name, *values.values()) for name, values in self.per_type.items()],
            formats=dict.fromkeys(("precision", "recall", "F1"), PERCENT),
        )

    def to_json(self) -> dict[str, Any]:
        """All results as JSON values; metrics are in [0, 1], and null without gold."""
        difference = self.difference_to_majority_vote
        return {
            "model": self.model,
            "uses_gold": self.uses_gold,
            "mode": self.mode,
            **_metric_values(self.scores),
            "token_accuracy": self.token_accuracy,
            "per_type": self.per_type,
            "majority_vote": self.majority_vote and _metric_values(self.majority_vote),
            "error_types": self.error_types and self.error_types.to_json(),
            "calibration": {name: part.to_json() for name, part in self.calibration.items()},
            "intervals": self.intervals and self.intervals.to_json(),
            "difference_to_majority_vote": difference and difference.to_json(),
        }

    def __str__(self) -> str:
        tables = [self.table(), self.type_table()] if len(self.types) > 1 else [self.table()]
        return "\n\n".join(map(str, tables))

    def _notes(self) -> list[str]:
        if self.scores is None:
            return ["no gold labels; scores are unavailable"]
        notes = [f"token accuracy {self.token_accuracy:.2%}"]
        if is_upper_bound(self.uses_gold):
            notes.insert(0, f"{self.model} uses gold labels: {UPPER_BOUND}")
        elif self.uses_gold == "valid":
            notes.insert(0, f"{self.model} used gold labels of the validation split for early stopping")
        if self.intervals:
            level, f1 = self.intervals.level, self.intervals.f1
            notes.append(
                f"F1 {level:.0%} confidence interval {f1.low:.2%} to {f1.high:.2%} "
                f"({self.intervals.samples:,} bootstrap samples of {self.intervals.units})"
            )
        notes += [
            f"expected calibration error of {name.replace('_', ' ')} {part.ece:.4f}"
            for name, part in self.calibration.items()
            if part.ece is not None
        ]
        if self.majority_vote and self.scores.micro.f1 < self.majority_vote.micro.f1:
            gap = 100 * (self.majority_vote.micro.f1 - self.scores.micro.f1)
            notes.append(f"F1 is {gap:.2f} points below majority vote")
        return notes


def evaluate(
    predictions: Predictions,
    data: Dataset,
    *,
    mode: Mode = "conlleval",
    bootstrap_samples: int = 0,
    seed: int = 0,
) -> Evaluation:
    """Scores of predictions against the gold labels of `data`, with majority vote as the baseline.

    Predictions and data must have the same sentences. Entity types are matched by name. `mode` decides how illegal
    labels are read, see `evaluation.metrics`. `bootstrap_samples` is the number of samples for confidence intervals,
    0 for none; documents are resampled if the data has several, sentences otherwise.

    >>> data = Dataset.from_spans(
    ...     ["PER"],
    ...     [["Ada", "Lovelace", "met", "Turing"]],
    ...     {"first names": [[(0, 1, "PER")]]},
    ...     gold=[[(0, 2, "PER"), (3, 4, "PER")]],
    ... )
    >>> labels = np.array([1, 2, 0, 0], np.int16)
    >>> print(evaluate(Predictions(data=data, labels=labels, model="by hand"), data))
    Entity-level scores, conlleval mode
                        precision  recall      F1  macro F1  gold spans
    ------------------  ---------  ------  ------  --------  ----------
    by hand               100.00%  50.00%  66.67%    66.67%           2
    majority vote (IO)      0.00%   0.00%   0.00%     0.00%           2
    token accuracy 75.00%
    """
    if mode not in MODES:
        raise ConfigError(unknown_name_message("mode", str(mode), MODES))
    if bootstrap_samples < 0:
        raise ConfigError(f"bootstrap_samples must be at least 0, got {bootstrap_samples}")
    check_same_tokens(predictions.data, data)
    data = data.without_coarse()
    data_types = data.tags.types
    types = tuple(dict.fromkeys((*data_types, *predictions.data.fine_tags.types)))
    evaluation = Evaluation(
        model=predictions.model,
        mode=mode,
        types=types,
        has_sources=bool(data.sources),
        uses_gold=predictions.uses_gold,
    )
    if data.gold is None:
        return evaluation
    labels, tags = predictions.with_types(types).labels, TagSet(types)
    # The types of the data come first, so its label ids are valid for the longer list.
    gold = labels_to_spans(data.gold, data.offsets, tags, mode)
    spans = labels_to_spans(labels, data.offsets, tags, mode)
    vote_spans = None
    if data.sources:
        vote_labels = majority_vote_io(data.votes, data.informative_votes(), data.offsets, len(data_types))
        vote_spans = labels_to_spans(vote_labels, data.offsets, tags, mode)
    score_intervals, difference = _bootstrap_scores(spans, vote_spans, gold, data, samples=bootstrap_samples, seed=seed)
    return replace(
        evaluation,
        scores=score_spans(spans, gold, types),
        token_accuracy=token_accuracy(labels, data.gold),
        majority_vote=None if vote_spans is None else score_spans(vote_spans, gold, types),
        error_types=count_error_types(spans, gold, types),
        calibration=_measure_calibration(predictions, labels, data.gold, spans, gold),
        intervals=score_intervals,
        difference_to_majority_vote=difference,
    )


def compare_predictions(
    first: Predictions,
    second: Predictions,
    data: Dataset,
    *,
    mode: Mode = "conlleval",
    samples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> Intervals:
    """Intervals of first minus second in precision, recall and F1, by paired bootstrap."""
    if data.gold is None:
        raise DataError("comparing predictions needs gold labels; the data has none")
    all_tags = (part.fine_tags for part in (data, first.data, second.data))
    types = tuple(dict.fromkeys(name for tags in all_tags for name in tags.types))
    tags = TagSet(types)
    gold = labels_to_spans(data.gold, data.offsets, tags, mode)
    unit_name, unit_ids = resampling_units(data)
    counts = []
    for predictions in (first, second):
        check_same_tokens(predictions.data, data)
        labels = predictions.with_types(types).labels
        spans = labels_to_spans(labels, data.offsets, tags, mode)
        counts.append(sum_by_unit(sentence_counts(spans, gold, len(data)), unit_ids))
    return paired_difference(*counts, samples=samples, level=level, seed=seed, units=unit_name)


def _bootstrap_scores(
    spans: Spans, vote_spans: Spans | None, gold: Spans, data: Dataset, *, samples: int, seed: int
) -> tuple[Intervals | None, Intervals | None]:
    """Intervals of the predictions and of their difference to majority vote; None if not available."""
    if not samples:
        return None, None
    unit_name, unit_ids = resampling_units(data)
    counts = sum_by_unit(sentence_counts(spans, gold, len(data)), unit_ids)
    score_intervals = bootstrap_intervals(counts, samples=samples, seed=seed, units=unit_name)
    if vote_spans is None:
        return score_intervals, None
    vote_counts = sum_by_unit(sentence_counts(vote_spans, gold, len(data)), unit_ids)
    return score_intervals, paired_difference(counts, vote_counts, samples=samples, seed=seed, units=unit_name)


def _measure_calibration(
    predictions: Predictions,
    labels: NDArray[np.int16],
    gold_labels: NDArray[np.int16],
    spans: Spans,
    gold: Spans,
) -> dict[str, Calibration]:
    """Calibration of tokens and spans, as far as probabilities and span scores are available.

    Labels (N,) and spans are over the joint types of predictions and data; confidences keep the order of the
    predictions.
    """
    result = {}
    if predictions.probabilities is not None:
        correct, gold_entity = labels == gold_labels, gold_labels > 0
        result["tokens"] = token_calibration(predictions, correct, gold_entity)
        result["entity_tokens"] = token_calibration(predictions, correct, gold_entity, scope="entities")
    if predictions.spans.score is not None:
        result["spans"] = span_calibration(spans.with_scores(predictions.spans.score), gold)
    return result


def _metric_values(scores: Scores | None) -> dict[str, float | None]:
    if scores is None:
        return dict.fromkeys((*_METRICS, "macro_f1"))
    micro = scores.micro
    return {
        "precision": micro.precision,
        "recall": micro.recall,
        "f1": micro.f1,
        "macro_f1": scores.macro_f1,
    }


def _table_row(scores: Scores | None) -> tuple[Any, ...]:
    return (*_metric_values(scores).values(), scores and scores.micro.gold)
