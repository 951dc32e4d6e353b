"""Part `stress`: auto on perturbed data: fewer sources, duplicated or random ones, less text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import convener as cv
from benchmarks.harness.data import splits
from benchmarks.harness.jobs import Job, Options, run_jobs
from benchmarks.harness.perturbations import NONE, Perturbation, one_of_each_kind, perturbations
from benchmarks.harness.results import MEASURE, Row, pyplot, save_figure
from benchmarks.paper import recipes

AUTO = "auto"
VOTES = ("io", "span")
"""Majority vote by token, and the union of spans."""
OTHER_ENCODERS = ("minilm", "hashing")
"""Encoders that replace the usual one."""
MARKERS = {"subset": "o", "duplicate": "s", "random-source": "^", "tenth-of-train": "D", "encoder": "*"}
MIN_GAIN, GOAL = -0.3, 1.0
"""F1 by which auto may be below the better vote, and should be above it."""


class Run(NamedTuple):
    """One perturbation: test F1 of auto and of the better vote."""

    data: str
    perturbation: Perturbation
    encoder: str
    auto: float
    vote: float
    selected: str

    @property
    def gain(self) -> float:
        return self.auto - self.vote

    @property
    def kind(self) -> str:
        return "encoder" if self.perturbation == NONE else self.perturbation.kind


def jobs(options: Options) -> Iterator[Job]:
    """Auto and both votes after every perturbation; the usual encoder is the last one available."""
    usual = options.encoders[-1]
    changes = perturbations if options.smoke is None else one_of_each_kind
    for data in options.data:
        for encoder in ("", usual):  # one after the other: features are loaded once
            for change in (NONE, *changes(splits(data).train)):
                if encoder:
                    yield _auto_job(data, encoder, change)
                else:
                    for scheme in VOTES:
                        yield Job(
                            part="quality/stress",
                            data=data,
                            perturbation=change,
                            model="majority-vote",
                            variant=scheme,
                            settings=recipes.others("majority-vote", scheme),
                        )
        if options.smoke is None:
            for encoder in OTHER_ENCODERS:
                if encoder != usual:
                    yield _auto_job(data, encoder, NONE)


def _auto_job(data: str, encoder: str, change: Perturbation) -> Job:
    return Job(
        part="quality/stress",
        data=data,
        perturbation=change,
        model=AUTO,
        encoder=encoder,
        use_valid_gold=False,
        settings={"encoder": encoder},
    )


def page(options: Options) -> None:
    """All perturbations of all data sets, one seed each."""
    found = run_jobs(jobs(options), options)
    runs = list(_runs(found))
    perturbed = [run for run in runs if run.perturbation != NONE or run.encoder != options.encoders[-1]]
    blocks = [
        f"{MEASURE} One seed. Votes: the better of majority vote (IO) and span union, on test. "
        "subset: some of the sources; duplicate: one source under three names; random-source: one "
        "more source that marks tokens at random; tenth-of-train: a tenth of train; encoder: another one.",
        _summary(perturbed),
        _plot(perturbed, options),
        _worst(perturbed),
        _list("All runs", runs),
    ]
    options.write_page("quality/stress", "Auto on perturbed data", blocks, found)


def _runs(found: list[tuple[Job, Row]]) -> Iterator[Run]:
    votes: dict[tuple[str, Perturbation], list[float]] = {}
    for job, row in found:
        if job.model != AUTO:
            votes.setdefault((job.data, job.perturbation), []).append(100 * row["test"]["f1"])
    for job, row in found:
        if job.model == AUTO:
            f1, vote = 100 * row["test"]["f1"], max(votes[job.data, job.perturbation])
            yield Run(job.data, job.perturbation, job.encoder, f1, vote, row["selected_model"])


def _summary(runs: list[Run]) -> cv.Table:
    """How often auto is no worse, and how often clearly better, by perturbation and by data set."""
    groups = {"all": runs}
    for run in runs:
        groups.setdefault(run.kind, []).append(run)
    for run in runs:
        groups.setdefault(run.data, []).append(run)
    rows = [
        (
            name,
            len(group),
            float(np.mean([run.gain >= MIN_GAIN for run in group])),
            float(np.mean([run.gain > GOAL for run in group])),
            float(np.median([run.gain for run in group])),
            min(run.gain for run in group),
        )
        for name, group in groups.items()
    ]
    shares = ("no worse", "better by more than 1")
    return cv.Table(
        title="Auto against the better vote",
        columns=("runs", "number", *shares, "median gain", "least gain"),
        rows=rows,
        formats=dict.fromkeys(shares, ".1%") | dict.fromkeys(("median gain", "least gain"), "+.2f"),
        notes=(f"no worse: not more than {-MIN_GAIN} below",),
    )


def _worst(runs: list[Run]) -> cv.Table:
    """The runs in which auto is worse."""
    rows = [run for run in sorted(runs, key=lambda run: run.gain) if run.gain < MIN_GAIN]
    return _list("Where auto is worse", rows)


def _list(title: str, runs: list[Run]) -> cv.Table:
    return cv.Table(
        title=title,
        columns=("data", "perturbation", "encoder", "auto", "better vote", "gain", "selected model"),
        rows=[
            (run.data, str(run.perturbation) or "none", run.encoder, run.auto, run.vote, run.gain, run.selected)
            for run in runs
        ],
        formats={"auto": ".2f", "better vote": ".2f", "gain": "+.2f"},
    )


def _plot(runs: list[Run], options: Options) -> Path | None:
    """Gain over the better vote against that vote, a panel for each data set."""
    plt = pyplot()
    names = list(dict.fromkeys(run.data for run in runs))
    if plt is None or not names:
        return None
    figure, grid = plt.subplots(1, len(names), figsize=(2.4 * len(names), 2.4), sharey=True, squeeze=False)
    for axes, name in zip(grid[0], names, strict=True):
        for kind, marker in MARKERS.items():
            chosen = [run for run in runs if run.data == name and run.kind == kind]
            axes.plot(
                [run.vote for run in chosen],
                [run.gain for run in chosen],
                marker,
                markersize=3,
                label=kind,
            )
        axes.axhline(0, color="gray", linewidth=0.6)
        axes.set_title(name)
        axes.set_xlabel("better vote, F1")
    grid[0][0].set_ylabel("gain of auto")
    grid[0][0].legend(frameon=False, fontsize=6)
    return save_figure(figure, options.results / "quality/stress.svg")
