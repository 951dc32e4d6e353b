"""What the page of an account says, in words and tables."""

from __future__ import annotations

import base64
import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.tables import PERCENT, Table
from convener.errors import require
from convener.evaluation.intervals import Interval
from convener.report import figures
from convener.report.figures import Axis
from convener.report.run_summary import RunSummary, alerts
from convener.report.sentence_index import FILTERS, Query, SentenceIndex

_HERE = Path(__file__).parent
MAX_SENTENCES = 20_000
"""Sentences in one file; of more the most uncertain are shown, and the viewer has them all."""
GOLDEN_ANGLE = 137.508
"""Degrees between the hues of two types: no two are alike."""


@cache
def template_environment() -> Any:
    """Templates that escape whatever is put into them."""
    jinja2 = require("jinja2", extra="report", purpose="a report")
    env = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.globals |= {
        "Axis": Axis,
        "cells": table_cells,
        "heads": lambda table: zip(table.columns, table.numeric_columns(), strict=True),
        "axis_of": fit_axis,
        "longest": lambda names: max([len(name) for name in names], default=1),
        "share": lambda value: "1" if value > 0.995 else f"{value:.2f}".removeprefix("0"),
        "size": lambda count: round(2.5 + min(6.0, float(count) ** 0.25 / 2), 2),
    }
    return env


def render_page(
    template: str,
    *,
    title: str,
    sentence_index: SentenceIndex,
    remote: bool,
    context: Mapping[str, Any],
) -> str:
    """A page with its sentences in it or, for the viewer, without.

    facts: what the template shows, besides.
    """
    env = template_environment()
    script = (_HERE / "static" / "report.js").read_text(encoding="utf-8")
    style = (_HERE / "static" / "report.css").read_text(encoding="utf-8")
    hues = {name: type_hue(number) for number, name in enumerate(sentence_index.types)}
    setup = {
        "types": sentence_index.types,
        "hues": list(hues.values()),
        "lanes": sentence_index.tracks,
        "odd": FILTERS,
        "size": len(sentence_index),
        "remote": remote,
    }
    sentence_ids = embedded_sentences(sentence_index)
    records = None if remote else to_script_json([sentence_index.record(number) for number in sentence_ids.tolist()])
    markup = importlib.import_module("markupsafe").Markup
    html: str = env.get_template(template).render(
        title=title,
        sheet=sentence_index,
        counts=sentence_index.counts(),
        policy=content_security_policy(script),
        style=markup(style),
        script=markup(script),
        setup=markup(to_script_json(setup)),
        records=None if records is None else markup(records),
        held=len(sentence_index) if remote else len(sentence_ids),
        hue=lambda name: hues.get(name, 0),
        version=version("convener"),
        **context,
    )
    # Half a character, which no file can hold, is shown as the sign for what cannot be shown.
    return html.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def embedded_sentences(sentence_index: SentenceIndex) -> NDArray[np.int64]:
    """The sentences that one file holds, in the order of the text."""
    selected: NDArray[np.int64] = np.sort(sentence_index.find(Query(order="entropy"))[:MAX_SENTENCES])
    return selected


def content_security_policy(script: str) -> str:
    """What a browser may do with the page: run this script, and nothing that came with the data."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def to_script_json(value: Any) -> str:
    r"""JSON that may stand in a script element: nothing in it ends the element.

    >>> to_script_json({"t": "</script><!--"})
    '{"t":"\\u003c/script>\\u003c!--"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # half a character, which only escapes can hold
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def type_hue(number: int) -> int:
    """The hue of a type, in degrees."""
    return round(212 + number * GOLDEN_ANGLE) % 360


def table_cells(table: Table) -> list[list[tuple[str, bool]]]:
    """The texts of a table, and whether each is a number."""
    numeric = table.numeric_columns()
    return [list(zip(row, numeric, strict=True)) for row in table.formatted_rows()]


