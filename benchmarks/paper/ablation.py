"""Ablations: Sparse-CHMM without one of its parts, and after each stage."""

from __future__ import annotations

import math
from collections.abc import Iterator

import convener as cv
from benchmarks.harness.jobs import Job, Options, group, run_jobs
from benchmarks.harness.results import MEASURE, Block, mean_of, spread_of
from benchmarks.paper import main_results, published, recipes

FULL = "full"
TITLES = {
    FULL: "Sparse-CHMM",
    "after-stage-1": "after stage 1",
    "after-stage-2": "after stage 2",
    "naive": "naive emission",
    "without-h": "without h",
    "without-softmax": "without SoftMax",
    "without-dirichlet": "without Dirichlet",
    "without-stage-2": "without stage 2",
    "merged-2-and-3": "stages 2 and 3 merged",
}
Means = dict[tuple[str, str], tuple[float, float]]
"""Mean F1 and its spread over seeds, by data set and variant."""


def jobs(options: Options, *variants: str) -> Iterator[Job]:
    """The full model from the main results and its ablations, or some of these."""
    for job in main_results.jobs(options, main_results.OURS):
        if job.variant != options.recipe:
            continue
        if not variants or FULL in variants:
            yield job
        for name, change in recipes.ABLATIONS.items():
            if not variants or name in variants:
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
    found = run_jobs(jobs(options), options)
    groups = group(found, "data", "variant", "encoder")
    blocks: list[Block] = [MEASURE]
    for encoder in options.encoders:
        means: Means = {}
        for (data, variant, used), seeds in groups.items():
            if used == encoder:
                name = variant.removeprefix(options.recipe).removeprefix("-") or FULL
                means[data, name] = mean_of(seeds), spread_of(seeds)
        if means:
            blocks += [_table(encoder, means, options), _costs(encoder, means, options)]
            blocks += ["\n".join(differences(means, options))]
    blocks += [_without_effect(options)]
    name = "ablation" if options.recipe == "ours" else f"ablation-{options.recipe}"
    options.write_page(f"paper/{name}", f"Ablations of Sparse-CHMM, recipe {options.recipe}", blocks, found)


def _table(encoder: str, means: Means, options: Options) -> cv.Table:
    rows = []
    for name, title in TITLES.items():
        cells = []
        for data in options.data:
            f1, spread = means.get((data, name), (math.nan, math.nan))
            within = "" if math.isnan(spread) else f" ± {spread:.2f}"
            ours = "-" if math.isnan(f1) else f"{f1:.2f}{within}"
            cells.append(f"{ours} ({_shown(published.ablation_f1(name, data), '.2f')})")
        rows.append((title, *cells))
    return cv.Table(
        title=f"Test F1, {encoder}",
        columns=("variant", *options.data),
        rows=rows,
        notes=("in parentheses the paper's; failed: all its labels were O",),
    )


def _costs(encoder: str, means: Means, options: Options) -> cv.Table:
    rows = []
    for name in recipes.ABLATIONS:
        cells = []
        for data in options.data:
            ours, theirs = cost(means, data, name), paper_cost(data, name)
            cells.append(f"{'-' if math.isnan(ours) else f'{ours:+.2f}'} ({_shown(theirs, '+.2f')})")
        rows.append((TITLES[name], *cells))
    return cv.Table(
        title=f"Cost in F1 of each change, {encoder}",
        columns=("variant", *options.data),
        rows=rows,
        notes=("full model minus variant: positive where the part helps; in parentheses the paper's",),
    )


def _shown(value: float, form: str) -> str:
    """A published value: NaN where there is none, infinite where training failed."""
    return "-" if math.isnan(value) else "failed" if math.isinf(value) else format(value, form)


def cost(means: Means, data: str, name: str) -> float:
    """Loss in F1 by a change, here."""
    nothing = (math.nan, math.nan)
    return means.get((data, FULL), nothing)[0] - means.get((data, name), nothing)[0]


def paper_cost(data: str, name: str) -> float:
    """Loss in F1 by a change, in the paper; infinite where training failed, NaN where unknown."""
    full, value = published.ablation_f1(FULL, data), published.ablation_f1(name, data)
    return math.inf if math.isinf(value) else full - value


def differences(means: Means, options: Options) -> Iterator[str]:
    """Lines that say on which data sets a change has the opposite sign of the paper's."""
    for name in recipes.ABLATIONS:
        costs = {data: cost(means, data, name) for data in options.data}
        known = {data: value for data, value in costs.items() if not math.isnan(value)}
        if not known:
            continue
        differs = []
        for data, value in known.items():
            theirs = paper_cost(data, name)
            if not math.isnan(theirs) and (value > 0) != (theirs > 0):
                spread = max(means[data, FULL][1], means[data, name][1])
                clear = "" if math.isnan(spread) or abs(value) > spread else ", within the spread"
                differs.append(f"{data} ({value:+.2f}{clear})")
        helps = sum(value > 0 for value in known.values())
        note = f"; sign differs from the paper's: {', '.join(differs)}" if differs else ""
        yield f"- {TITLES[name]}: costs F1 on {helps} of {len(known)} data sets{note}"


def _without_effect(options: Options) -> str | None:
    """Changes that change nothing, because the recipe does not have that part."""
    model, names = cv.get_model(main_results.OURS), []
    for data in options.data:
        full = recipes.settings(options.recipe, data)
        for name, change in recipes.ABLATIONS.items():
            if model(**full | change).config == model(**full).config:
                names.append(f"{TITLES[name]} ({data})")
    return f"The recipe does not have these parts: {', '.join(names)}." if names else None
