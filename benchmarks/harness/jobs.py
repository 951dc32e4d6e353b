"""Fits as values: each is made once, stored as a row of its part's result file, and read from there later."""

from __future__ import annotations

import json
import re
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import convener as cv
from benchmarks.harness.data import splits
from benchmarks.harness.perturbations import NONE, Perturbation
from benchmarks.harness.results import (
    RESULTS,
    Block,
    ResultFile,
    Row,
    page_provenance,
    provenance,
    row_key,
    write_page,
)
from benchmarks.harness.timing import StepClock, epoch_costs
from benchmarks.paper import recipes
from convener.cache import cache_dir
from convener.config import config_to_dict
from convener.evaluation.calibration import span_calibration, token_calibration
from convener.evaluation.metrics import is_correct, labels_to_spans, score_spans

EMISSION_PARTS = ("paper/main", "paper/ablation")
"""Parts whose fits with seed 0 keep their emissions, for the heat maps."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asks for, reduced to what is available."""

    data: tuple[str, ...]
    encoders: tuple[str, ...]
    results: Path = RESULTS
    seeds: int | None = None
    recipe: str = "ours"
    fit: bool = True
    """Whether missing fits are made; otherwise tables show what is stored."""
    refit: bool = False
    """Whether stored fits are made again."""
    smoke: Mapping[str, Any] | None = None
    """Settings that make a fit short, for those models that have them; None for a full run."""
    failed: list[str] = field(default_factory=list)
    """Names of the fits that ended in an error."""

    def seeds_for(self, default: int) -> range:
        """As many seeds as were asked for, else as many as a part takes by default."""
        return range(default if self.seeds is None else self.seeds)

    def write_page(self, page: str, title: str, blocks: Sequence[Block], found: Sequence[tuple[Job, Row]] = ()) -> None:
        """Write a page with the provenance of the fits that it shows."""
        metadata = page_provenance([row for _, row in found])
        write_page(self.results / f"{page}.md", title, blocks, metadata)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One fit: which model, with which settings, on what data."""

    part: str
    """Its result file, without the ending."""
    data: str
    perturbation: Perturbation = NONE
    model: str
    variant: str = ""
    encoder: str = ""
    """Empty for models that use no features."""
    seed: int = 0
    use_valid_gold: bool = True
    """Whether gold of valid may decide when to stop."""
    finetunes: bool = False
    """Whether the encoder itself is trained: the fit takes long, so it writes checkpoints."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that identify the fit, as they stand in its row."""
        return {
            "data": self.data,
            "perturbation": str(self.perturbation),
            "encoder": self.encoder,
            "model": self.model,
            "variant": self.variant,
            "seed": self.seed,
        }

    @property
    def key(self) -> str:
        """The name of the fit."""
        return row_key(self.fields)

    @property
    def checkpoint_dir(self) -> Path | None:
        """Where a long fit writes checkpoints."""
        return cache_dir() / "benchmarks" / self.part / self.key if self.finetunes else None

    @property
    def features(self) -> str:
        """The encoder whose features the data is given; an encoder that is trained reads tokens."""
        return "" if self.finetunes else self.encoder

    @property
    def estimator_class(self) -> Any:
        """The class that is fitted."""
        return cv.get_model(self.model)

    def build(self) -> Any:
        """The model with its settings, not fitted."""
        return self.estimator_class(seed=self.seed, **self.settings)

    def shortened(self, settings: Mapping[str, Any]) -> Job:
        """The same job with those of these settings that its model has."""
        known = {item.name for item in fields(self.estimator_class.Config)}
        short = {name: value for name, value in settings.items() if name in known}
        return replace(self, settings={**self.settings, **short})

    def run(self) -> Row:
        """Fit and score."""
        return fit_and_score(self)

    def matches(self, row: Row) -> bool:
        """Whether a stored fit has the settings of this one."""
        expected = json.loads(json.dumps(config_to_dict(self.build().config)))
        return bool(row.get("settings") == expected)