def fit_axis(curves: Mapping[str, Sequence[tuple[float, float]]], column: int, first: float, last: float) -> Axis:
    """An axis that holds a column of all curves."""
    values = [point[column] for points in curves.values() for point in points]
    low, high = min(values), max(values)
    return Axis(low, high, first, last) if high > low else Axis(low - 0.5, high + 0.5, first, last)


MIN_F1_GAIN = 0.0005
"""Of F1; what promises less is not listed, and no more than `MOST_FIXES` are."""
MAX_RECOMMENDATIONS = 12
MIN_SIMILARITY = 0.5
"""Pairs of sources with less span F1 are not listed."""


class SummaryTile(NamedTuple):
    """A figure at the top of the page."""

    name: str
    value: str
    detail: str


def render_report(summary: RunSummary, *, remote: bool = False) -> str:
    """The page of an account, with its sentences or, for the viewer, without."""
    recommendations = [fix for fix in summary.recommendations if fix.f1_gain >= MIN_F1_GAIN]
    error_types, gold = summary.evaluation.error_types, summary.data.gold is not None
    return render_page(
        "report.html",
        title=summary.title,
        sentence_index=summary.sentence_index,
        remote=remote,
        context={
            "gold": gold,
            "lead": _summary_line(summary),
            "made": summary.run_info.get("reported", ""),
            "alerts": alerts(summary),
            "tiles": _tiles(summary),
            "scores": _scores(summary),
            "why": summary.explanation,
            "settings": _settings(summary),
            "fixes": [fix for fix in recommendations if fix.source][:MAX_RECOMMENDATIONS],
            "missing": [fix for fix in recommendations if not fix.source],
            "reliability": figures.reliability(summary),
            "agreement": figures.estimated_vs_gold(summary),
            "analysis": summary.analysis.table(),
            "estimates": estimate_table(summary),
            "pairs": figures.source_similarity(summary),
            "alike": _similar_sources(summary),
            "curves": figures.training_curves(summary),
            "emissions": figures.emissions(summary),
            "emission_note": _emission_note(summary),
            "moves": figures.transitions(summary),
            "calibration": figures.calibration(summary),
            "kinds": None if error_types is None else error_types.table(),
            "by_type": summary.evaluation.type_table(),
            "confusion": figures.confusion(summary),
        },
    )


def estimate_table(summary: RunSummary) -> Table:
    """What each source is worth for each type, in figures."""
    gold = summary.data.gold is not None
    columns = (
        "source",
        "type",
        "marks",
        "precision",
        "recall",
        "F1",
        *(["true F1"] if gold else []),
    )
    return Table(
        title="Sources by type, as the model sees them",
        columns=columns,
        rows=[
            (
                item.source,
                item.type,
                item.num_spans,
                *(_format_interval(figure) for figure in (item.precision, item.recall, item.f1)),
                *([None if item.gold_score is None else item.gold_score.f1] if gold else []),
            )
            for item in summary.estimates
        ],
        formats={"true F1": PERCENT},
        notes=("in brackets: about 95 %, where other sentences and the model's doubts are counted",),
    )


def recommendation_table(summary: RunSummary) -> Table:
    """What to mend next, the most promising first."""
    gold = summary.data.gold is not None
    return Table(
        title="Fix next",
        columns=(
            "source",
            "type",
            "marks",
            "wrong",
            "lost",
            "gain of F1",
            *(["true gain"] if gold else []),
            "examples",
        ),
        rows=[
            (
                fix.source or "(a new source)",
                fix.type,
                fix.num_spans,
                round(fix.expected_false_positives),
                round(fix.expected_misses),
                100 * fix.f1_gain,
                *([None if fix.gold_f1_gain is None else 100 * fix.gold_f1_gain] if gold else []),
                ", ".join(phrase for phrase, _ in fix.examples[:3]),
            )
            for fix in sorted(summary.recommendations, key=lambda fix: not fix.source)
            if fix.f1_gain >= MIN_F1_GAIN
        ],
        formats={"gain of F1": "+.2f", "true gain": "+.2f"},
        notes=(
            "wrong: marks expected to be wrong that the model follows; lost: right marks that it "
            "does not believe, or entities that nobody marks; gain in points of F1",
        ),
    )


