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

from convener import models, progress
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.tables import PERCENT, Table
from convener.errors import UnknownNameError, unknown_name_message
from convener.evaluation.evaluation import evaluate
from convener.experiment import run
from convener.models import installed_models, list_models
from convener.models.base import LabelModel
from convener.storage import atomic_write

ALL_MODELS = "all"
METRICS = ("f1", "precision", "recall")
TrialResult = dict[str, Any]
"""Of one fit: f1, precision, recall, seconds, memory (bytes), saw_gold; or why it failed."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One model with one seed."""

    model: str
    seed: int

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.model}-seed{self.seed}"


def make_trials(models: Sequence[str], seeds: int) -> list[Trial]:
    """Everybody who is asked for; models without features have nothing random in them.

    >>> [entrant.name for entrant in make_trials(["hmm"], seeds=5)]
    ['hmm-seed0']
    """
    model_classes = {kind.name: kind for kind in installed_models()}
    names = list(model_classes) if list(models) == [ALL_MODELS] else list(dict.fromkeys(models))
    for name in names:
        if name not in list_models():
            raise UnknownNameError(unknown_name_message("label model", name, list_models()))
    return [
        Trial(model=name, seed=seed)
        for name in names
        for seed in range(seeds if name not in model_classes or model_classes[name].needs_features else 1)
    ]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Where everything lies and how it is made.

    command   the words after `convener fit`, model, seed and folder apart
    data_of   the data to judge by, as a model and its run's folder read it
    asked     what decides the scores besides the runs; outcomes for anything else are made again
    """

    folder: Path
    command: Sequence[str]
    read_data: Callable[[LabelModel, Path], Dataset]
    eval_key: str

    def run_dir(self, trial: Trial) -> Path:
        """The folder of a run."""
        return self.folder / "runs" / trial.name

    def run_all(self, trials: Sequence[Trial]) -> dict[Trial, TrialResult]:
        """Fit and judge everybody who is not judged yet."""
        results = {}
        with progress.progress_bar("comparing", len(trials)) as advance:
            for trial in trials:
                results[trial] = self.result(trial)
                advance(trial.name)
        return results

    def result(self, trial: Trial) -> TrialResult:
        """What is kept of an entrant, or else what it does now."""
        result_file = self.folder / "outcomes" / f"{trial.name}.json"
        if result_file.is_file() and run.is_run(self.run_dir(trial)):
            stored: TrialResult = json.loads(result_file.read_text(encoding="utf-8"))
            if stored.get("asked") == self.eval_key:
                return stored
        new_result = self._fit(trial)
        if "failed" not in new_result:
            data, predictions = self.predict(trial)
            scores = evaluate(predictions, data).to_json()
            new_result |= {name: scores[name] for name in METRICS} | {"asked": self.eval_key}
            with atomic_write(result_file) as draft:
                draft.write_text(json.dumps(new_result, indent=2) + "\n", encoding="utf-8")
        return new_result

    def predict(self, trial: Trial) -> tuple[Dataset, Predictions]:
        """The data to judge by, and the labels of a fitted entrant for it."""
        model = models.load_model(self.run_dir(trial))
        data = self.read_data(model, self.run_dir(trial))
        return data, model.predict(data)

    def _fit(self, trial: Trial) -> TrialResult:
        """Fit in a process of its own, whose memory is the model's alone."""
        run_dir = self.run_dir(trial)
        arguments = ["--model", trial.model, "--seed", str(trial.seed), "-o", str(run_dir)]
        with subprocess.Popen(
            [
                sys.executable,
                "-m",
                "convener",
                "fit",
                *self.command,
                *arguments,
                "--resume",
                "--json",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                stderr = "" if process.stderr is None else process.stderr.read()
                peak_memory = _wait_for_peak_memory(process)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            last = stderr.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
            return {"failed": last[0].removeprefix("error: ")}
        run_info = run.read_run_info(run_dir)
        uses_gold = "all" if run_info["supervised"] else "of valid" if run_info["used_valid_gold"] else "no"
        return {"seconds": run_info["seconds"], "memory": peak_memory, "saw_gold": uses_gold}


def results_table(results: Mapping[Trial, TrialResult], title: str) -> Table:
    """A row for each model: means over its seeds, the best first; what saw gold comes last."""
    groups: dict[str, list[TrialResult]] = {}
    for trial, result in results.items():
        groups.setdefault(trial.model, []).append(result)
    rows = [_table_row(model, seeds) for model, seeds in groups.items()]
    failed = [
        f"{entrant.name} failed: {outcome['failed']}" for entrant, outcome in results.items() if "failed" in outcome
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


def _table_row(model: str, results: Sequence[TrialResult]) -> tuple[Any, ...]:
    successful = [outcome for outcome in results if "failed" not in outcome]
    if not successful:
        return (model, *[None] * 6, 0, "failed")
    f1, precision, recall = (_mean(successful, name) for name in METRICS)
    values = [outcome["f1"] for outcome in successful]
    std = float(np.std(values, ddof=1)) if f1 is not None and len(values) > 1 else None
    seconds, memory = _mean(successful, "seconds"), _mean(successful, "memory")
    return (
        model,
        f1,
        std,
        precision,
        recall,
        seconds,
        None if memory is None else memory / 1e6,
        len(successful),
        successful[0]["saw_gold"],
    )


def _mean(results: Sequence[TrialResult], name: str) -> float | None:
    values = [outcome[name] for outcome in results]
    return None if None in values else float(np.mean(values))


def _wait_for_peak_memory(process: subprocess.Popen[str]) -> int | None:
    """Wait for the end; the most memory that the process had, where the system tells."""
    if not hasattr(os, "wait4"):
        process.wait()
        return None
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    peak_memory: int = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return peak_memory
