"""Many models on the same data: each fitted in a process of its own, measured, and gone on with.

A folder holds a run for every model and seed (`runs/`) and what was measured of it (`outcomes/`);
what is there already is not made again.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convener import progress, run
from convener.data import Dataset
from convener.errors import UnknownNameError, unknown_name
from convener.evaluate import evaluate
from convener.io.files import whole
from convener.models import LabelModel, available, installed
from convener.predictions import Predictions
from convener.tables import PERCENT, Table

ALL = "all"
FIGURES = ("f1", "precision", "recall")
Outcome = dict[str, Any]
"""Of one fit: f1, precision, recall, seconds, memory (bytes), saw_gold; or why it failed."""


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """One model with one seed."""

    model: str
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.model}-seed{self.seed}"


def entrants(models: Sequence[str], seeds: int) -> list[Entrant]:
    """Everybody who is asked for; models without features have nothing random in them.

    >>> [entrant.name for entrant in entrants(["hmm"], seeds=5)]
    ['hmm-seed0']
    """
    here = {kind.name: kind for kind in installed()}
    wanted = list(here) if list(models) == [ALL] else list(dict.fromkeys(models))
    for name in wanted:
        if name not in available():
            raise UnknownNameError(unknown_name("label model", name, available()))
    return [
        Entrant(model=name, seed=seed)
        for name in wanted
        for seed in range(seeds if name not in here or here[name].needs_features else 1)
    ]


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Where everything lies and how it is made.

    command   the words after `convener fit`, model, seed and folder apart
    data_of   the data to judge by, as a model and its run's folder read it
    asked     what decides the scores besides the runs; outcomes for anything else are made again
    """

    folder: Path
    command: Sequence[str]
    data_of: Callable[[LabelModel, Path], Dataset]
    asked: str

    def place(self, entrant: Entrant) -> Path:
        """The folder of a run."""
        return self.folder / "runs" / entrant.name

    def hold(self, everybody: Sequence[Entrant]) -> dict[Entrant, Outcome]:
        """Fit and judge everybody who is not judged yet."""
        found = {}
        with progress.bar("comparing", len(everybody)) as advance:
            for entrant in everybody:
                found[entrant] = self.outcome(entrant)
                advance(entrant.name)
        return found

    def outcome(self, entrant: Entrant) -> Outcome:
        """What is kept of an entrant, or else what it does now."""
        kept = self.folder / "outcomes" / f"{entrant.name}.json"
        if kept.is_file() and run.is_run(self.place(entrant)):
            found: Outcome = json.loads(kept.read_text(encoding="utf-8"))
            if found.get("asked") == self.asked:
                return found
        made = self._fitted(entrant)
        if "failed" not in made:
            data, answer = self.answer(entrant)
            scores = evaluate(answer, data).to_json()
            made |= {name: scores[name] for name in FIGURES} | {"asked": self.asked}
            with whole(kept) as draft:
                draft.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
        return made

    def answer(self, entrant: Entrant) -> tuple[Dataset, Predictions]:
        """The data to judge by, and the labels of a fitted entrant for it."""
        model = run.load(self.place(entrant))
        data = self.data_of(model, self.place(entrant))
        return data, model.predict(data)

    def _fitted(self, entrant: Entrant) -> Outcome:
        """Fit in a process of its own, whose memory is the model's alone."""
        place = self.place(entrant)
        words = ["--model", entrant.model, "--seed", str(entrant.seed), "-o", str(place)]
        with subprocess.Popen(
            [sys.executable, "-m", "convener", "fit", *self.command, *words, "--resume", "--json"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as child:
            try:
                said = "" if child.stderr is None else child.stderr.read()
                memory = _waited(child)
            except BaseException:
                child.kill()
                raise
        if child.returncode:
            last = said.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
            return {"failed": last[0].removeprefix("error: ")}
        noted = run.facts(place)
        saw = "all" if noted["supervised"] else "of valid" if noted["used_valid_gold"] else "no"
        return {"seconds": noted["seconds"], "memory": memory, "saw_gold": saw}


def table(outcomes: Mapping[Entrant, Outcome], title: str) -> Table:
    """A row for each model: means over its seeds, the best first; what saw gold comes last."""
    groups: dict[str, list[Outcome]] = {}
    for entrant, outcome in outcomes.items():
        groups.setdefault(entrant.model, []).append(outcome)
    rows = [_row(model, seeds) for model, seeds in groups.items()]
    failed = [
        f"{entrant.name} failed: {outcome['failed']}"
        for entrant, outcome in outcomes.items()
        if "failed" in outcome
    ]
    columns = ("model", "F1", "±", "precision", "recall", "seconds", "memory MB", "seeds")
    return Table(
        title=title,
        columns=(*columns, "saw gold"),
        rows=sorted(rows, key=lambda row: (row[-1] == "all", -(row[1] or 0.0))),
        formats={
            **dict.fromkeys(("F1", "±", "precision", "recall"), PERCENT),
            "seconds": ".1f",
            "memory MB": ",.0f",
        },
        notes=(
            "means over seeds, ±: standard deviation (n - 1); memory: the most that the process of "
            "a fit had, libraries included",
            *failed,
        ),
    )


def _row(model: str, seeds: Sequence[Outcome]) -> tuple[Any, ...]:
    whole_ones = [outcome for outcome in seeds if "failed" not in outcome]
    if not whole_ones:
        return (model, *[None] * 6, 0, "failed")
    f1, precision, recall = (_mean(whole_ones, name) for name in FIGURES)
    values = [outcome["f1"] for outcome in whole_ones]
    spread = float(np.std(values, ddof=1)) if f1 is not None and len(values) > 1 else None
    seconds, memory = _mean(whole_ones, "seconds"), _mean(whole_ones, "memory")
    return (
        model,
        f1,
        spread,
        precision,
        recall,
        seconds,
        None if memory is None else memory / 1e6,
        len(whole_ones),
        whole_ones[0]["saw_gold"],
    )


def _mean(outcomes: Sequence[Outcome], name: str) -> float | None:
    values = [outcome[name] for outcome in outcomes]
    return None if None in values else float(np.mean(values))


def _waited(child: subprocess.Popen[str]) -> int | None:
    """Wait for the end; the most memory that the process had, where the system tells."""
    if not hasattr(os, "wait4"):
        child.wait()
        return None
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    most: int = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return most