def _summary_line(summary: RunSummary) -> str:
    gold = "with gold beside them" if summary.data.gold is not None else "no gold"
    split = summary.run_info.get("split")
    where = f" of {split}" if split else ""
    return (
        f"{summary.predictions.model} on {len(summary.data):,} sentences{where}, "
        f"{len(summary.data.sources)} sources, {gold}."
    )


def _tiles(summary: RunSummary) -> list[SummaryTile]:
    data, spans = summary.data, summary.predictions.spans
    vote_spans = data.tags.spans(summary.vote_labels, data.offsets)
    tiles = [
        SummaryTile("Sentences", f"{len(data):,}", f"{len(data.tokens):,} tokens"),
        SummaryTile("Entities found", f"{len(spans):,}", f"majority vote: {len(vote_spans):,}"),
    ]
    scores, majority_vote = summary.evaluation.scores, summary.evaluation.majority_vote
    if scores is not None and majority_vote is not None:
        gap = 100 * (scores.micro.f1 - majority_vote.micro.f1)
        tiles.append(SummaryTile("F1", f"{100 * scores.micro.f1:.1f}", f"{gap:+.1f} to majority vote"))
    elif spans.score is not None and len(spans):
        tiles.append(SummaryTile("Mean probability", f"{float(np.mean(spans.score)):.2f}", "of the entities found"))
    num_conflicts = summary.sentence_index.counts()["disagreement"]
    tiles.append(SummaryTile("Sources disagree", f"{num_conflicts:,}", "sentences"))
    best = max(summary.estimates, key=lambda item: item.f1.value, default=None)
    if best is not None:
        tiles.append(SummaryTile("Best source", best.source, f"F1 about {100 * best.f1.value:.0f}"))
    return tiles


def _scores(summary: RunSummary) -> Table:
    """The model and majority vote; without gold, what they find and share."""
    if summary.evaluation.scores is not None:
        return summary.evaluation.table()
    data = summary.data
    vote_spans, spans = (
        data.tags.spans(summary.vote_labels, data.offsets),
        summary.predictions.spans,
    )
    types = data.fine_tags.types
    model_counts, vote_counts = (np.bincount(part.type, minlength=len(types)).tolist() for part in (spans, vote_spans))
    return Table(
        title="Entities found",
        columns=("type", summary.predictions.model, "majority vote (IO)"),
        rows=list(zip(types, model_counts, vote_counts, strict=True)),
        notes=("there is no gold, so nothing can be said of how many are right",),
    )


def _settings(summary: RunSummary) -> Table:
    settings: Mapping[str, Any] = {
        "model": summary.predictions.model,
        **{name: value for name, value in summary.run_info.items() if name not in ("sources", "why")},
        **summary.predictions.settings,
    }
    rows = [(name, _format_value(value)) for name, value in settings.items()]
    return Table(title="Settings", columns=("setting", "value"), rows=rows)


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return str(value)


def _similar_sources(summary: RunSummary) -> Table | None:
    """Pairs that mark much the same, the most alike first."""
    values, names = summary.analysis.pairwise["span_f1"], summary.data.sources
    left, right = np.triu_indices(len(names), 1)
    pairs = [
        (names[i], names[j], float(values[i, j]))
        for i, j in zip(left.tolist(), right.tolist(), strict=True)
        if values[i, j] >= MIN_SIMILARITY
    ]
    if not pairs:
        return None
    return Table(
        title="Sources that mark much the same",
        columns=("source", "and", "span F1"),
        rows=sorted(pairs, key=lambda pair: -pair[2]),
        formats={"span F1": PERCENT},
        notes=("sources that err together count for more than they know",),
    )


def _emission_note(summary: RunSummary) -> str:
    if summary.diagnostics.emission is None:
        return "Counted against the model's posterior: this model has no emissions of its own."
    return "Start: before training; final: as learned; truth: counted from gold, if there is any."


def _format_interval(interval: Interval) -> str:
    value, low, high = (100 * part for part in interval)
    return f"{value:.0f} [{low:.0f}, {high:.0f}]"
