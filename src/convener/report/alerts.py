"""What a reader must know before any figure: the most serious first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from convener.evaluate.metrics import ratio
from convener.report.account import Account
from convener.report.marks import unmarked

Weight = Literal["grave", "note"]
MOST_UNMARKED = 0.3
"""A larger share of the model's spans where no source marks anything is worth a warning."""
MOST_ERROR = 0.1
"""Of the calibration of spans."""
FEW = 30
"""Spans; with fewer, hardly anything can be said of a source."""


class Alert(NamedTuple):
    """One warning."""

    weight: Weight
    text: str


def alerts(account: Account) -> list[Alert]:
    """All that is to be said, grave matters first."""
    found = [*_of_gold(account), *_of_scores(account), *_of_labels(account), *_of_sources(account)]
    return sorted(found, key=lambda alert: alert.weight != "grave")


def _of_gold(account: Account) -> Iterator[Alert]:
    if account.evaluation.saw_gold:
        yield Alert("grave", f"{account.answer.model} saw gold: a reference, not a result.")
    elif account.facts.get("used_valid_gold"):
        yield Alert("note", "The gold of valid decided when training stopped.")


def _of_scores(account: Account) -> Iterator[Alert]:
    scores, vote = account.evaluation.scores, account.evaluation.majority_vote
    if scores is not None and vote is not None and scores.micro.f1 < vote.micro.f1:
        gap = 100 * (vote.micro.f1 - scores.micro.f1)
        yield Alert("grave", f"F1 is {gap:.1f} points below a simple majority vote here.")
    spans = account.evaluation.calibration.get("spans")
    if spans is not None and spans.ece is not None and spans.ece > MOST_ERROR:
        yield Alert(
            "note",
            f"Probabilities of spans are off by {spans.ece:.2f} on average; do not filter by them "
            "without looking at the calibration below.",
        )


def _of_labels(account: Account) -> Iterator[Alert]:
    spans = account.answer.spans
    if not len(spans):
        yield Alert("grave", "The model finds no entity at all.")
        return
    share = ratio(np.count_nonzero(unmarked(spans, account.data)), len(spans))
    if share > MOST_UNMARKED:
        yield Alert(
            "grave",
            f"{share:.0%} of the entities found are where no source marks anything. Look at some "
            "of them below (filter: found where nobody marks) before you trust the labels.",
        )


def _of_sources(account: Account) -> Iterator[Alert]:
    summaries = account.analysis.sources
    quiet = [source.name for source in summaries if not source.spans]
    if quiet:
        yield Alert("grave", f"These sources mark nothing here: {', '.join(quiet)}.")
    rare = [source.name for source in summaries if 0 < source.spans < FEW]
    if rare:
        yield Alert("note", f"Fewer than {FEW} marks, so little is known of {', '.join(rare)}.")
    said = {name for source in summaries for name in source.types}
    if missing := [name for name in account.data.fine_tags.types if name not in said]:
        yield Alert("grave", f"No source ever marks {', '.join(missing)}.")
    if len(summaries) == 1:
        yield Alert("grave", "There is one source only: nothing to compare it with.")
    elif not account.analysis.overlap:
        yield Alert("grave", "No token has two opinions, so how good sources are is a guess.")
    for name, other, share in account.analysis.within:
        yield Alert("note", f"{share:.0%} of what {name} marks is marked by {other}, too.")
