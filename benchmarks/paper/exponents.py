"""The study of exponents on CoNLL: n and s of the scaling function h, n of the expansion function g."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import convener as cv
from benchmarks.harness.jobs import Job, Options, group, run_jobs
from benchmarks.harness.results import MEASURE, Row, mean_of, pyplot, save_figure, spread_of
from benchmarks.paper import main_results, recipes

DATA, SEEDS = "CoNLL", 2
H_N = (0.8, 1.0, 1.2, 1.5, 2.0)
"""The paper shows its grids in a plot whose values are not given: these are ours."""
H_S = (1.0, 1.5, 2.0, 3.0)
G_N = (2.0, 3.0, 4.0, 6.0, 8.0)
Groups = dict[tuple[str, ...], list[Row]]


def grid(options: Options) -> Iterator[tuple[str, dict[str, float]]]:
    """All combinations of exponents with their names; one of h and one of g in smoke tests."""
    smoke = options.smoke is not None
    for h_s in H_S[:1] if smoke else H_S:
        for h_n in H_N[:1] if smoke else H_N:
            yield f"h-n{h_n:g}-s{h_s:g}", {"h_n": h_n, "h_s": h_s}
    for g_n in G_N[:1] if smoke else G_N:
        yield f"g-n{g_n:g}", {"g_n": g_n}


def data_of(options: Options) -> str:
    """The data set that is studied."""
    return DATA if options.smoke is None else options.data[0]


def jobs(options: Options) -> Iterator[Job]:
    """Fits with the first encoder only."""
    data, encoder = data_of(options), options.encoders[0]
    for name, exponents in grid(options):
        for seed in options.seeds_for(SEEDS):
            yield Job(
                part="paper/exponents",
                data=data,
                model=main_results.OURS,
                variant=f"{options.recipe}-{name}",
                encoder=encoder,
                seed=seed,
                settings=recipes.settings(options.recipe, data, encoder) | recipes.exponents(**exponents),
            )


def page(options: Options) -> None:
    """Part `exponents`."""
    data = data_of(options)
    if data not in options.data or not options.encoders:
        print(f"exponents: needs {DATA} and an encoder; skipped")
        return
    found = run_jobs(jobs(options), options)
    groups = group(found, "variant")
    rows = []
    for name, exponents in grid(options):
        seeds = groups.get((f"{options.recipe}-{name}",), [])
        values = [exponents.get(key) for key in ("h_n", "h_s", "g_n")]
        f1 = [mean_of(seeds, split=split) for split in ("valid", "test")]
        rows.append((*values, *f1, spread_of(seeds), len(seeds)))
    encoder = options.encoders[0]
    table = cv.Table(
        title=f"F1 on {data} by exponent, recipe {options.recipe}, {encoder}",
        columns=("n of h", "s of h", "n of g", "valid F1", "test F1", "±", "seeds"),
        rows=rows,
        formats=dict.fromkeys(("valid F1", "test F1", "±"), ".2f"),
        notes=("-: as in the recipe. No setting is chosen by these results.",),
    )
    blocks = [MEASURE, _plot(groups, options), table]
    options.write_page("paper/exponents", f"Exponents of h and g on {data}", blocks, found)


def _plot(groups: Groups, options: Options) -> Path | None:
    """F1 over n of h for each s, and over n of g."""
    plt = pyplot()
    if plt is None or not groups:
        return None
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.5, 2.4), sharey=True)
    for h_s in H_S:
        names = [f"{options.recipe}-h-n{n:g}-s{h_s:g}" for n in H_N]
        _line(left, H_N, names, groups, f"s = {h_s:g}")
    names = [f"{options.recipe}-g-n{n:g}" for n in G_N]
    _line(right, G_N, names, groups, "test")
    _line(right, G_N, names, groups, "valid", split="valid")
    for axes, title in ((left, "n of h"), (right, "n of g")):
        axes.set_xlabel(title)
        axes.legend(frameon=False)
    left.set_ylabel("test F1")
    return save_figure(figure, options.results / "paper/exponents.svg")


def _line(
    axes: Any, values: tuple[float, ...], names: list[str], groups: Groups, label: str, split: str = "test"
) -> None:
    points = [
        (value, mean_of(groups[name,], split=split), spread_of(groups[name,], split=split))
        for value, name in zip(values, names, strict=True)
        if (name,) in groups
    ]
    if points:
        x, y, spread = zip(*points, strict=True)
        axes.errorbar(x, y, yerr=spread, marker="o", markersize=3, capsize=2, label=label)
