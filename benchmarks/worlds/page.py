"""The page of a seed: gain over the better vote, by model and by property; the worst cases of each model; a plot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import convener as cv
from benchmarks.harness.results import as_text, code_digest, now, pyplot, save_figure, write_page
from benchmarks.worlds.cases import KINDS
from benchmarks.worlds.config import SIGNALS

GENERATED = ("functions", "mixed", "crowd")
WORST = 10
WARNED_BELOW = -0.5
"""Gain below which a model should have warned."""
LEVELS = (-0.3, -0.5, 1.0)
NOTE = (
    "F1: entity level, micro average, strict mode, in percent. Models are fitted on train without gold and scored on "
    "test; crowds are fitted and scored on the same sentences; real sets are scored on valid, with the final seed on "
    "test. Gain: F1 minus that of the better of two votes (majority vote by token, IO; union of spans), chosen with "
    "gold. Oracle: all true spans that a source marks, and nothing else. Warned: share of the cases of gain below "
    f"{WARNED_BELOW} in which the fit warned. ECE: expected calibration error of span scores, median. Covered: share "
    "of the intervals of `reliability()` that contain the measured value on train, and the expected one."
)
Row = dict[str, Any]


class Result(NamedTuple):
    """A model on a case."""

    case: Row
    model: str
    result: Row

    @property
    def vote(self) -> float:
        return better_vote(self.case)

    @property
    def gain(self) -> float:
        return float(self.result["f1"]) - self.vote


def better_vote(row: Row) -> float:
    """F1 of the better simple vote."""
    return max(row["votes"]["io"], row["votes"]["span"])


def _bins(*bounds: float, step: float = 0) -> Callable[[Any], str]:
    """Names of ranges: up to the first bound, ..., above the last. Step 1 if values are integers."""

    def name(value: float) -> str:
        for low, high in zip((None, *bounds), bounds, strict=False):
            if value <= high:
                return f"<= {high:g}" if low is None else f"{low + step:g} to {high:g}"
        return f"> {bounds[-1]:g}"

    return name


PROPERTIES: dict[str, Callable[[Any], str]] = {
    "features": str,
    "correlated": str,
    "unmarked": str,
    "lexical": lambda value: "dictionaries" if value else "no dictionaries",
    "narrow": lambda value: "few types a source" if value else "most types a source",
    "types": _bins(1, 4, 9, step=1),
    "sources": _bins(5, 20, 60, step=1),
    "sentences": _bins(100, 500, 3000, step=1),
    "density": _bins(0.03, 0.1, 0.2),
    "answers": _bins(0, 2, 4, step=1),
    "spammers": _bins(0, 0.2),
    "precision": _bins(0.6, 0.8),
    "recall": _bins(0.1, 0.3),
    "bounds": _bins(0.05, 0.15),
    "vote": _bins(40, 60, 80),
}
PLOTTED = ("kind", "features", "correlated", "unmarked", "types", "sources", "density", "sentences")


def write(rows: Sequence[Row], seed: int, folder: Path) -> Path:
    """Write the page and the figure of these rows, which must be of one seed."""
    results = [
        Result(row, name, each) for row in rows for name, each in row["models"].items() if each["f1"] is not None
    ]
    models = sorted({each.model for each in results}, key=lambda name: -np.mean(gains(results, model=name)))
    generated = [each for each in results if each.case["kind"] in GENERATED]
    blocks = [
        NOTE,
        _cases(rows),
        _statistics(rows),
        _summary("Generated worlds", generated, models),
        *(
            _summary(title, [each for each in results if each.case["kind"] == kind], models)
            for kind, title in (
                ("functions", "Labeling functions"),
                ("mixed", "Mixed sources"),
                ("crowd", "Crowds"),
                ("real", "Real sets"),
                ("sources", "Real sets, some of their sources"),
                ("sentences", "Real sets, some of their sentences"),
            )
        ),
        _by_property(generated, models),
        _by_real(results, models),
        *(_worst(generated, name) for name in models),
        _plot(generated, models, folder / f"seed-{seed}.svg"),
    ]
    return write_page(
        folder / f"seed-{seed}.md",
        f"Worlds, seed {seed}",
        [block for block in blocks if block is None or not isinstance(block, cv.Table) or block.rows],
        _provenance(rows, results, seed),
    )


def gains(results: Sequence[Result], **wanted: str) -> list[float]:
    """Gains of a model."""
    return [each.gain for each in results if all(getattr(each, name) == value for name, value in wanted.items())]


def _cases(rows: Sequence[Row]) -> cv.Table:
    """How hard the cases are."""
    lines = []
    for kind in KINDS:
        chosen = [row for row in rows if row["kind"] == kind]
        if not chosen:
            continue
        votes = np.array([better_vote(row) for row in chosen])
        oracle = np.array([row["votes"]["oracle"] for row in chosen])
        lines.append(
            (kind, len(chosen), *np.percentile(votes, [0, 10, 50, 90, 100]).tolist(), float(np.median(oracle)))
        )
    columns = ("minimum", "10 %", "median", "90 %", "maximum", "oracle, median")
    return cv.Table(
        title="F1 of the better vote",
        columns=("kind", "cases", *columns),
        rows=lines,
        formats=dict.fromkeys(columns, ".1f"),
    )


def _statistics(rows: Sequence[Row]) -> cv.Table:
    """How alike generated and real corpora are."""
    names = ("marks", "distinct", "lone", "lone_false", "marked")
    lines = []
    groups = {kind: [row for row in rows if row["kind"] == kind] for kind in GENERATED}
    groups |= {row["name"]: [row] for row in rows if row["kind"] == "real"}
    for group, chosen in groups.items():
        cells = []
        for name in names:
            values = [value for row in chosen if (value := row["properties"].get(name)) is not None]
            low, middle, high = np.percentile(values, [10, 50, 90]) if values else (np.nan,) * 3
            cells.append(f"{middle:.2f}" if len(chosen) == 1 else f"{middle:.2f} ({low:.2f} to {high:.2f})")
        if chosen:
            lines.append((group, *cells))
    return cv.Table(
        title="Marks of generated and real corpora",
        columns=("kind", "marks", "distinct marks", "lone", "false lone", "marked spans"),
        rows=lines,
        notes=(
            "median (10 to 90 %) on train; marks, distinct marks: per true span; lone: share of the distinct marks "
            "that one source makes; false lone: of these; marked spans: share of the true spans",
        ),
    )


def _summary(title: str, results: Sequence[Result], models: Sequence[str]) -> cv.Table:
    lines = []
    for name in models:
        chosen = [each for each in results if each.model == name]
        if not chosen:
            continue
        gain = np.array([each.gain for each in chosen])
        errors = [each.result["ece"] for each in chosen if each.result["ece"] is not None]
        bad = [each for each in chosen if each.gain < WARNED_BELOW]
        lines.append(
            (
                name,
                len(chosen),
                float(gain.mean()),
                float(gain.min()),
                float(np.percentile(gain, 5)),
                *(float((gain >= level).mean()) for level in LEVELS),
                float(np.mean([bool(each.result["warnings"]) for each in bad])) if bad else None,
                float(np.mean([bool(each.result["warnings"]) for each in chosen])),
                float(np.median(errors)) if errors else None,
                *(_covered(chosen, truth) for truth in ("train", "expected")),
                float(sum(each.result["seconds"] for each in chosen)),
            )
        )
    shares = tuple(f">= {level:+g}" for level in LEVELS)
    points = ("mean gain", "minimum", "5 %")
    return cv.Table(
        title=title,
        columns=(
            *("model", "cases", *points, *shares, "warned", "warned of all"),
            *("ECE", "covered", "covered, expected", "seconds"),
        ),
        rows=lines,
        formats={
            **dict.fromkeys(points, "+.2f"),
            **dict.fromkeys((*shares, "warned", "warned of all", "covered", "covered, expected"), ".1%"),
            "ECE": ".3f",
            "seconds": ".0f",
        },
    )


def _covered(results: Sequence[Result], truth: str) -> float | None:
    """Share of the intervals that contain the truth; None if there are none."""
    counts = [each.result["coverage"][truth] for each in results if truth in each.result.get("coverage", {})]
    covered, total = np.sum(counts, axis=0) if counts else (0, 0)
    return float(covered / total) if total else None


def value_of(row: Row, name: str) -> str | None:
    """The group of a case by a property; None if it has none."""
    if name == "kind":
        return str(row["kind"])
    value = better_vote(row) if name == "vote" else row["properties"].get(name)
    return None if value is None else PROPERTIES[name](value)


def _groups(results: Sequence[Result], name: str) -> dict[str, list[Result]]:
    groups: dict[str, list[Result]] = {}
    for each in results:
        if (value := value_of(each.case, name)) is not None:
            groups.setdefault(value, []).append(each)
    return dict(sorted(groups.items(), key=lambda item: _order(item[0])))


def _order(name: str) -> tuple[float, str]:
    """Ranges by their bounds; words in alphabetical order, except strength of features."""
    if name in SIGNALS:
        return float(SIGNALS.index(name)), name
    words = name.split()
    if words[0] == "<=":
        return -1.0, name
    number = words[-1] if words[0] == ">" else words[0]
    return (float(number), name) if number[0].isdigit() else (0.0, name)


def _by_property(results: Sequence[Result], models: Sequence[str]) -> cv.Table:
    """Mean gain and 5th percentile of each model in each group of worlds."""
    lines = []
    for name in ("kind", *PROPERTIES):
        for value, group in _groups(results, name).items():
            cells = []
            for model in models:
                gain = gains(group, model=model)
                cells.append(f"{np.mean(gain):+.1f} ({np.percentile(gain, 5):+.1f})" if gain else "-")
            count = len({(each.case["seed"], each.case["name"]) for each in group})
            lines.append((name, value, count, *cells))
    return cv.Table(
        title="By property of the world",
        columns=("property", "value", "worlds", *models),
        rows=lines,
        notes=("mean gain (5th percentile); precision, recall: medians over sources and types; vote: F1",),
    )


def _by_real(results: Sequence[Result], models: Sequence[str]) -> cv.Table:
    """Mean and minimum gain on the real sets."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for each in results:
        kind, properties = each.case["kind"], each.case["properties"]
        if kind in ("real", "sources"):
            groups.setdefault((kind, properties["data"]), []).append(each)
        if kind == "sentences":
            groups.setdefault((kind, properties["data"]), []).append(each)
            groups.setdefault((kind, str(properties["sentences"])), []).append(each)
    lines = []
    for key, group in sorted(groups.items(), key=lambda item: (KINDS.index(item[0][0]), _order(item[0][1]))):
        by_model = [gains(group, model=model) for model in models]
        cells = [f"{np.mean(gain):+.1f} ({min(gain):+.1f})" if gain else "-" for gain in by_model]
        lines.append((*key, max(map(len, by_model)), *cells))
    return cv.Table(
        title="Parts of real sets",
        columns=("kind", "data or size", "cases", *models),
        rows=lines,
        notes=("mean gain (minimum)",),
    )


