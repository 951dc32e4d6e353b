"""The study of exponents on CoNLL: n and s of the scaling function h, n of the expansion g."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import convener as cv
from benchmarks import pages
from benchmarks.jobs import Job, Options, Outcome, grouped, outcomes
from benchmarks.pages import mean_of, spread_of
from benchmarks.paper import recipes, results

DATA, SEEDS = "CoNLL", 2
STEEPNESS = (0.8, 1.0, 1.2, 1.5, 2.0)
"""n of h. The paper shows its grids in a plot that cannot be read here: these are ours."""
ROOT = (1.0, 1.5, 2.0, 3.0)
"""s of h."""
EXPONENT = (2.0, 3.0, 4.0, 6.0, 8.0)
"""n of g."""
Groups = dict[tuple[str, ...], list[Outcome]]


def grid() -> Iterator[tuple[str, dict[str, Any]]]:
    """All settings, with their names."""
    for root in ROOT:
        for steepness in STEEPNESS:
            yield f"h-n{steepness:g}-s{root:g}", {"steepness": steepness, "root": root}
    for exponent in EXPONENT:
        yield f"g-n{exponent:g}", {"exponent": exponent}


def jobs(options: Options) -> Iterator[Job]:
    """One encoder, the first, is enough for a study of shapes."""
    for name, change in grid():
        for seed in options.seeds_for(SEEDS):
            yield Job(
                part="paper/exponents",
                data=DATA,
                model=results.OURS,
                variant=f"{options.recipe}-{name}",
                encoder=options.encoders[0],
                seed=seed,
                settings=recipes.settings(options.recipe, DATA, options.encoders[0]) | change,
            )


def page(options: Options) -> None:
    """Part `exponents`."""
    if DATA not in options.data or not options.encoders:
        print(f"exponents: they are studied on {DATA} with an encoder; skipped")
        return
    found = outcomes(jobs(options), options)
    groups = grouped(found, "variant")
    rows = []
    for name, change in grid():
        seeds = groups.get((f"{options.recipe}-{name}",), [])
        values = [change.get(key) for key in ("steepness", "root", "exponent")]
        figures = [mean_of(seeds, split=split) for split in ("valid", "test")]
        rows.append((*values, *figures, spread_of(seeds), len(seeds)))
    encoder = options.encoders[0]
    table = cv.Table(
        title=f"F1 on {DATA} by exponent, recipe {options.recipe}, {encoder}",
        columns=("n of h", "s of h", "n of g", "valid F1", "test F1", "±", "seeds"),
        rows=rows,
        formats=dict.fromkeys(("valid F1", "test F1", "±"), ".2f"),
        notes=("-: as in the recipe. Nothing is chosen by these figures.",),
    )
    blocks = [pages.MEASURE, _plot(groups, options), table]
    pages.write("paper/exponents", f"Exponents of h and g on {DATA}", blocks, found)


def _plot(groups: Groups, options: Options) -> Path | None:
    """F1 over n for each s, and over n of g."""
    plt = pages.pyplot()
    if plt is None or not groups:
        return None
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.5, 2.4), sharey=True)
    for root in ROOT:
        names = [f"{options.recipe}-h-n{n:g}-s{root:g}" for n in STEEPNESS]
        _line(left, STEEPNESS, names, groups, f"s = {root:g}")
    names = [f"{options.recipe}-g-n{n:g}" for n in EXPONENT]
    _line(right, EXPONENT, names, groups, "test")
    _line(right, EXPONENT, names, groups, "valid", split="valid")
    for axes, title in ((left, "n of h"), (right, "n of g")):
        axes.set_xlabel(title)
        axes.legend(frameon=False)
    left.set_ylabel("test F1")
    return pages.save_plot(figure, "paper/exponents")


def _line(
    axes: Any,
    values: tuple[float, ...],
    names: list[str],
    groups: Groups,
    label: str,
    split: str = "test",
) -> None:
    points = [
        (value, mean_of(groups[name,], split=split), spread_of(groups[name,], split=split))
        for value, name in zip(values, names, strict=True)
        if (name,) in groups
    ]
    if points:
        x, y, spread = zip(*points, strict=True)
        axes.errorbar(x, y, yerr=spread, marker="o", markersize=3, capsize=2, label=label)