def run_jobs(jobs: Iterable[Job], options: Options) -> list[tuple[Job, Row]]:
    """The rows of these jobs: stored ones, or new fits. Failures are reported, not raised."""
    jobs = known_models(jobs)
    if options.smoke is not None:
        jobs = [job.shortened(options.smoke) for job in jobs]
    files = {job.part: ResultFile(options.results / f"{job.part}.jsonl") for job in jobs}
    stored = {part: file.read() for part, file in files.items()}
    unique = {(job.part, job.key): job for job in jobs}
    found: dict[tuple[str, str], Row] = {}
    outdated = []
    for (part, key), job in unique.items():
        row = None if options.refit else stored[part].get(key)
        if row is not None and job.matches(row):
            found[part, key] = row
        elif row is not None:
            outdated.append(key)
    missing = [job for name, job in unique.items() if name not in found]
    part = ", ".join(files)
    if outdated:
        print(f"{part}: stored with other settings: {', '.join(outdated)}", file=sys.stderr)
    if missing and not options.fit:
        print(f"{part}: {len(missing)} of {len(unique)} fits are missing", file=sys.stderr)
    elif missing:
        for number, job in enumerate(missing, start=1):
            row = _try(job, options)
            if row is not None:
                files[job.part].add(row)
                found[job.part, job.key] = row
            print(f"{number}/{len(missing)} {job.part} {_summary(job, row)}", file=sys.stderr, flush=True)
    return [(job, found[name]) for name, job in unique.items() if name in found]


def known_models(jobs: Iterable[Job]) -> list[Job]:
    """The jobs whose models exist; the other models are named."""
    jobs = list(jobs)
    for name in sorted({job.model for job in jobs} - set(cv.list_models())):
        print(f"{name}: unknown model; skipped", file=sys.stderr)
    return [job for job in jobs if job.model in cv.list_models()]


def _try(job: Job, options: Options) -> Row | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cv.ConvenerWarning)
            return job.run()
    except Exception:
        options.failed.append(f"{job.part}/{job.key}")
        traceback.print_exc()
        return None


def fit_and_score(job: Job) -> Row:
    """Fit a model and score it. Gold of valid decides when to stop; gold of test only scores."""
    data, model = job.perturbation.apply(splits(job.data, job.features)), job.build()
    use_gold = model.supervised or (model.uses_valid_gold and job.use_valid_gold)
    wall, cpu = time.perf_counter(), time.process_time()
    with StepClock() as clock:
        model.fit(
            data.train,
            data.valid,
            use_valid_gold=use_gold,
            checkpoint_dir=job.checkpoint_dir,
        )
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        **job.fields,
        "settings": config_to_dict(model.config),
        "gold": gold_used(job),
        "valid": score(model, data.valid),
        "test": score(model, data.test),
        "seconds": round(wall, 3),
        "cpu_seconds": round(cpu, 3),
        "stages": stage_summaries(model, clock),
        **_learned(job, model, data.train),
        **provenance(),
    }


def gold_used(job: Job) -> str:
    """Which gold a model sees."""
    kind = cv.get_model(job.model)
    if kind.supervised:
        return "all: a reference"
    return "valid: stopping" if kind.uses_valid_gold and job.use_valid_gold else "none"


def score(model: Any, data: cv.Dataset) -> dict[str, Any]:
    """Micro scores and calibration errors.

    beyond_consensus counts correct spans that best consensus, the oracle that chooses among the
    sources' labels, does not have.
    """
    predictions = model.predict(data)
    consensus = cv.BestConsensus().fit(data).predict(data).labels
    found, gold, chosen = (
        labels_to_spans(labels, data.offsets, data.tags) for labels in (predictions.labels, data.gold, consensus)
    )
    hits = found.take(is_correct(found, gold))
    scores = score_spans(found, gold, data.tags.types).micro.to_json()
    scores["beyond_consensus"] = int((~is_correct(hits, chosen)).sum())
    if predictions.probabilities is not None:
        correct = predictions.labels == data.gold
        for scope in ("all", "entities"):
            scores[f"{scope}_ece"] = token_calibration(predictions, correct, data.gold > 0, scope=scope).ece
        scores["span_ece"] = span_calibration(predictions.spans, gold).ece
    return scores


