"""Part `segments`: auto and the segment models on all data sets, without gold, beside simple votes."""

from __future__ import annotations

from collections.abc import Iterator

import convener as cv
from benchmarks.harness.jobs import Job, Options, group, run_jobs
from benchmarks.harness.results import MEASURE, mean_of, spread_of

SEEDS = 5
VOTES = ("io", "span")


def page(options: Options) -> None:
    """F1, calibration error and cost by model, encoder and data set."""
    found = run_jobs(jobs(options), options)
    rows = []
    for (model, variant, encoder, data), fits in group(found, "model", "variant", "encoder", "data").items():
        selected = sorted({fit["selected_model"] for fit in fits if "selected_model" in fit})
        rows.append(
            (
                data,
                f"{model} {variant}".strip(),
                encoder or "none",
                len(fits),
                mean_of(fits, split="valid"),
                mean_of(fits),
                spread_of(fits),
                mean_of(fits, "span_ece") / 100,
                sum(fit["cpu_seconds"] for fit in fits) / len(fits),
                ", ".join(selected) or "-",
            )
        )
    table = cv.Table(
        title="Entity-level F1 without gold",
        columns=("data", "model", "encoder", "seeds", "valid", "test", "±", "ECE of spans", "CPU seconds", "selected"),
        rows=sorted(rows),
        formats={"valid": ".2f", "test": ".2f", "±": ".2f", "ECE of spans": ".3f", "CPU seconds": ".1f"},
    )
    options.write_page("quality/segments", "Auto and the segment models", [MEASURE, table], found)


def jobs(options: Options) -> Iterator[Job]:
    """Votes and segment once; auto with every encoder and seed."""
    for data in options.data:
        for scheme in VOTES:
            settings = {"scheme": scheme}
            yield Job(part="quality/segments", data=data, model="majority-vote", variant=scheme, settings=settings)
        yield Job(part="quality/segments", data=data, model="segment")
    for encoder in options.encoders:
        for data in options.data:
            for seed in options.seeds_for(SEEDS):
                settings = {"encoder": encoder}
                yield Job(
                    part="quality/segments", data=data, model="auto", encoder=encoder, seed=seed, settings=settings
                )
