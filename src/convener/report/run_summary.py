"""What a reader must know before any figure: the most serious first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.diagnostics import Diagnostics
from convener.data.predictions import Predictions
from convener.errors import DataError
from convener.evaluation.evaluation import Evaluation, evaluate
from convener.evaluation.metrics import ratio
from convener.evaluation.source_analysis import SourceAnalysis, analyze
from convener.inference.voting import majority_vote_io
from convener.report.recommendations import Recommendation, recommend
from convener.report.sentence_index import SentenceIndex, build_sentence_index
from convener.report.source_quality import SourceEstimate, estimate_sources, spans_without_votes

BOOTSTRAP_SAMPLES = 1000
"""Of the bootstrap, for intervals of the scores."""


class ReportableModel(Protocol):
    """What of a fitted label model is asked."""

    @property
    def name(self) -> str: ...
    def predict(self, data: Dataset) -> Predictions: ...
    def diagnostics(self) -> Diagnostics: ...
    def explain(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class RunSummary:
    """What there is to tell of one model on one dataset.

    data        with its gold, if it has any; answer: the model's labels; vote: majority vote's
    facts       what was noted of the run: date, seconds, versions, ...; why: the model's reasons
    """

    title: str
    data: Dataset
    predictions: Predictions
    vote_labels: NDArray[np.int16]
    diagnostics: Diagnostics
    analysis: SourceAnalysis
    evaluation: Evaluation
    estimates: tuple[SourceEstimate, ...]
    recommendations: tuple[Recommendation, ...]
    sentence_index: SentenceIndex
    explanation: tuple[str, ...] = ()
    run_info: Mapping[str, Any] = field(default_factory=dict)


def summarize_run(
    model: ReportableModel,
    data: Dataset,
    *,
    title: str = "",
    run_info: Mapping[str, Any] | None = None,
) -> RunSummary:
    """Label the data with the model, and look at everything."""
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
        explanation=model.explain(),
        run_info=run_info or {},
    )


def predict_for_report(model: ReportableModel, data: Dataset) -> Predictions:
    """The model's labels for data that can be shown."""
    if not len(data.tokens):
        raise DataError("there is nothing to report on: the data holds no token")
    predictions = model.predict(data)
    if predictions.probabilities is None:
        raise DataError(f"{model.name} gives no probabilities, which a report is about")
    return predictions


def majority_vote_labels(data: Dataset) -> NDArray[np.int16]:
    """The labels of majority vote in the IO scheme.  -> (N,)"""
    fine = data.without_coarse()
    return majority_vote_io(fine.votes, fine.opinions(), fine.offsets, len(fine.tags.types))


Level = Literal["grave", "note"]
MAX_UNVOTED_SHARE = 0.3
"""A larger share of the model's spans where no source marks anything is worth a warning."""
MAX_CALIBRATION_ERROR = 0.1
"""Of the calibration of spans."""
MIN_SPANS = 30
"""Spans; with fewer, hardly anything can be said of a source."""


class Alert(NamedTuple):
    """One warning."""

    level: Level
    text: str


def alerts(summary: RunSummary) -> list[Alert]:
    """All that is to be said, grave matters first."""
    found = [
        *_gold_alerts(summary),
        *_score_alerts(summary),
        *_prediction_alerts(summary),
        *_source_alerts(summary),
    ]
    return sorted(found, key=lambda alert: alert.level != "grave")


def _gold_alerts(summary: RunSummary) -> Iterator[Alert]:
    if summary.evaluation.uses_gold:
        yield Alert("grave", f"{summary.predictions.model} saw gold: a reference, not a result.")
    elif summary.run_info.get("used_valid_gold"):
        yield Alert("note", "The gold of valid decided when training stopped.")


def _score_alerts(summary: RunSummary) -> Iterator[Alert]:
    scores, majority_vote = summary.evaluation.scores, summary.evaluation.majority_vote
    if scores is not None and majority_vote is not None and scores.micro.f1 < majority_vote.micro.f1:
        gap = 100 * (majority_vote.micro.f1 - scores.micro.f1)
        yield Alert("grave", f"F1 is {gap:.1f} points below a simple majority vote here.")
    spans = summary.evaluation.calibration.get("spans")
    if spans is not None and spans.ece is not None and spans.ece > MAX_CALIBRATION_ERROR:
        yield Alert(
            "note",
            f"Probabilities of spans are off by {spans.ece:.2f} on average; do not filter by them "
            "without looking at the calibration below.",
        )


def _prediction_alerts(summary: RunSummary) -> Iterator[Alert]:
    spans = summary.predictions.spans
    if not len(spans):
        yield Alert("grave", "The model finds no entity at all.")
        return
    share = ratio(np.count_nonzero(spans_without_votes(spans, summary.data)), len(spans))
    if share > MAX_UNVOTED_SHARE:
        yield Alert(
            "grave",
            f"{share:.0%} of the entities found are where no source marks anything. Look at some "
            "of them below (filter: found where nobody marks) before you trust the labels.",
        )


def _source_alerts(summary: RunSummary) -> Iterator[Alert]:
    summaries = summary.analysis.sources
    without_votes = [source.name for source in summaries if not source.spans]
    if without_votes:
        yield Alert("grave", f"These sources mark nothing here: {', '.join(without_votes)}.")
    rare = [source.name for source in summaries if 0 < source.spans < MIN_SPANS]
    if rare:
        yield Alert("note", f"Fewer than {MIN_SPANS} marks, so little is known of {', '.join(rare)}.")
    voted_types = {name for source in summaries for name in source.types}
    if missing := [name for name in summary.data.fine_tags.types if name not in voted_types]:
        yield Alert("grave", f"No source ever marks {', '.join(missing)}.")
    if len(summaries) == 1:
        yield Alert("grave", "There is one source only: nothing to compare it with.")
    elif not summary.analysis.overlap:
        yield Alert("grave", "No token has two opinions, so how good sources are is a guess.")
    for name, other, share in summary.analysis.redundant_sources:
        yield Alert("note", f"{share:.0%} of what {name} marks is marked by {other}, too.")
