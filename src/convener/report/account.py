"""The account of a run: everything that a report tells, computed once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError
from convener.evaluate import Evaluation, SourceAnalysis, analyze, evaluate
from convener.insides import Diagnostics
from convener.kernels.vote import majority_vote_io
from convener.predictions import Predictions
from convener.report.estimates import SourceEstimate, estimate_sources
from convener.report.fixes import Recommendation, recommend
from convener.report.sheet import SentenceIndex, build_sentence_index

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
