"""What the page of an account says, in words and tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from convener.evaluate.bootstrap import Interval
from convener.report import drawings
from convener.report.account import Account
from convener.report.alerts import alerts
from convener.report.page import render
from convener.tables import PERCENT, Table

LEAST_GAIN = 0.0005
"""Of F1; what promises less is not listed, and no more than `MOST_FIXES` are."""
MOST_FIXES = 12
LEAST_ALIKE = 0.5
"""Pairs of sources with less span F1 are not listed."""


class Tile(NamedTuple):
    """A figure at the top of the page."""

    name: str
    value: str
    more: str


def page(account: Account, *, remote: bool = False) -> str:
    """The page of an account, with its sentences or, for the viewer, without."""
    worth = [fix for fix in account.fixes if fix.gain >= LEAST_GAIN]
    breakdown, gold = account.evaluation.breakdown, account.data.gold is not None
    return render(
        "report.html",
        title=account.title,
        sheet=account.sheet,
        remote=remote,
        facts={
            "gold": gold,
            "lead": _lead(account),
            "made": account.facts.get("reported", ""),
            "alerts": alerts(account),
            "tiles": _tiles(account),
            "scores": _scores(account),
            "why": account.why,
            "settings": _settings(account),
            "fixes": [fix for fix in worth if fix.source][:MOST_FIXES],
            "missing": [fix for fix in worth if not fix.source],
            "reliability": drawings.reliability(account),
            "agreement": drawings.agreement(account),
            "analysis": account.analysis.table(),
            "estimates": estimate_table(account),
            "pairs": drawings.pairs(account),
            "alike": _alike(account),
            "curves": drawings.curves(account),
            "emissions": drawings.emissions(account),
            "emission_note": _emission_note(account),
            "moves": drawings.moves(account),
            "calibration": drawings.calibration(account),
            "kinds": None if breakdown is None else breakdown.table(),
            "by_type": account.evaluation.type_table(),
            "confusion": drawings.confusion(account),
        },
    )


def estimate_table(account: Account) -> Table:
    """What each source is worth for each type, in figures."""
    gold = account.data.gold is not None
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
                item.marks,
                *(_with_ends(figure) for figure in (item.precision, item.recall, item.f1)),
                *([None if item.true is None else item.true.f1] if gold else []),
            )
            for item in account.estimates
        ],
        formats={"true F1": PERCENT},
        notes=(
            "in brackets: about 95 %, where other sentences and the model's doubts are counted",
        ),
    )


def fix_table(account: Account) -> Table:
    """What to mend next, the most promising first."""
    gold = account.data.gold is not None
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
                fix.marks,
                round(fix.wrong),
                round(fix.lost),
                100 * fix.gain,
                *([None if fix.true is None else 100 * fix.true] if gold else []),
                ", ".join(phrase for phrase, _ in fix.examples[:3]),
            )
            for fix in sorted(account.fixes, key=lambda fix: not fix.source)
            if fix.gain >= LEAST_GAIN
        ],
        formats={"gain of F1": "+.2f", "true gain": "+.2f"},
        notes=(
            "wrong: marks expected to be wrong that the model follows; lost: right marks that it "
            "does not believe, or entities that nobody marks; gain in points of F1",
        ),
    )


def _lead(account: Account) -> str:
    gold = "with gold beside them" if account.data.gold is not None else "no gold"
    split = account.facts.get("split")
    where = f" of {split}" if split else ""
    return (
        f"{account.answer.model} on {len(account.data):,} sentences{where}, "
        f"{len(account.data.sources)} sources, {gold}."
    )


def _tiles(account: Account) -> list[Tile]:
    data, spans = account.data, account.answer.spans
    voted = data.tags.spans(account.vote, data.offsets)
    tiles = [
        Tile("Sentences", f"{len(data):,}", f"{len(data.tokens):,} tokens"),
        Tile("Entities found", f"{len(spans):,}", f"majority vote: {len(voted):,}"),
    ]
    scores, vote = account.evaluation.scores, account.evaluation.majority_vote
    if scores is not None and vote is not None:
        gap = 100 * (scores.micro.f1 - vote.micro.f1)
        tiles.append(Tile("F1", f"{100 * scores.micro.f1:.1f}", f"{gap:+.1f} to majority vote"))
    elif spans.score is not None and len(spans):
        tiles.append(
            Tile("Mean probability", f"{float(np.mean(spans.score)):.2f}", "of the entities found")
        )
    disagreed = account.sheet.counts()["disagreement"]
    tiles.append(Tile("Sources disagree", f"{disagreed:,}", "sentences"))
    best = max(account.estimates, key=lambda item: item.f1.value, default=None)
    if best is not None:
        tiles.append(Tile("Best source", best.source, f"F1 about {100 * best.f1.value:.0f}"))
    return tiles


def _scores(account: Account) -> Table:
    """The model and majority vote; without gold, what they find and share."""
    if account.evaluation.scores is not None:
        return account.evaluation.table()
    data = account.data
    voted, spans = data.tags.spans(account.vote, data.offsets), account.answer.spans
    types = data.fine_tags.types
    ours, theirs = (
        np.bincount(part.type, minlength=len(types)).tolist() for part in (spans, voted)
    )
    return Table(
        title="Entities found",
        columns=("type", account.answer.model, "majority vote (IO)"),
        rows=list(zip(types, ours, theirs, strict=True)),
        notes=("there is no gold, so nothing can be said of how many are right",),
    )


def _settings(account: Account) -> Table:
    told: Mapping[str, Any] = {
        "model": account.answer.model,
        **{name: value for name, value in account.facts.items() if name not in ("sources", "why")},
        **account.answer.settings,
    }
    rows = [(name, _shown(value)) for name, value in told.items()]
    return Table(title="Settings", columns=("setting", "value"), rows=rows)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return str(value)


def _alike(account: Account) -> Table | None:
    """Pairs that mark much the same, the most alike first."""
    values, names = account.analysis.pairwise["span_f1"], account.data.sources
    left, right = np.triu_indices(len(names), 1)
    pairs = [
        (names[i], names[j], float(values[i, j]))
        for i, j in zip(left.tolist(), right.tolist(), strict=True)
        if values[i, j] >= LEAST_ALIKE
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


def _emission_note(account: Account) -> str:
    if account.insides.emissions is None:
        return "Counted against the model's posterior: this model has no emissions of its own."
    return "Start: before training; final: as learned; truth: counted from gold, if there is any."


def _with_ends(figure: Interval) -> str:
    value, low, high = (100 * part for part in figure)
    return f"{value:.0f} [{low:.0f}, {high:.0f}]"
