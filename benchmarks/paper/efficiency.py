"""Training efficiency: seconds an epoch, size and cost of the emissions, epochs needed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

import convener as cv
from benchmarks import pages
from benchmarks.jobs import Job, Options, Outcome, grouped, outcomes, splits
from benchmarks.paper import figures, recipes, results

EPOCHS = 5
"""That are timed, of every stage."""
MODELS = ("chmm", results.OURS)
STAGES = {"chain": "CHMM", "reliability": "S1", "addon prior": "S2", "transition": "S3"}
"""Stages of training here, and their names in the paper."""


def jobs(options: Options) -> Iterator[Job]:
    """Short fits of both models, one after the other on each data set."""
    for data in options.data:
        for encoder in options.encoders:
            for model in MODELS:
                ours = model == results.OURS
                settings = recipes.settings(options.recipe, data, encoder) if ours else {}
                yield Job(
                    part="paper/efficiency",
                    data=data,
                    model=model,
                    variant=options.recipe if ours else "",
                    encoder=encoder,
                    settings=settings | {"epochs": EPOCHS, "patience": 4 * EPOCHS},
                )


def page(options: Options) -> None:
    """Part `efficiency`."""
    found = outcomes(jobs(options), options)
    groups = grouped(found, "data", "encoder", "model")
    tables = [_times(groups), _sizes(groups), _costs(groups)]
    pages.write("paper/efficiency", "Training efficiency", tables, found)


def _times(groups: dict[tuple[str, ...], list[Outcome]]) -> cv.Table:
    """Seconds an epoch of every stage."""
    rows = []
    for (data, encoder, _), seeds in groups.items():
        chmm = groups.get((data, encoder, "chmm"))
        for stage in seeds[0]["stages"]:
            name = STAGES.get(stage["stage"])
            if name is None:
                continue
            spent, judging = stage["cpu_per_epoch"], stage["cpu_judging"]
            ratio = chmm[0]["stages"][0]["cpu_per_epoch"] / spent if chmm and spent else None
            theirs = figures.TIMES[name][data][0]
            against = figures.TIMES["CHMM"][data][0] / theirs
            batch = seeds[0]["settings"]["batch"]
            rows.append((data, encoder, name, spent, judging, batch, ratio, theirs, against))
    return cv.Table(
        title="CPU seconds an epoch",
        columns=(
            *("data", "encoder", "stage", "s/epoch", "judging s", "batch", "CHMM / this"),
            *("paper s/epoch", "paper CHMM / this"),
        ),
        rows=rows,
        formats={
            **dict.fromkeys(("s/epoch", "judging s"), ".3f"),
            **dict.fromkeys(("CHMM / this", "paper s/epoch", "paper CHMM / this"), ".2f"),
        },
        notes=(
            f"median of {EPOCHS} epochs, training alone; judging: F1 on valid once an epoch. The "
            "paper's are on an RTX 2080 Ti with other encoders (768 wide); CoNLL there has 14,041 "
            "sentences to train on, here 2,600",
        ),
    )


def _sizes(groups: dict[tuple[str, ...], list[Outcome]]) -> cv.Table:
    """Parameters of the emissions, by the paper's formula and as they are here."""
    rows = []
    for data, encoder in dict.fromkeys(key[:2] for key in groups):
        outcome = next(seeds[0] for key, seeds in groups.items() if key[:2] == (data, encoder))
        d, k, size = _shape(outcome)
        built = [_built(groups.get((data, encoder, model), [])) for model in MODELS]
        full, sparse = d * k * size**2, 2 * d * k * size
        rows.append((data, encoder, d, k, size, full, sparse, full / sparse, *built))
    return cv.Table(
        title="Parameters of the emissions",
        columns=(
            *("data", "encoder", "d", "K", "L", "CHMM: d K L^2", "Sparse-CHMM: 2 d K L", "ratio"),
            *("CHMM as built", "Sparse-CHMM as built"),
        ),
        rows=rows,
        formats={"ratio": ".1f"},
        notes=(
            "as built: with biases; with one reliability per entity type, and one source more "
            "where a majority vote takes part in training",
        ),
    )