def stage_summaries(model: Any, clock: StepClock) -> list[dict[str, Any]]:
    """Of each training stage: epochs, the best one by validation score, CPU seconds of an epoch."""
    curves = model.diagnostics().learning_curves
    window = getattr(model.config, recipes.SCORE_WINDOW, 1)
    summaries: list[dict[str, Any]] = []
    for number, (name, curve) in enumerate(curves.items()):
        curve, epochs = np.asarray(curve), max(0, len(curve) - 1)
        summary: dict[str, Any] = {"stage": re.sub(r"^\d+ ", "", name), "epochs": epochs}
        scores = curve[:, 1] if curve.ndim == 2 and len(curve) else np.array([np.nan])
        if not np.isnan(scores).any():
            width = window if number == 0 else 1
            smoothed = [float(scores[max(0, n + 1 - width) : n + 1].mean()) for n in range(len(scores))]
            summary |= {"best_epoch": int(np.argmax(smoothed)), "best_score": round(max(smoothed), 6)}
        if len(clock.stages) == len(curves):
            summary |= epoch_costs(clock.stages[number], epochs)
        summaries.append(summary)
    return summaries


def _learned(job: Job, model: Any, train: cv.Dataset) -> dict[str, Any]:
    """What a model learned of its sources, (K, L) and (K, E) arrays, and its number of parameters."""
    fitted, diagnostics = model.fitted, model.diagnostics()
    found: dict[str, Any] = {
        "sources": list(train.sources),
        "used_sources": list(fitted.used_sources),
        "types": list(train.tags.types),
        "feature_dim": None if train.features is None else train.features.dim,
        "parameters": {
            name: int(np.size(array))
            for name, array in _weights(fitted.params).items()
            if name.rpartition(".")[2] in ("weight", "bias")
        },
        "reliability": {
            "recall": _rounded(fitted.reliability.recall[..., 0]),
            "precision": _rounded(fitted.reliability.precision[..., 0]),
            "f1": _rounded(fitted.reliability.f1[..., 0]),
        },
    }
    if hasattr(model, "selected_model"):
        found["selected_model"] = model.selected_model
    emission = diagnostics.emission
    if emission is not None and np.ndim(emission) == 3:
        found["emission_diagonal"] = _rounded(np.einsum("kii->ki", emission))
        if job.seed == 0 and job.part in EMISSION_PARTS:
            found["emission"] = _rounded(emission)
    if hasattr(model, "reliability_scores"):
        found["reliability_scores"] = _rounded(model.reliability_scores(train).mean(axis=0, dtype=np.float64))
    return found


def _weights(params: Any) -> dict[str, Any]:
    """Arrays of a network by name; empty for a model without one."""
    return dict(params) if isinstance(params, Mapping) else {}


def _rounded(array: np.ndarray) -> list[Any]:
    """Nested lists of five digits; None for NaN."""
    return [_rounded(row) if np.ndim(row) else (None if np.isnan(row) else round(float(row), 5)) for row in array]


def _summary(job: Job, row: Row | None) -> str:
    if row is None:
        return f"{job.key}: failed"
    valid, test = (100 * row[name]["f1"] for name in ("valid", "test"))
    return f"{job.key}: F1 {valid:.2f} valid, {test:.2f} test; {row['cpu_seconds']:.1f} s of CPU"


def group(found: Sequence[tuple[Job, Row]], *names: str) -> dict[tuple[str, ...], list[Row]]:
    """Rows by these fields of their jobs; what remains in a group are the seeds."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for job, row in found:
        groups.setdefault(tuple(getattr(job, name) for name in names), []).append(row)
    return groups