def _worst(results: Sequence[Result], model: str) -> cv.Table:
    """The worst worlds of a model, with their properties."""
    chosen = sorted((each for each in results if each.model == model), key=lambda each: each.gain)[:WORST]
    shown = (
        *("types", "sources", "sentences", "density", "recall", "precision", "bounds"),
        *("correlated", "unmarked", "lexical", "narrow", "answers", "features"),
    )
    return cv.Table(
        title=f"Worst worlds of {model}",
        columns=("world", "gain", "F1", "better vote", "oracle", "warned", *shown),
        rows=[
            (
                each.case["name"],
                each.gain,
                each.result["f1"],
                each.vote,
                each.case["votes"]["oracle"],
                bool(each.result["warnings"]),
                *(each.case["properties"].get(name) for name in shown),
            )
            for each in chosen
        ],
        formats={"gain": "+.1f", "F1": ".1f", "better vote": ".1f", "oracle": ".1f"},
    )


def _plot(results: Sequence[Result], models: Sequence[str], path: Path) -> Path | None:
    """Mean gain of each model by group, a panel for each property."""
    plt = pyplot()
    if plt is None or not results:
        return None
    figure, grid = plt.subplots(2, 4, figsize=(11, 5), sharey=True)
    for axes, name in zip(grid.ravel(), PLOTTED, strict=True):
        groups = _groups(results, name)
        for number, model in enumerate(models):
            mean = [float(np.mean(gains(group, model=model) or [np.nan])) for group in groups.values()]
            place = np.arange(len(groups)) + 0.08 * (number - len(models) / 2)
            axes.plot(place, mean, "o-", markersize=3, linewidth=0.7, label=model)
        axes.set_xticks(range(len(groups)), list(groups), fontsize=6)
        axes.axhline(0, color="gray", linewidth=0.6)
        axes.set_title(name)
    for axes in grid[:, 0]:
        axes.set_ylabel("mean gain, F1")
    grid[0][0].legend(frameon=False, fontsize=6)
    figure.tight_layout()
    return save_figure(figure, path)


def _provenance(rows: Sequence[Row], results: Sequence[Result], seed: int) -> dict[str, str]:
    dates = sorted(each.result["date"] for each in results)
    codes = Counter(each.result["code"] for each in results)
    return {
        "written": now(),
        "seed": str(seed),
        "fits": f"{len(results)}, made {dates[0]} to {dates[-1]}" if dates else "0",
        "machine": "; ".join(Counter(row["machine"] for row in rows)),
        "versions": "; ".join(Counter(as_text(row["versions"]) for row in rows)),
        "code": "; ".join(
            f"{name} ({count} fits{'' if name == code_digest() else ', not the code of this page'})"
            for name, count in codes.most_common()
        ),
    }
