"""What the page of an account says, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from convener.evaluate.bootstrap import Interval
from convener.report import drawings
from convener.report.account import RunSummary
from convener.report.alerts import alerts
from convener.report.page import render_page
from convener.tables import PERCENT, Table

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
            "reliability": drawings.reliability(summary),
            "agreement": drawings.estimated_vs_gold(summary),
            "analysis": summary.analysis.table(),
            "estimates": estimate_table(summary),
            "pairs": drawings.source_similarity(summary),
            "alike": _similar_sources(summary),
            "curves": drawings.training_curves(summary),
            "emissions": drawings.emissions(summary),
            "emission_note": _emission_note(summary),
            "moves": drawings.transitions(summary),
            "calibration": drawings.calibration(summary),
            "kinds": None if error_types is None else error_types.table(),
            "by_type": summary.evaluation.type_table(),
            "confusion": drawings.confusion(summary),
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