def _built(seeds: Sequence[Outcome]) -> int | None:
    """Parameters of the networks that give emissions."""
    if not seeds:
        return None
    parts = ("emission", "reliability", "expansion")
    sizes = seeds[0]["parameters"].items()
    return sum(size for name, size in sizes if name.partition(".")[0] in parts)


def _costs(groups: dict[tuple[str, ...], list[Outcome]]) -> cv.Table:
    """Multiply-adds that the emissions' networks take in an epoch."""
    rows = []
    for data, encoder in dict.fromkeys(key[:2] for key in groups):
        outcome = next(seeds[0] for key, seeds in groups.items() if key[:2] == (data, encoder))
        d, k, size = _shape(outcome)
        train = splits(data).train
        full, sparse = len(train.tokens) * d * k * size**2, len(train) * d * k * size
        tokens = len(train.tokens) / len(train)
        rows.append((data, encoder, len(train), tokens, full, sparse, full / sparse))
    return cv.Table(
        title="Cost of the emissions in an epoch, multiply-adds",
        columns=(
            *("data", "encoder", "M sentences", "T tokens each"),
            *("CHMM: M T d K L^2", "Sparse-CHMM: M d K L", "ratio: T L"),
        ),
        rows=rows,
        formats={"T tokens each": ".1f", "ratio: T L": ".0f"},
        notes=("stages 1 and 2 each; the transitions cost M T d L^2 in both models",),
    )


def _shape(outcome: Outcome) -> tuple[int, int, int]:
    return outcome["width"], len(outcome["sources"]), 2 * len(outcome["types"]) + 1


def epochs_page(options: Options) -> None:
    """Part `epochs`: how long the fits of the main results were trained."""
    found = outcomes(results.jobs(options, *MODELS, "chmm-fe"), options)
    groups = grouped(found, "data", "encoder", "model", "variant")
    rows = [
        (data, encoder, f"{model} {variant}".strip(), stage, *_needed(seeds, stage, data, model))
        for (data, encoder, model, variant), seeds in groups.items()
        for stage in dict.fromkeys(item["stage"] for seed in seeds for item in seed["stages"])
    ]
    needed = cv.Table(
        title="Epochs by stage",
        columns=(
            *("data", "encoder", "model", "stage", "best epoch", "least", "most"),
            *("trained", "paper needed"),
        ),
        rows=rows,
        formats=dict.fromkeys(("best epoch", "trained"), ".1f"),
        notes=(
            "best epoch: whose weights went on, mean over seeds; trained: until patience ended. 0: "
            "the stage brought nothing. The paper's: epochs that its results take",
        ),
    )
    pages.write("paper/epochs", "Epochs needed, and CPU time", [needed, _seconds(groups)], found)


def _needed(seeds: Sequence[Outcome], stage: str, data: str, model: str) -> tuple:
    items = [item for seed in seeds for item in seed["stages"] if item["stage"] == stage]
    best = [item["best_epoch"] for item in items if "best_epoch" in item]
    mean = float(np.mean(best)) if best else math.nan
    trained = float(np.mean([item["epochs"] for item in items]))
    known = figures.TIMES.get(STAGES.get(stage, ""), {}) if model in MODELS else {}
    paper = known[data][1] if data in known else None
    return (mean, min(best, default=None), max(best, default=None), trained, paper)


def _seconds(groups: dict[tuple[str, ...], list[Outcome]]) -> cv.Table:
    """What a whole fit takes."""
    rows = []
    for (data, encoder, model, variant), seeds in groups.items():
        cpu, wall = ([seed[key] for seed in seeds] for key in ("cpu_seconds", "seconds"))
        times = (float(np.mean(cpu)), min(cpu), max(cpu), float(np.mean(wall)))
        rows.append((data, encoder, f"{model} {variant}".strip(), *times, len(seeds)))
    times = ("CPU s", "least", "most", "wall s")
    return cv.Table(
        title="Seconds of a whole fit, features given",
        columns=("data", "encoder", "model", *times, "seeds"),
        rows=rows,
        formats=dict.fromkeys(times, ".1f"),
        notes=("one thread; wall time depends on what else the machine did",),
    )
