"""What a reader must know before any figure: the most serious first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from convener.evaluate.metrics import ratio
from convener.report.account import RunSummary
from convener.report.marks import spans_without_votes

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
