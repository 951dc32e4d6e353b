"""HTML page that compares several models on the same data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.tables import PERCENT, Table
from convener.errors import ConfigError
from convener.evaluation.evaluation import Evaluation, compare_predictions, evaluate
from convener.evaluation.metrics import score_spans
from convener.report.figures import Heatmap, ReliabilityDiagram, nonempty_bins
from convener.report.html import render_page
from convener.report.run_summary import majority_vote_labels
from convener.report.sentence_index import build_sentence_index

METRICS = ("precision", "recall", "F1")


def render_comparison(data: Dataset, predictions: Mapping[str, Predictions], *, title: str = "Model comparison") -> str:
    """HTML page that compares predictions, given by display name."""
    if len(predictions) < 2:
        raise ConfigError(f"a comparison needs at least two models, got {len(predictions)}")
    datasets = (data, *(item.data for item in predictions.values()))
    types = tuple(dict.fromkeys(name for dataset in datasets for name in dataset.fine_tags.types))
    data = data.with_types(types)
    named = [replace(_extend_types(types, item), model=name) for name, item in predictions.items()]
    evaluations = [evaluate(item, data) for item in named]
    gold = data.gold is not None
    return render_page(
        "compare.html",
        title=title,
        sentence_index=build_sentence_index(data, named, majority_vote_labels(data)),
        remote=False,
        context={
            "gold": gold,
            "report_date": "",
            "lead": f"{len(named)} models on {len(data):,} sentences, {len(data.sources)} sources.",
            "scores": score_table(evaluations, named),
            "by_type": _f1_by_type(evaluations) if gold and len(data.fine_tags.types) > 1 else None,
            "differences": _differences(named, data) if gold else None,
            "model_agreement": _model_agreement(named, data),
            "calibration": _calibration_diagram(evaluations) if gold else None,
        },
    )


def _extend_types(types: tuple[str, ...], predictions: Predictions) -> Predictions:
    """The same predictions over more types; added types have probability zero."""
    extended, own_types = predictions.with_types(types), predictions.data.fine_tags.types
    if extended is predictions or predictions.probabilities is None:
        return extended
    columns = [0, *(2 * types.index(name) + part for name in own_types for part in (1, 2))]
    probabilities = np.zeros((len(predictions.labels), 2 * len(types) + 1), np.float32)
    probabilities[:, columns] = predictions.probabilities
    return replace(extended, probabilities=probabilities)


def score_table(evaluations: Sequence[Evaluation], predictions: Sequence[Predictions]) -> Table:
    """One row per model, and one for majority vote."""
    rows: list[tuple[Any, ...]] = [
        (
            item.model,
            item.precision,
            item.recall,
            item.f1,
            len(predicted.spans),
            _mean_score(predicted),
            item.uses_gold,
        )
        for item, predicted in zip(evaluations, predictions, strict=True)
    ]
    majority_vote = evaluations[0].majority_vote
    if majority_vote is not None:
        micro = majority_vote.micro
        values = (micro.precision, micro.recall, micro.f1, micro.predicted)
        rows.append(("majority vote (IO)", *values, None, "none"))
    return Table(
        title="Models",
        columns=("model", *METRICS, "entities", "mean probability", "uses gold"),
        rows=rows,
        formats={**dict.fromkeys(METRICS, PERCENT), "mean probability": ".2f"},
        notes=() if evaluations[0].scores is not None else ("no gold labels; scores are unavailable",),
    )


def _mean_score(predictions: Predictions) -> float | None:
    score = predictions.spans.score
    return None if score is None or not len(score) else float(score.mean())


def _f1_by_type(evaluations: Sequence[Evaluation]) -> Table:
    types = list(evaluations[0].per_type)
    return Table(
        title="F1 by type",
        columns=("", *types),  # a type may be called "model"
        rows=[(item.model, *(item.per_type[name]["f1"] for name in types)) for item in evaluations],
        formats=dict.fromkeys(types, PERCENT),
    )


def _differences(predictions: Sequence[Predictions], data: Dataset) -> Table:
    """Difference in F1 of every model to the first, with intervals of the paired bootstrap."""
    rows = []
    for other in predictions[1:]:
        interval = compare_predictions(other, predictions[0], data).f1
        significant = interval.low > 0 or interval.high < 0
        points = (100 * part for part in interval)
        rows.append((other.model, *points, "yes" if significant else "no"))
    columns = ("difference in F1", "low", "high")
    return Table(
        title=f"Difference to {predictions[0].model}",
        columns=("model", *columns, "significant (95%)"),
        rows=rows,
        formats=dict.fromkeys(columns, "+.2f"),
        notes=("paired bootstrap, 95% intervals, points of F1",),
    )


def _model_agreement(predictions: Sequence[Predictions], data: Dataset) -> Heatmap:
    """F1 of the entities of each model against those of each other."""
    types = data.fine_tags.types
    names = [item.model for item in predictions]
    values = [
        [np.nan if one is other else score_spans(one.spans, other.spans, types).micro.f1 for other in predictions]
        for one in predictions
    ]
    return Heatmap(
        title="Model agreement",
        caption="F1 of the entities of one model against those of another.",
        rows=names,
        columns=names,
        values=np.array(values),
    )


def _calibration_diagram(evaluations: Sequence[Evaluation]) -> ReliabilityDiagram:
    by_model = {item.model: item.calibration["spans"] for item in evaluations if "spans" in item.calibration}
    return ReliabilityDiagram(
        title="Calibration of spans",
        caption="Diagonal: perfect calibration.",
        curves={name: nonempty_bins(spans) for name, spans in by_model.items()},
    )
