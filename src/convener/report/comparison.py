"""Several models on the same data: side by side, and where they disagree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from convener.data import Dataset
from convener.errors import ConfigError
from convener.evaluate import Evaluation, evaluate, score_spans
from convener.evaluate import compare as paired
from convener.predictions import Predictions
from convener.report.account import majority_vote
from convener.report.drawings import bins_of
from convener.report.figures import Diagram, Heat
from convener.report.page import render
from convener.report.sheet import sheet_of
from convener.tables import PERCENT, Table

FIGURES = ("precision", "recall", "F1")


def comparison_page(
    data: Dataset, answers: Mapping[str, Predictions], *, title: str = "Models compared"
) -> str:
    """One page with all answers, by the names they are to have."""
    if len(answers) < 2:
        raise ConfigError(f"a comparison needs two models or more, got {len(answers)}")
    parts = (data, *(answer.data for answer in answers.values()))
    types = tuple(dict.fromkeys(name for part in parts for name in part.fine_tags.types))
    data = data.with_types(types)
    named = [replace(_over(types, answer), model=name) for name, answer in answers.items()]
    judged = [evaluate(answer, data) for answer in named]
    gold = data.gold is not None
    return render(
        "compare.html",
        title=title,
        sheet=sheet_of(data, named, majority_vote(data)),
        remote=False,
        facts={
            "gold": gold,
            "made": "",
            "lead": f"{len(named)} models on {len(data):,} sentences, {len(data.sources)} sources.",
            "scores": score_table(judged, named),
            "by_type": _by_type(judged) if gold and len(data.fine_tags.types) > 1 else None,
            "differences": _differences(named, data) if gold else None,
            "alike": _alike(named, data),
            "calibration": _calibration(judged) if gold else None,
        },
    )


def _over(types: tuple[str, ...], answer: Predictions) -> Predictions:
    """The same answer over more types: it is sure that there is nothing of those it lacks."""
    wide, known = answer.with_types(types), answer.data.fine_tags.types
    if wide is answer or answer.probabilities is None:
        return wide
    columns = [0, *(2 * types.index(name) + part for name in known for part in (1, 2))]
    shares = np.zeros((len(answer.labels), 2 * len(types) + 1), np.float32)
    shares[:, columns] = answer.probabilities
    return replace(wide, probabilities=shares)


def score_table(judged: Sequence[Evaluation], answers: Sequence[Predictions]) -> Table:
    """A row for each model, and one for majority vote."""
    rows: list[tuple[Any, ...]] = [
        (
            item.model,
            item.precision,
            item.recall,
            item.f1,
            len(answer.spans),
            _mean_score(answer),
            "yes" if item.saw_gold else "no",
        )
        for item, answer in zip(judged, answers, strict=True)
    ]
    vote = judged[0].majority_vote
    if vote is not None:
        micro = vote.micro
        figures = (micro.precision, micro.recall, micro.f1, micro.predicted)
        rows.append(("majority vote (IO)", *figures, None, "no"))
    return Table(
        title="Models",
        columns=("model", *FIGURES, "entities", "mean probability", "saw gold"),
        rows=rows,
        formats={**dict.fromkeys(FIGURES, PERCENT), "mean probability": ".2f"},
        notes=() if judged[0].scores is not None else ("no gold, so nothing to measure against",),
    )


def _mean_score(answer: Predictions) -> float | None:
    score = answer.spans.score
    return None if score is None or not len(score) else float(score.mean())


def _by_type(judged: Sequence[Evaluation]) -> Table:
    types = list(judged[0].per_type)
    return Table(
        title="F1 by type",
        columns=("", *types),  # a type may be called "model"
        rows=[(item.model, *(item.per_type[name]["f1"] for name in types)) for item in judged],
        formats=dict.fromkeys(types, PERCENT),
    )


def _differences(answers: Sequence[Predictions], data: Dataset) -> Table:
    """Every model against the first."""
    rows = []
    for answer in answers[1:]:
        found = paired(answer, answers[0], data).f1
        apart = found.low > 0 or found.high < 0
        ends = (100 * part for part in found)
        rows.append((answer.model, *ends, "yes" if apart else "no"))
    columns = ("difference of F1", "from", "to")
    return Table(
        title=f"Against {answers[0].model}",
        columns=("model", *columns, "more than chance"),
        rows=rows,
        formats=dict.fromkeys(columns, "+.2f"),
        notes=("paired bootstrap, 95 %, points of F1",),
    )


def _alike(answers: Sequence[Predictions], data: Dataset) -> Heat:
    types = data.fine_tags.types
    names = [answer.model for answer in answers]
    values = [
        [
            np.nan if one is other else score_spans(one.spans, other.spans, types).micro.f1
            for other in answers
        ]
        for one in answers
    ]
    return Heat(
        title="Agreement of models",
        says="F1 of one model's entities against another's.",
        rows=names,
        columns=names,
        values=np.array(values),
    )


def _calibration(judged: Sequence[Evaluation]) -> Diagram:
    parts = {
        item.model: item.calibration["spans"] for item in judged if "spans" in item.calibration
    }
    return Diagram(
        title="Calibration of spans",
        says="On the line, 80 % sure is right 4 times of 5.",
        curves={name: bins_of(part) for name, part in parts.items()},
    )
