"""Everything a report shows of one model on one dataset, and the warnings about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import UPPER_BOUND, Predictions, is_upper_bound
from convener.errors import DataError
from convener.evaluation.answers import AnswerSuggestions, is_crowd, suggest_answers
from convener.evaluation.evaluation import Evaluation, evaluate
from convener.evaluation.metrics import ratio
from convener.evaluation.source_analysis import SourceAnalysis, analyze
from convener.inference.voting import majority_vote_io
from convener.report.recommendations import Recommendation, recommend
from convener.report.sentence_index import SentenceIndex, build_sentence_index
from convener.report.source_quality import SourceEstimate, estimate_sources, spans_without_votes

Level = Literal["warning", "note"]
BOOTSTRAP_SAMPLES = 1000
"""Bootstrap samples for intervals of the scores."""
MAX_UNVOTED_SHARE = 0.3
"""Share of predicted spans without any vote above which a warning is given."""
MAX_CALIBRATION_ERROR = 0.1
"""Expected calibration error of spans above which a note is given."""
MIN_SPANS = 30
"""Number of spans below which the estimates of a source are unreliable."""


class ReportableModel(Protocol):
    """The part of a fitted label model that a report uses."""

    @property
    def name(self) -> str: ...
    def predict(self, data: Dataset) -> Predictions: ...
    def diagnostics(self) -> Diagnostics: ...
    def explain(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class RunSummary:
    """Everything a report shows of one model on one dataset."""

    title: str
    data: Dataset
    """The data, with gold labels if available."""
    predictions: Predictions
    vote_labels: NDArray[np.int16]
    """Labels of majority vote (N,)."""
    diagnostics: Diagnostics
    analysis: SourceAnalysis
    evaluation: Evaluation
    estimates: tuple[SourceEstimate, ...]
    recommendations: tuple[Recommendation, ...]
    sentence_index: SentenceIndex
    answers: AnswerSuggestions | None = None
    """Where a crowd should answer again, and who; None if the sources are no crowd."""
    explanation: tuple[str, ...] = ()
    """Reasons of the model for its choices, such as those of `auto`."""
    run_info: Mapping[str, Any] = field(default_factory=dict)
    """Content of `run.json`: date, duration, versions and so on."""


def summarize_run(
    model: ReportableModel,
    data: Dataset,
    *,
    title: str = "",
    run_info: Mapping[str, Any] | None = None,
) -> RunSummary:
    """Predict labels and collect everything a report shows."""
    predictions = predict_for_report(model, data)
    vote_labels = majority_vote_labels(data)
    return RunSummary(
        title=title or model.name,
        data=data,
        predictions=predictions,
        vote_labels=vote_labels,
        diagnostics=model.diagnostics(),
        analysis=analyze(data),
        evaluation=evaluate(predictions, data, bootstrap_samples=BOOTSTRAP_SAMPLES if data.gold is not None else 0),
        estimates=tuple(estimate_sources(data, predictions)),
        recommendations=tuple(recommend(data, predictions)),
        sentence_index=build_sentence_index(data, [predictions], vote_labels),
        answers=suggest_answers(data, predictions) if is_crowd(data) else None,
        explanation=model.explain(),
        run_info=run_info or {},
    )


def predict_for_report(model: ReportableModel, data: Dataset) -> Predictions:
    """Predictions of the model; an error for empty data or a model without probabilities."""
    if not len(data.tokens):
        raise DataError("the data has no tokens")
    predictions = model.predict(data)
    if predictions.probabilities is None:
        raise DataError(f"a report needs probabilities; {model.name} provides none")
    return predictions


def majority_vote_labels(data: Dataset) -> NDArray[np.int16]:
    """The labels of majority vote in the IO scheme.  -> (N,)"""
    fine = data.without_coarse()
    return majority_vote_io(fine.votes, fine.informative_votes(), fine.offsets, len(fine.tags.types))


class Alert(NamedTuple):
    """A warning or note of a report."""

    level: Level
    text: str


def alerts(summary: RunSummary) -> list[Alert]:
    """Warnings and notes about a run, warnings first."""
    found = [
        *_gold_alerts(summary),
        *_score_alerts(summary),
        *_prediction_alerts(summary),
        *_source_alerts(summary),
    ]
    return sorted(found, key=lambda alert: alert.level != "warning")


def _gold_alerts(summary: RunSummary) -> Iterator[Alert]:
    if is_upper_bound(summary.evaluation.uses_gold):
        yield Alert(
            "warning",
            f"{summary.predictions.model} uses gold labels: {UPPER_BOUND}.",
        )
    elif summary.evaluation.uses_gold == "valid":
        yield Alert("note", "Gold labels of the validation split were used for early stopping.")


def _score_alerts(summary: RunSummary) -> Iterator[Alert]:
    scores, majority_vote = summary.evaluation.scores, summary.evaluation.majority_vote
    if scores is not None and majority_vote is not None and scores.micro.f1 < majority_vote.micro.f1:
        gap = 100 * (majority_vote.micro.f1 - scores.micro.f1)
        yield Alert("warning", f"F1 is {gap:.1f} points below majority vote.")
    spans = summary.evaluation.calibration.get("spans")
    if spans is not None and spans.ece is not None and spans.ece > MAX_CALIBRATION_ERROR:
        yield Alert(
            "note",
            f"The expected calibration error of span probabilities is {spans.ece:.2f}; see the calibration "
            "below before you filter by probability.",
        )


def _prediction_alerts(summary: RunSummary) -> Iterator[Alert]:
    spans = summary.predictions.spans
    if not len(spans):
        yield Alert("warning", "The model predicts no entities.")
        return
    share = ratio(np.count_nonzero(spans_without_votes(spans, summary.data)), len(spans))
    if share > MAX_UNVOTED_SHARE:
        yield Alert(
            "warning",
            f"{share:.0%} of the predicted entities have no vote from any source. Check some of them below "
            "(filter: predicted without any vote) before you use the labels.",
        )


def _source_alerts(summary: RunSummary) -> Iterator[Alert]:
    summaries = summary.analysis.sources
    without_votes = [source.name for source in summaries if not source.spans]
    if without_votes:
        yield Alert("warning", f"Sources without votes: {', '.join(without_votes)}.")
    rare = [source.name for source in summaries if 0 < source.spans < MIN_SPANS]
    if rare:
        yield Alert(
            "note", f"Sources with fewer than {MIN_SPANS} spans, whose estimates are unreliable: {', '.join(rare)}."
        )
    voted_types = {name for source in summaries for name in source.types}
    if missing := [name for name in summary.data.fine_tags.types if name not in voted_types]:
        yield Alert("warning", f"Types without votes: {', '.join(missing)}.")
    if len(summaries) == 1:
        yield Alert("warning", "There is only one source: its reliability cannot be estimated.")
    elif not summary.analysis.overlap:
        yield Alert("warning", "No token has votes from two sources: reliability cannot be estimated.")
    for name, other, share in summary.analysis.redundant_sources:
        yield Alert("note", f"{share:.0%} of the votes of {name} are also votes of {other}.")
