"""The HTML report: text, tables and the page itself."""

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

from convener.data.highlight import type_hue
from convener.data.tables import PERCENT, Table
from convener.errors import require
from convener.evaluation.source_reliability import INTERVAL_NOTE
from convener.report import figures
from convener.report.figures import Axis
from convener.report.run_summary import RunSummary, alerts
from convener.report.sentence_index import FILTERS, Query, SentenceIndex

_HERE = Path(__file__).parent
MAX_SENTENCES = 20_000
"""Sentences embedded in one file; of more, the most uncertain are embedded, and the viewer shows all."""
MIN_F1_GAIN = 0.0005
"""Recommendations with a smaller expected gain in F1 are omitted."""
MAX_RECOMMENDATIONS = 12
"""Maximum number of recommendations on the page."""
MIN_SIMILARITY = 0.5
"""Pairs of sources with a smaller span F1 are not listed."""


class SummaryTile(NamedTuple):
    """A number at the top of the page."""

    name: str
    value: str
    detail: str


@cache
def template_environment() -> Any:
    """Jinja environment; all inserted values are escaped."""
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
        "table_cells": table_cells,
        "table_head": lambda table: zip(table.columns, table.numeric_columns(), strict=True),
        "fit_axis": fit_axis,
        "max_length": lambda names: max([len(name) for name in names], default=1),
        "short_decimal": lambda value: "1" if value > 0.995 else f"{value:.2f}".removeprefix("0"),
        "dot_radius": lambda count: round(2.5 + min(6.0, float(count) ** 0.25 / 2), 2),
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
    """HTML page with embedded sentences or, for the viewer (`remote`), without.

    context: further variables of the template.
    """
    env = template_environment()
    script = (_HERE / "static" / "report.js").read_text(encoding="utf-8")
    style = (_HERE / "static" / "report.css").read_text(encoding="utf-8")
    hues = {name: type_hue(number) for number, name in enumerate(sentence_index.types)}
    setup = {
        "types": sentence_index.types,
        "hues": list(hues.values()),
        "tracks": sentence_index.tracks,
        "filters": FILTERS,
        "size": len(sentence_index),
        "remote": remote,
    }
    sentence_ids = embedded_sentences(sentence_index)
    records = None if remote else to_script_json([sentence_index.record(number) for number in sentence_ids.tolist()])
    markup = importlib.import_module("markupsafe").Markup
    html: str = env.get_template(template).render(
        title=title,
        sentence_index=sentence_index,
        counts=sentence_index.counts(),
        policy=content_security_policy(script),
        style=markup(style),
        script=markup(script),
        setup=markup(to_script_json(setup)),
        records=None if records is None else markup(records),
        num_shown=len(sentence_index) if remote else len(sentence_ids),
        hue=lambda name: hues.get(name, 0),
        version=version("convener"),
        **context,
    )
    # Lone surrogates cannot be encoded as UTF-8: show the replacement character.
    return html.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def embedded_sentences(sentence_index: SentenceIndex) -> NDArray[np.int64]:
    """Numbers of the sentences embedded in one file, in text order."""
    selected: NDArray[np.int64] = np.sort(sentence_index.find(Query(order="entropy"))[:MAX_SENTENCES])
    return selected


def content_security_policy(script: str) -> str:
    """Content security policy that allows this script only, so that nothing in the data can run."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def to_script_json(value: Any) -> str:
    r"""JSON for a script element: nothing in it can close the element.

    >>> to_script_json({"t": "</script><!--"})
    '{"t":"\\u003c/script>\\u003c!--"}'
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate, which needs an escape
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def table_cells(table: Table) -> list[list[tuple[str, bool]]]:
    """Formatted cells of a table, each with a flag for numeric columns."""
    numeric = table.numeric_columns()
    return [list(zip(row, numeric, strict=True)) for row in table.formatted_rows()]


def fit_axis(curves: Mapping[str, Sequence[tuple[float, float]]], column: int, first: float, last: float) -> Axis:
    """Axis that covers a coordinate (0: x, 1: y) of all curves."""
    values = [point[column] for points in curves.values() for point in points]
    low, high = min(values), max(values)
    return Axis(low, high, first, last) if high > low else Axis(low - 0.5, high + 0.5, first, last)


def render_report(summary: RunSummary, *, remote: bool = False) -> str:
    """HTML report with embedded sentences or, for the viewer (`remote`), without."""
    recommendations = [item for item in summary.recommendations if item.f1_gain >= MIN_F1_GAIN]
    error_types, gold = summary.evaluation.error_types, summary.data.gold is not None
    return render_page(
        "report.html",
        title=summary.title,
        sentence_index=summary.sentence_index,
        remote=remote,
        context={
            "gold": gold,
            "lead": _summary_line(summary),
            "report_date": summary.run_info.get("reported", ""),
            "alerts": alerts(summary),
            "tiles": _tiles(summary),
            "scores": _scores(summary),
            "explanation": summary.explanation,
            "settings": _settings(summary),
            "recommendations": [item for item in recommendations if item.source][:MAX_RECOMMENDATIONS],
            "new_sources": [item for item in recommendations if not item.source],
            "documents_to_ask": None if summary.answers is None else summary.answers.table(),
            "workers_to_ask": None if summary.answers is None else summary.answers.worker_table(),
            "reliability": figures.reliability(summary),
            "estimated_vs_gold": figures.estimated_vs_gold(summary),
            "analysis": summary.analysis.table(),
            "estimates": estimate_table(summary),
            "source_similarity": figures.source_similarity(summary),
            "similar_sources": _similar_sources(summary),
            "training_curves": figures.training_curves(summary),
            "emissions": figures.emissions(summary),
            "emission_note": _emission_note(summary),
            "transitions": figures.transitions(summary),
            "calibration": figures.calibration(summary),
            "error_types": None if error_types is None else error_types.table(),
            "by_type": summary.evaluation.type_table(),
            "confusion": figures.confusion(summary),
        },
    )


