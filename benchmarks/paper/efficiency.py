"""Training efficiency: CPU seconds per epoch, size and cost of the emission networks, epochs needed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

import convener as cv
from benchmarks.harness.data import splits
from benchmarks.harness.jobs import Job, Options, group, run_jobs
from benchmarks.harness.results import Row
from benchmarks.paper import main_results, published, recipes

MODELS = ("chmm", main_results.OURS)
STAGES = {
    "chain": "CHMM",
    "transition and reliability": "S1",
    "reliability": "S1",
    "addon prior": "S2",
    "transition": "S3",
}
"""Training stages, and their names in the paper. Stage 1 was called reliability when the stored rows were written."""
EMISSION_LAYERS = ("emission_layer", "reliability_layer", "addon_layer")
"""Parts of the networks that compute emissions."""
Groups = dict[tuple[str, ...], list[Row]]


def jobs(options: Options) -> Iterator[Job]:
    """Short fits of both models on each data set."""
    for data in options.data:
        for encoder in options.encoders:
            for model in MODELS:
                ours = model == main_results.OURS
                settings = recipes.settings(options.recipe, data, encoder) if ours else {}
                yield Job(
                    part="paper/efficiency",
                    data=data,
                    model=model,
                    variant=options.recipe if ours else "",
                    encoder=encoder,
                    settings=settings | recipes.TIMED,
                )


def page(options: Options) -> None:
    """Part `efficiency`."""
    found = run_jobs(jobs(options), options)
    groups = group(found, "data", "encoder", "model")
    tables = [_times(groups), _sizes(groups), _costs(groups)]
    options.write_page("paper/efficiency", "Training efficiency", tables, found)


def _times(groups: Groups) -> cv.Table:
    """CPU seconds per epoch of every stage."""
    rows = []
    for (data, encoder, _), seeds in groups.items():
        chmm = groups.get((data, encoder, "chmm"))
        chmm_seconds = chmm[0]["stages"][0].get("cpu_per_epoch") if chmm else None
        for stage in seeds[0]["stages"]:
            name = STAGES.get(stage["stage"])
            if name is None:
                continue
            seconds, validation = stage.get("cpu_per_epoch"), stage.get("cpu_validation")
            ratio = chmm_seconds / seconds if chmm_seconds and seconds else None
            theirs, chmm_theirs = published.epoch_time(name, data)[0], published.epoch_time("CHMM", data)[0]
            paper_ratio = chmm_theirs / theirs if chmm_theirs and theirs else None
            batch = seeds[0]["settings"][recipes.BATCH_SIZE]
            rows.append((data, encoder, name, seconds, validation, batch, ratio, theirs, paper_ratio))
    return cv.Table(
        title="CPU seconds per epoch",
        columns=(
            *("data", "encoder", "stage", "s/epoch", "validation s", "batch size", "CHMM / this"),
            *("paper s/epoch", "paper CHMM / this"),
        ),
        rows=rows,
        formats={
            **dict.fromkeys(("s/epoch", "validation s"), ".3f"),
            **dict.fromkeys(("CHMM / this", "paper s/epoch", "paper CHMM / this"), ".2f"),
        },
        notes=(
            "median of five epochs, training alone; validation: F1 on valid, once per epoch. The "
            "paper's are on an RTX 2080 Ti with other encoders (768 dimensions); CoNLL has 14,041 "
            "training sentences there, 2,600 here",
        ),
    )


def _sizes(groups: Groups) -> cv.Table:
    """Parameters of the emission networks, by the paper's formula and as implemented."""
    rows = []
    for data, encoder in dict.fromkeys(key[:2] for key in groups):
        row = next(seeds[0] for key, seeds in groups.items() if key[:2] == (data, encoder))
        d, k, size = _shape(row)
        implemented = [_parameters(groups.get((data, encoder, model), [])) for model in MODELS]
        full, sparse = d * k * size**2, 2 * d * k * size
        rows.append((data, encoder, d, k, size, full, sparse, full / sparse, *implemented))
    return cv.Table(
        title="Parameters of the emission networks",
        columns=(
            *("data", "encoder", "d", "K", "L", "CHMM: d K L^2", "Sparse-CHMM: 2 d K L", "ratio"),
            *("CHMM implemented", "Sparse-CHMM implemented"),
        ),
        rows=rows,
        formats={"ratio": ".1f"},
        notes=(
            "implemented: with biases; with one reliability per entity type, and one more source "
            "where a majority vote is used in training",
        ),
    )


def _parameters(seeds: Sequence[Row]) -> int | None:
    if not seeds:
        return None
    sizes = seeds[0]["parameters"].items()
    return sum(size for name, size in sizes if name.partition(".")[0] in EMISSION_LAYERS)


def _costs(groups: Groups) -> cv.Table:
    """Multiply-adds of the emission networks in an epoch."""
    rows = []
    for data, encoder in dict.fromkeys(key[:2] for key in groups):
        row = next(seeds[0] for key, seeds in groups.items() if key[:2] == (data, encoder))
        d, k, size = _shape(row)
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


def _shape(row: Row) -> tuple[int, int, int]:
    return row["feature_dim"], len(row["sources"]), 2 * len(row["types"]) + 1


def epochs_page(options: Options) -> None:
    """Part `epochs`: how long the fits of the main results were trained."""
    found = run_jobs(main_results.jobs(options, *MODELS, "chmm-fe"), options)
    groups = group(found, "data", "encoder", "model", "variant")
    rows = [
        (data, encoder, f"{model} {variant}".strip(), stage, *_epochs(seeds, stage, data, model))
        for (data, encoder, model, variant), seeds in groups.items()
        for stage in dict.fromkeys(item["stage"] for seed in seeds for item in seed["stages"])
    ]
    table = cv.Table(
        title="Epochs by stage",
        columns=(
            *("data", "encoder", "model", "stage", "best epoch", "least", "most"),
            *("trained", "paper needed"),
        ),
        rows=rows,
        formats=dict.fromkeys(("best epoch", "trained"), ".1f"),
        notes=(
            "best epoch: the one whose weights are kept, mean over seeds; 0: the stage improved "
            "nothing. trained: until patience ended. The paper's: epochs that its results take",
        ),
    )
    options.write_page("paper/epochs", "Epochs needed, and CPU time", [table, _seconds(groups)], found)


def _epochs(seeds: Sequence[Row], stage: str, data: str, model: str) -> tuple:
    items = [item for seed in seeds for item in seed["stages"] if item["stage"] == stage]
    best = [item["best_epoch"] for item in items if "best_epoch" in item]
    mean = float(np.mean(best)) if best else math.nan
    trained = float(np.mean([item["epochs"] for item in items]))
    paper = published.epoch_time(STAGES.get(stage, ""), data)[1] if model in MODELS else None
    return (mean, min(best, default=None), max(best, default=None), trained, paper)


def _seconds(groups: Groups) -> cv.Table:
    """Seconds of a whole fit."""
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
        notes=("one thread; wall time depends on the load of the machine",),
    )
