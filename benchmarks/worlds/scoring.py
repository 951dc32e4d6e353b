"""Fit a model on a case and score it: F1, warnings, time, calibration, intervals of reliability."""

from __future__ import annotations

import time
import traceback
import warnings
from typing import Any

import numpy as np

import convener as cv
from benchmarks.harness.results import code_digest, now
from benchmarks.worlds.cases import CaseData
from convener.data.spans import Spans
from convener.evaluation.calibration import span_calibration
from convener.evaluation.metrics import labels_to_spans, score_spans, span_keys

VOTES = ("io", "span")
MODE = "strict"
BOUNDS = (("low", "high"), ("lower", "upper"))
"""Names of the bounds of an interval in a reliability table: "recall low", "recall high"."""


def score_votes(data: CaseData) -> dict[str, Any]:
    """F1 of both simple votes and of an oracle that keeps every marked true span."""
    gold = labels_to_spans(data.test.gold, data.test.offsets, data.test.tags, MODE)
    found = [labels_to_spans(column, data.test.offsets, data.test.tags, MODE) for column in data.test.votes.T]
    gold_keys, *keys = span_keys(gold, *found)
    marked = int(np.isin(gold_keys, np.concatenate([np.zeros(0, np.int64), *keys])).sum())
    scores = {name: _f1(cv.MajorityVote(scheme=name).fit(data.train), data.test) for name in VOTES}
    return scores | {"oracle": _percent(2 * marked / max(1, marked + len(gold))), "gold": len(gold)}


def fit_and_score(name: str, data: CaseData, seed: int = 0) -> dict[str, Any]:
    """One fit. A failure is a result: F1 is None."""
    metadata = {"date": now(), "code": code_digest()}
    started = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", cv.ConvenerWarning)
            model = cv.get_model(name)(seed=seed)
            valid = data.valid if model.uses_valid_gold else None
            model.fit(data.train, valid, use_valid_gold=False)
            seconds = time.perf_counter() - started
            predictions = model.predict(data.test)
    except Exception as error:
        traceback.print_exc()
        return {"f1": None, "error": f"{type(error).__name__}: {error}", **metadata}
    gold = labels_to_spans(data.test.gold, data.test.offsets, data.test.tags, MODE)
    found = labels_to_spans(predictions.labels, data.test.offsets, data.test.tags, MODE)
    score = score_spans(found, gold, data.test.tags.types).micro
    scored = predictions.spans.score is not None and len(predictions.spans)
    result = {
        "f1": _percent(score.f1),
        "precision": _percent(score.precision),
        "recall": _percent(score.recall),
        "seconds": round(seconds, 3),
        "warnings": [str(each.message) for each in caught if issubclass(each.category, cv.ConvenerWarning)],
        "ece": round(span_calibration(predictions.spans, gold).ece, 4) if scored else None,
        **_coverage(model, data),
        **metadata,
    }
    if hasattr(model, "selected_model"):
        result["selected"] = model.selected_model
    return result


def measured_quality(data: cv.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Recall and precision of each source and type, by span, on the text it read; NaN without marks.

    -> (K, C), (K, C)
    """
    num_types = len(data.tags.types)
    recall = np.full((len(data.sources), num_types), np.nan)
    precision = recall.copy()
    gold = labels_to_spans(data.gold, data.offsets, data.tags, MODE)
    first = data.offsets[gold.sentence] + gold.start
    for k, column in enumerate(data.votes.T):
        marks = labels_to_spans(column, data.offsets, data.tags, MODE)
        read = gold.take(column[first] >= 0)
        correct = marks.take(_is_in(marks, read))
        hits, all_marks, all_gold = (np.bincount(s.type, minlength=num_types) for s in (correct, marks, read))
        with np.errstate(divide="ignore", invalid="ignore"):
            given = all_marks > 0
            recall[k] = np.where(given & (all_gold > 0), hits / all_gold, np.nan)
            precision[k] = np.where(given, hits / all_marks, np.nan)
    return recall, precision


def mark_statistics(data: cv.Dataset) -> dict[str, float | None]:
    """How the marks of the sources lie to each other and to gold.

    marks       marks of all sources, per true span
    distinct    distinct marks, per true span
    lone        share of the distinct marks that one source makes
    lone_false  share of those that are false
    marked      share of the true spans that some source marks
    """
    gold, *found = span_keys(
        *(labels_to_spans(column, data.offsets, data.tags, MODE) for column in (data.gold, *data.votes.T))
    )
    marks, count = np.unique(np.concatenate(found), return_counts=True)
    lone, spans = marks[count == 1], max(1, len(gold))
    return {
        "marks": round(float(count.sum() / spans), 3),
        "distinct": round(len(marks) / spans, 3),
        "lone": round(len(lone) / len(marks), 3) if len(marks) else None,
        "lone_false": round(float(1 - np.isin(lone, gold).mean()), 3) if len(lone) else None,
        "marked": round(float(np.isin(gold, marks).mean()), 3) if len(gold) else None,
    }


def _is_in(marks: Spans, gold: Spans) -> np.ndarray:
    own, true = span_keys(marks, gold)
    return np.isin(own, true)


def _coverage(model: Any, data: CaseData) -> dict[str, Any]:
    """How many intervals of reliability() contain the truth: measured on train, and expected in a generated world.

    Empty if the model has no intervals. Values are [covered, number].
    """
    table = model.reliability()
    columns = {
        metric: (f"{metric} {low}", f"{metric} {high}")
        for metric in ("recall", "precision", "F1", "f1")
        for low, high in BOUNDS
        if f"{metric} {low}" in table.columns
    }
    if not columns:
        return {}
    truths = {"train": measured_quality(data.train)}
    if data.truth is not None:
        truths["expected"] = (data.truth.exact_recall, data.truth.exact_precision)
    counts = {name: [0, 0] for name in truths}
    for record in table.to_records():
        if record["source"] not in data.train.sources or record["type"] not in data.train.tags.types:
            continue
        k, c = data.train.source_index(record["source"]), data.train.tags.type_index(record["type"])
        for name, (recall, precision) in truths.items():
            both = recall[k, c] + precision[k, c]
            f1 = 2 * recall[k, c] * precision[k, c] / both if both > 0 else both
            true = {"recall": recall[k, c], "precision": precision[k, c], "f1": f1}
            for metric, (low, high) in columns.items():
                value = true[metric.lower()]
                if record[low] is not None and record[high] is not None and np.isfinite(value):
                    counts[name][0] += bool(record[low] <= value <= record[high])
                    counts[name][1] += 1
    return {"coverage": counts}


def _f1(model: Any, data: cv.Dataset) -> float:
    labels = model.predict(data).labels
    found, gold = (labels_to_spans(each, data.offsets, data.tags, MODE) for each in (labels, data.gold))
    return _percent(score_spans(found, gold, data.tags.types).micro.f1)


def _percent(value: float) -> float:
    return round(100 * float(value), 3)
