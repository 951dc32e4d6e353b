"""Part `stress`: the same setting where sources are few, thrice, random, and the text is short."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

import convener as cv
from benchmarks import pages
from benchmarks.changes import changes
from benchmarks.jobs import Job, Options, Outcome, outcomes, splits

AUTO = "auto"
VOTES = ("io", "span")
"""Majority vote by token, and the union of spans."""
OTHER = ("minilm", "hashing")
"""Encoders to exchange the usual one for."""
MARKS = {"only": "o", "thrice": "s", "random": "^", "tenth": "D", "encoder": "*"}
LEAST, GOAL = -0.3, 1.0
"""F1 by which auto may be below the better vote, and should be above it."""


class Run(NamedTuple):
    """One change: F1 of auto and of the better vote, on test."""

    data: str
    change: str
    encoder: str
    auto: float
    vote: float
    chosen: str

    @property
    def gain(self) -> float:
        return self.auto - self.vote

    @property
    def kind(self) -> str:
        return self.change.partition("-")[0] or "encoder"


def jobs(options: Options) -> Iterator[Job]:
    """Auto and both votes after every change; the usual encoder is the last one that is there."""
    usual = options.encoders[-1]
    for data in options.data:
        for encoder in ("", usual):  # one after the other: features are read once
            for change in ("", *changes(splits(data).train)):
                if encoder:
                    yield Job(part="quality/stress", data=data, change=change, **_auto(encoder))
                else:
                    for scheme in VOTES:
                        yield Job(
                            part="quality/stress",
                            data=data,
                            change=change,
                            model="majority-vote",
                            variant=scheme,
                            settings={"scheme": scheme},
                        )
        for encoder in OTHER:
            if encoder != usual:
                yield Job(part="quality/stress", data=data, **_auto(encoder))


def _auto(encoder: str) -> dict[str, object]:
    return {"model": AUTO, "encoder": encoder, "free": True, "settings": {"encoder": encoder}}


def page(options: Options) -> None:
    """All changes of all data sets, one seed each."""
    found = outcomes(jobs(options), options)
    runs = list(_runs(found))
    stressed = [run for run in runs if run.change or run.encoder != options.encoders[-1]]
    blocks = [
        f"{pages.MEASURE} One seed. Votes: the better of majority vote (IO) and span union, on "
        "test. only: subsets of the sources; thrice: one source under three names; random: one "
        "more source that marks tokens by chance; tenth: a tenth of train; encoder: another one.",
        _summary(stressed),
        _plot(stressed),
        _worst(stressed),
        _listed("All runs", runs),
    ]
    pages.write("quality/stress", "Auto under stress", blocks, found)


def _runs(found: list[tuple[Job, Outcome]]) -> Iterator[Run]:
    votes: dict[tuple[str, str], list[float]] = {}
    for job, outcome in found:
        if job.model != AUTO:
            votes.setdefault((job.data, job.change), []).append(100 * outcome["test"]["f1"])
    for job, outcome in found:
        if job.model == AUTO:
            f1, vote = 100 * outcome["test"]["f1"], max(votes[job.data, job.change])
            yield Run(job.data, job.change, job.encoder, f1, vote, outcome["chosen"])


def _summary(runs: list[Run]) -> cv.Table:
    """How often auto is no worse, and how often clearly better, by kind and by data set."""
    groups = {"all": runs}
    for run in runs:
        groups.setdefault(run.kind, []).append(run)
    for run in runs:
        groups.setdefault(run.data, []).append(run)
    rows = [
        (
            name,
            len(group),
            float(np.mean([run.gain >= LEAST for run in group])),
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
        notes=(f"no worse: not more than {-LEAST} below",),
    )


def _worst(runs: list[Run]) -> cv.Table:
    """The runs in which auto is worse."""
    rows = [run for run in sorted(runs, key=lambda run: run.gain) if run.gain < LEAST]
    return _listed("Where auto is worse", rows)


def _listed(title: str, runs: list[Run]) -> cv.Table:
    return cv.Table(
        title=title,
        columns=("data", "change", "encoder", "auto", "better vote", "gain", "chosen"),
        rows=[(run.data, run.change or "none", run.encoder, run.auto, run.vote, run.gain, run.chosen) for run in runs],
        formats={"auto": ".2f", "better vote": ".2f", "gain": "+.2f"},
    )


def _plot(runs: list[Run]) -> Path | None:
    """Gain over the better vote against that vote, a panel for each data set."""
    plt = pages.pyplot()
    names = list(dict.fromkeys(run.data for run in runs))
    if plt is None or not names:
        return None
    figure, grid = plt.subplots(1, len(names), figsize=(2.4 * len(names), 2.4), sharey=True, squeeze=False)
    for axes, name in zip(grid[0], names, strict=True):
        for kind, mark in zip(("only", "thrice", "random", "tenth", "encoder"), "os^D*", strict=True):
            chosen = [run for run in runs if run.data == name and run.kind == kind]
            axes.plot(
                [run.vote for run in chosen],
                [run.gain for run in chosen],
                mark,
                markersize=3,
                label=kind,
            )
        axes.axhline(0, color="gray", linewidth=0.6)
        axes.set_title(name)
        axes.set_xlabel("better vote, F1")
    grid[0][0].set_ylabel("gain of auto")
    grid[0][0].legend(frameon=False, fontsize=6)
    return pages.save_plot(figure, "quality/stress")