def estimate_table(summary: RunSummary) -> Table:
    """Estimated precision, recall and F1 of each source and type, with intervals."""
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
        title="Estimated quality of sources by type",
        columns=columns,
        rows=[
            (
                item.source,
                item.type,
                item.num_spans,
                *map(str, (item.precision, item.recall, item.f1)),
                *([None if item.gold_score is None else item.gold_score.f1] if gold else []),
            )
            for item in summary.estimates
        ],
        formats={"true F1": PERCENT},
        notes=(INTERVAL_NOTE,),
    )


def recommendation_table(summary: RunSummary) -> Table:
    """Recommended improvements, largest expected gain first."""
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
                item.source or "(new source)",
                item.type,
                item.num_spans,
                round(item.expected_false_positives),
                round(item.expected_misses),
                100 * item.f1_gain,
                *([None if item.gold_f1_gain is None else 100 * item.gold_f1_gain] if gold else []),
                ", ".join(phrase for phrase, _ in item.examples[:3]),
            )
            for item in sorted(summary.recommendations, key=lambda item: not item.source)
            if item.f1_gain >= MIN_F1_GAIN
        ],
        formats={"gain of F1": "+.2f", "true gain": "+.2f"},
        notes=(
            "wrong: expected false positives that the model adopts; lost: expected misses, that is correct spans that "
            "the model rejects, or entities without votes; gain in points of F1",
        ),
    )


def _summary_line(summary: RunSummary) -> str:
    gold = "with gold labels" if summary.data.gold is not None else "no gold labels"
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
        SummaryTile("Predicted entities", f"{len(spans):,}", f"majority vote: {len(vote_spans):,}"),
    ]
    scores, majority_vote = summary.evaluation.scores, summary.evaluation.majority_vote
    if scores is not None and majority_vote is not None:
        gap = 100 * (scores.micro.f1 - majority_vote.micro.f1)
        tiles.append(SummaryTile("F1", f"{100 * scores.micro.f1:.1f}", f"{gap:+.1f} vs. majority vote"))
    elif spans.score is not None and len(spans):
        tiles.append(SummaryTile("Mean probability", f"{float(np.mean(spans.score)):.2f}", "of predicted entities"))
    num_conflicts = summary.sentence_index.counts()["source_conflict"]
    tiles.append(SummaryTile("Source conflicts", f"{num_conflicts:,}", "sentences"))
    best = max(summary.estimates, key=lambda item: item.f1.value, default=None)
    if best is not None:
        tiles.append(SummaryTile("Best source", best.source, f"estimated F1 {100 * best.f1.value:.0f}"))
    return tiles


def _scores(summary: RunSummary) -> Table:
    """Scores of the model and of majority vote; without gold, the number of predicted entities."""
    if summary.evaluation.scores is not None:
        return summary.evaluation.table()
    data = summary.data
    types = data.fine_tags.types
    model_counts, vote_counts = (
        np.bincount(spans.type, minlength=len(types)).tolist()
        for spans in (summary.predictions.spans, data.tags.spans(summary.vote_labels, data.offsets))
    )
    return Table(
        title="Predicted entities",
        columns=("type", summary.predictions.model, "majority vote (IO)"),
        rows=list(zip(types, model_counts, vote_counts, strict=True)),
        notes=("no gold labels; scores are unavailable",),
    )


def _settings(summary: RunSummary) -> Table:
    settings: Mapping[str, Any] = {
        "model": summary.predictions.model,
        **{name: value for name, value in summary.run_info.items() if name not in ("sources", "explanation")},
        **summary.predictions.settings,
    }
    rows = [(name, _format_value(value)) for name, value in settings.items()]
    return Table(title="Settings", columns=("setting", "value"), rows=rows)


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return str(value)


def _similar_sources(summary: RunSummary) -> Table | None:
    """Pairs of similar sources, most similar first."""
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
        title="Similar sources",
        columns=("source", "similar to", "span F1"),
        rows=sorted(pairs, key=lambda pair: -pair[2]),
        formats={"span F1": PERCENT},
        notes=("correlated sources inflate confidence",),
    )


def _emission_note(summary: RunSummary) -> str:
    if summary.diagnostics.emission is None:
        return "This model has no emissions; they are counted against its posterior."
    return "Initial: before training; learned: after training; gold: counted from gold labels, if available."
