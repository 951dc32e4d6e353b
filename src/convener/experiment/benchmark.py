"""Benchmarks: fit and evaluate several label models on the same data, each fit in its own process.

The folder of a benchmark contains one run per model and seed (`runs/`), their configurations (`configs/`) and
scores (`results/`).
Existing results are reused, so an interrupted benchmark resumes. `benchmark_models` does the same in memory.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from convener import progress
from convener.data.corpus import Corpus
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions, is_upper_bound
from convener.data.tables import PERCENT, Table
from convener.errors import ConvenerError, DataError, UnknownNameError, first_line, unknown_name_message
from convener.evaluation.evaluation import evaluate
from convener.experiment.run import Run, RunConfig, RunOptions, config_toml, is_run
from convener.models import get_model, list_models
from convener.storage import atomic_write

ALL_MODELS = "all"
METRICS = ("f1", "precision", "recall")
TrialResult = dict[str, Any]
"""Result of one fit: f1, precision, recall, fit_seconds, peak_memory_bytes and uses_gold; or only `error`."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One model with one seed."""

    model: str
    seed: int

    @property
    def name(self) -> str:
        """Name of the run folder."""
        return f"{self.model}-seed{self.seed}"


def make_trials(models: Sequence[str], seeds: int) -> list[Trial]:
    """All trials of the models; a model without features is deterministic and gets one seed.

    >>> [trial.name for trial in make_trials(["hmm"], seeds=5)]
    ['hmm-seed0']
    """
    model_classes = {name: get_model(name) for name in list_models()}
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
    """A benchmark in a folder."""

    folder: Path
    data_path: Path
    """The data that the models are fitted on."""
    format: str | None
    """Format of the data; None: by its suffix."""
    run_options: RunOptions
    """Options of every run; its model is not used."""
    read_options: Mapping[str, Any]
    """Keywords of `convener.read` for the data."""
    read_data: Callable[[Run], Dataset]
    """Reads the evaluation data with the options and sources of a run."""
    eval_key: str
    """Identifies the evaluation data; stored results with another key are computed again."""

    def run_dir(self, trial: Trial) -> Path:
        """Folder of the run of a trial."""
        return self.folder / "runs" / trial.name

    def run_all(self, trials: Sequence[Trial]) -> dict[Trial, TrialResult]:
        """Results of all trials; runs those without a stored result."""
        results = {}
        with progress.progress_bar("fitting", len(trials)) as advance:
            for trial in trials:
                results[trial] = self.result(trial)
                advance(trial.name)
        return results

    def result(self, trial: Trial) -> TrialResult:
        """Stored result of a trial, or the result of running it now."""
        result_file = self.folder / "results" / f"{trial.name}.json"
        if result_file.is_file() and is_run(self.run_dir(trial)):
            stored: TrialResult = json.loads(result_file.read_text(encoding="utf-8"))
            if stored.get("eval_key") == self.eval_key:
                return stored
        new_result = self._fit(trial)
        if "error" not in new_result:
            data, predictions = self.predict(trial)
            new_result |= _scores(predictions, data) | {"eval_key": self.eval_key}
            with atomic_write(result_file) as draft:
                draft.write_text(json.dumps(new_result, indent=2) + "\n", encoding="utf-8")
        return new_result

    def predict(self, trial: Trial) -> tuple[Dataset, Predictions]:
        """Evaluation data and the predictions of a fitted trial for it."""
        run = Run.open(self.run_dir(trial))
        data = self.read_data(run)
        return data, run.label_model.predict(data)

    def _config(self, trial: Trial) -> RunConfig:
        """Configuration of the run of a trial."""
        return RunConfig(
            **{**asdict(self.run_options), "model": trial.model},
            model_settings={"seed": trial.seed},
            read_options=dict(self.read_options),
        )

    def _fit(self, trial: Trial) -> TrialResult:
        """Fit in a separate process, so that the peak memory is that of this model alone."""
        run_dir = self.run_dir(trial)
        config_file = self.folder / "configs" / f"{trial.name}.toml"
        with atomic_write(config_file) as draft:
            draft.write_text(config_toml(self._config(trial)), encoding="utf-8")
        command = [sys.executable, "-m", "convener", "fit", str(self.data_path), "--config", str(config_file)]
        command += [] if self.format is None else ["--input-format", self.format]
        command += ["-o", str(run_dir), "--resume", "--json"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                stderr = "" if process.stderr is None else process.stderr.read()
                peak_memory = _wait_for_peak_memory(process)
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            last = stderr.strip().splitlines()[-1:] or [f"exit code {process.returncode}"]
            return {"error": last[0].removeprefix("error: ")}
        run_info = Run.open(run_dir).info
        return {
            "fit_seconds": run_info["fit_seconds"],
            "peak_memory_bytes": peak_memory,
            "uses_gold": run_info["uses_gold"],
        }


def benchmark_models(
    corpus: Corpus,
    models: Sequence[str] | Literal["all"] = ALL_MODELS,
    *,
    seeds: int = 5,
    split: str = "test",
    encoder: str | None = None,
    use_valid_gold: bool = False,
) -> Table:
    """Fit label models on the train split of a corpus and evaluate them on another split, in this process.

    models          names of models, or "all"
    seeds           random seeds per stochastic model
    split           split to evaluate on; it needs gold labels
    encoder         encoder for models that use features; by default that of the model
    use_valid_gold  use gold labels of the validation split for early stopping

    Returns one row per model with means over its seeds. A model that cannot be fitted is listed in the notes.

    >>> import convener as cv
    >>> table = benchmark_models(cv.demo.load_corpus(), ["majority-vote", "snorkel"])
    >>> [row["model"] for row in table.to_records()]
    ['majority-vote', 'snorkel']
    """
    train, data = corpus.train, corpus[split]
    valid = corpus.valid if "valid" in corpus else None
    if data.gold is None:
        raise DataError(f"the split {split!r} has no gold labels")
    trials = make_trials([models] if isinstance(models, str) else models, seeds)
    results: dict[Trial, TrialResult] = {}
    with progress.progress_bar("fitting", len(trials)) as advance:
        for trial in trials:
            model_class = get_model(trial.model)
            settings: dict[str, Any] = {"seed": trial.seed}
            if encoder is not None and model_class.needs_features:
                settings["encoder"] = encoder
            start_time = time.perf_counter()
            try:
                model = model_class(**settings).fit(train, valid, use_valid_gold=use_valid_gold)
                fit_seconds = time.perf_counter() - start_time
                results[trial] = _scores(model.predict(data), data) | {
                    "fit_seconds": fit_seconds,
                    "peak_memory_bytes": None,
                    "uses_gold": model.fitted.uses_gold,
                }
            except ConvenerError as error:
                results[trial] = {"error": first_line(error)}
            advance(trial.name)
    return results_table(results, f"Label models on {split}")


def _scores(predictions: Predictions, data: Dataset) -> dict[str, float | None]:
    evaluation = evaluate(predictions, data)
    return {name: getattr(evaluation, name) for name in METRICS}


def results_table(results: Mapping[Trial, TrialResult], title: str) -> Table:
    """One row per model with means over its seeds, ordered by F1; models trained on gold come last."""
    groups: dict[str, list[TrialResult]] = {}
    for trial, result in results.items():
        groups.setdefault(trial.model, []).append(result)
    rows = [_table_row(model, seeds) for model, seeds in groups.items()]
    failed = [f"{trial.name} failed: {result['error']}" for trial, result in results.items() if "error" in result]
    return Table(
        title=title,
        columns=("model", "F1", "F1 std", "precision", "recall", "seconds", "memory MB", "seeds", "uses gold"),
        rows=sorted(rows, key=lambda row: (is_upper_bound(row[-1]), -(row[1] or 0.0))),
        formats={
            **dict.fromkeys(("F1", "F1 std", "precision", "recall"), PERCENT),
            "seconds": ".1f",
            "memory MB": ",.0f",
        },
        notes=(
            "means over seeds, standard deviation with n - 1; seconds: time of the fit; "
            "memory: peak resident memory of the fitting process",
            *failed,
        ),
    )


def _table_row(model: str, results: Sequence[TrialResult]) -> tuple[Any, ...]:
    successful = [result for result in results if "error" not in result]
    if not successful:
        return (model, *[None] * 6, 0, "failed")
    f1, precision, recall = (_mean(successful, name) for name in METRICS)
    values = [result["f1"] for result in successful]
    std = float(np.std(values, ddof=1)) if f1 is not None and len(values) > 1 else None
    seconds, memory = _mean(successful, "fit_seconds"), _mean(successful, "peak_memory_bytes")
    return (
        model,
        f1,
        std,
        precision,
        recall,
        seconds,
        None if memory is None else memory / 1e6,
        len(successful),
        successful[0]["uses_gold"],
    )


def _mean(results: Sequence[TrialResult], name: str) -> float | None:
    values = [result[name] for result in results]
    return None if None in values else float(np.mean(values))


def _wait_for_peak_memory(process: subprocess.Popen[str]) -> int | None:
    """Wait for the process; returns its peak memory in bytes, None if the system does not report it."""
    if not hasattr(os, "wait4"):
        process.wait()
        return None
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    peak_memory: int = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return peak_memory
