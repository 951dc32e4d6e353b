"""Ablations: Sparse-CHMM without its parts, and after each stage."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import convener as cv
from benchmarks import pages
from benchmarks.jobs import Job, Options, grouped, outcomes
from benchmarks.pages import mean_of, spread_of
from benchmarks.paper import figures, recipes, results

WHOLE = "whole"
CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "after-stage-1": ("after stage 1", {"stages": "1"}),
    "after-stage-2": ("after stage 2", {"stages": "1-2"}),
    "naive": ("naive emission", {"naive": True}),
    "without-h": ("without h", {"steepness": 1.0, "root": 1.0}),
    "without-softmax": ("without SoftMax", {"softmax": False}),
    "without-dirichlet": ("without Dirichlet", {"dirichlet": False}),
    "without-stage-2": ("without stage 2", {"stages": "1-3"}),
    "merged-2-and-3": ("stages 2 and 3 merged", {"stages": "1-23"}),
}
TITLES = {WHOLE: "Sparse-CHMM"} | {name: title for name, (title, _) in CHANGES.items()}
Means = dict[tuple[str, str], tuple[float, float]]


def jobs(options: Options, *chosen: str) -> Iterator[Job]:
    """The whole model from the main results, and its ablations; or some of these only."""
    for job in results.jobs(options, results.OURS):
        if job.variant != options.recipe:
            continue
        if not chosen or WHOLE in chosen:
            yield job
        for name, (_, change) in CHANGES.items():
            if not chosen or name in chosen:
                yield Job(
                    part="paper/ablation",
                    data=job.data,
                    model=job.model,
                    variant=f"{options.recipe}-{name}",
                    encoder=job.encoder,
                    seed=job.seed,
                    settings=dict(job.settings) | change,
                )


def page(options: Options) -> None:
    """Part `ablation`."""
    found = outcomes(jobs(options), options)
    groups = grouped(found, "data", "variant", "encoder")
    blocks: list[pages.Block] = [pages.MEASURE]
    for encoder in options.encoders:
        means: Means = {}
        for (data, variant, read), seeds in groups.items():
            if read == encoder:
                name = variant.removeprefix(options.recipe).removeprefix("-") or WHOLE
                means[data, name] = mean_of(seeds), spread_of(seeds)
        if means:
            blocks += [_table(encoder, means, options), _costs(encoder, means, options)]
            blocks += ["\n".join(order(means, options))]
    blocks += [_idle(options)]
    name = "ablation" if options.recipe == "ours" else f"ablation-{options.recipe}"
    pages.write(f"paper/{name}", f"Ablations of Sparse-CHMM, recipe {options.recipe}", blocks, found)


def _table(encoder: str, means: Means, options: Options) -> cv.Table:
    """F1 of every variant; the paper's in brackets."""
    rows = []
    for name, title in TITLES.items():
        cells = []
        for data in options.data:
            f1, spread = means.get((data, name), (math.nan, math.nan))
            theirs = figures.ABLATION[name][data]
            within = "" if math.isnan(spread) else f" ± {spread:.2f}"
            ours = "-" if math.isnan(f1) else f"{f1:.2f}{within}"
            cells.append(f"{ours} ({'failed' if theirs is None else f'{theirs:.2f}'})")
        rows.append((title, *cells))
    return cv.Table(
        title=f"Test F1, {encoder}",
        columns=("variant", *options.data),
        rows=rows,
        notes=("in brackets the paper's; failed: all its labels were O",),
    )


def _costs(encoder: str, means: Means, options: Options) -> cv.Table:
    """What leaving a part out costs, here and in the paper."""
    rows = []
    for name in CHANGES:
        cells = []
        for data in options.data:
            ours, theirs = cost(means, data, name), paper_cost(data, name)
            shown = "-" if math.isnan(ours) else f"{ours:+.2f}"
            cells.append(f"{shown} ({'failed' if math.isinf(theirs) else f'{theirs:+.2f}'})")
        rows.append((TITLES[name], *cells))
    return cv.Table(
        title=f"Cost in F1 of each change, {encoder}",
        columns=("variant", *options.data),
        rows=rows,
        notes=("whole model minus variant: positive where the part helps; in brackets the paper's",),
    )


def cost(means: Means, data: str, name: str) -> float:
    """F1 that the change takes away here."""
    nothing = (math.nan, math.nan)
    return means.get((data, WHOLE), nothing)[0] - means.get((data, name), nothing)[0]


def paper_cost(data: str, name: str) -> float:
    """F1 that it took away in the paper; infinite where training failed."""
    whole, value = figures.ABLATION[WHOLE][data], figures.ABLATION[name][data]
    return math.inf if whole is None or value is None else whole - value


def order(means: Means, options: Options) -> Iterator[str]:
    """Lines that say where the order of whole model and variant is not the paper's."""
    for name, title in list(TITLES.items())[1:]:
        costs = {data: cost(means, data, name) for data in options.data}
        known = {data: value for data, value in costs.items() if not math.isnan(value)}
        if not known:
            continue
        differs = []
        for data, value in known.items():
            if (value > 0) != (paper_cost(data, name) > 0):
                spread = max(means[data, WHOLE][1], means[data, name][1])
                clear = "" if math.isnan(spread) or abs(value) > spread else ", within the spread"
                differs.append(f"{data} ({value:+.2f}{clear})")
        helps = sum(value > 0 for value in known.values())
        said = f"; not in the paper's order: {', '.join(differs)}" if differs else ""
        yield f"- {title}: costs F1 on {helps} of {len(known)} data sets{said}"


def _idle(options: Options) -> str | None:
    """Changes that change nothing, because the recipe is without that part already."""
    idle = []
    for data in options.data:
        whole = cv.get_model(results.OURS)(**recipes.settings(options.recipe, data)).config
        for title, change in CHANGES.values():
            changed = cv.get_model(results.OURS)(**recipes.settings(options.recipe, data) | change)
            if changed.config == whole:
                idle.append(f"{title} ({data})")
    return f"The recipe is without these already: {', '.join(idle)}." if idle else None
