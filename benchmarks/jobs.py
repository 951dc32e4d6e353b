"""Fits as values: each is one small file under `results`, made once and read ever after."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import convener as cv
from benchmarks import watch
from benchmarks.changes import Splits, changed
from benchmarks.record import DATA, RESULTS, machine, versions
from convener import progress, storage
from convener.config import config_to_dict
from convener.evaluation.calibration import span_calibration, token_calibration
from convener.evaluation.metrics import is_correct, labels_to_spans, score_spans

PACKAGES = ("torch", "numba", "transformers")
SHARE = 0.8
"""Of valid that becomes train, where a data set has none."""
Outcome = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the command line asks for, reduced to what is there."""

    data: tuple[str, ...]
    encoders: tuple[str, ...]
    seeds: int | None = None
    recipe: str = "ours"
    fits: bool = True
    """Whether fits that are missing are made; otherwise tables show what there is."""
    fresh: bool = False
    failed: list[str] = field(default_factory=list)
    """Names of the fits that ended in an error."""

    def seeds_for(self, usual: int) -> range:
        """As many as were asked for, else as many as the part usually takes."""
        return range(usual if self.seeds is None else self.seeds)


@dataclass(frozen=True, kw_only=True)
class Job:
    """One fit: which model, with which settings, on what."""

    part: str
    """Its folder under `results`."""
    data: str
    change: str = ""
    """What is done to the data first: see `benchmarks.changes`."""
    model: str
    variant: str = ""
    encoder: str = ""
    """Empty for models that read no features."""
    seed: int = 0
    free: bool = False
    """Whether even gold of valid is withheld, for stopping."""
    slow: bool = False
    """Whether its epochs are kept, so that a fit that was stopped goes on where it ended."""
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Its name, which is that of its file."""
        words = (self.data, self.change, self.encoder, self.model, self.variant)
        words += (f"seed{self.seed}",)
        return "_".join(word for word in words if word)

    @property
    def path(self) -> Path:
        return RESULTS / self.part / f"{self.key}.json"

    @property
    def journal(self) -> Path | None:
        """Where its epochs are kept while it is fitted."""
        return storage.cache_dir() / "benchmarks" / self.key if self.slow else None

    @property
    def reads(self) -> str:
        """The encoder whose features its data comes with; one that is trained reads words."""
        return "" if self.slow else self.encoder

    def model_for(self) -> Any:
        """The model, set up."""
        return cv.get_model(self.model)(seed=self.seed, **self.settings)

    def outcome(self) -> Outcome:
        """What comes of it."""
        return outcome_of(self)

    def stored(self) -> Outcome | None:
        """What an earlier run found, if it was with these settings."""
        try:
            found: Outcome = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        wanted = json.loads(json.dumps(config_to_dict(self.model_for().config)))
        return found if found.get("settings") == wanted else None


@lru_cache(maxsize=1)
def splits(name: str, encoder: str = "") -> Splits:
    """Train, valid and test; a data set without train gives up the first 80 % of its valid."""
    corpus = cv.read(DATA / name)
    if encoder:
        corpus = cv.encode(corpus, encoder)
    if "train" in corpus:
        return Splits(corpus.train, corpus.valid, corpus.test)
    return Splits(*corpus.valid.split(SHARE), corpus.test)


def outcomes(jobs: Iterable[Job], options: Options) -> list[tuple[Job, Outcome]]:
    """What came of the jobs: from their files, or by fitting. Failures are named, not raised."""
    jobs = present(jobs)
    found = {job.path: None if options.fresh else job.stored() for job in jobs}
    missing = [job for job in jobs if found[job.path] is None]
    if stale := [job.key for job in missing if job.path.exists() and not options.fresh]:
        print(f"{jobs[0].part}: fits with other settings: {', '.join(stale)}", file=sys.stderr)
    if options.fits and missing:
        with progress.progress_bar(jobs[0].part, len(jobs), completed=len(jobs) - len(missing)) as advance:
            for number, job in enumerate(missing, start=1):
                found[job.path] = _tried(job, options, lambda said: advance(said, by=0))
                advance(job.key)
                _log(f"{number}/{len(missing)} {job.part} {_spoken(job, found[job.path])}")
    elif missing:
        print(f"{jobs[0].part}: {len(missing)} of {len(jobs)} fits are missing", file=sys.stderr)
    return [(job, outcome) for job in jobs if (outcome := found[job.path]) is not None]


def present(jobs: Iterable[Job]) -> list[Job]:
    """The jobs whose models are there, data set by data set; the others are named."""
    jobs = list(jobs)
    for name in sorted({job.model for job in jobs} - set(cv.list_models())):
        print(f"{name}: no such model here; skipped", file=sys.stderr)
    return [job for job in jobs if job.model in cv.list_models()]


def _tried(job: Job, options: Options, say: Any) -> Outcome | None:
    try:
        with watch.one_bar(say), warnings.catch_warnings():
            warnings.simplefilter("ignore", cv.ConvenerWarning)
            outcome = job.outcome()
    except Exception:
        options.failed.append(f"{job.part}/{job.key}")
        traceback.print_exc()
        return None
    job.path.parent.mkdir(parents=True, exist_ok=True)
    draft = job.path.with_suffix(f".{os.getpid()}.new")
    draft.write_text(json.dumps(outcome) + "\n", encoding="utf-8")
    draft.replace(job.path)
    return outcome


def outcome_of(job: Job) -> Outcome:
    """Fit and measure. Gold of valid decides when to stop; test is read for its figures alone."""
    data, model = changed(splits(job.data, job.reads), job.change), job.model_for()
    with_valid = model.uses_valid_gold or model.supervised
    use_gold = with_valid and not job.free
    wall, cpu = time.perf_counter(), time.process_time()
    with watch.epochs() as stages:
        valid = data.valid if with_valid else None
        model.fit(data.train, valid, use_gold=use_gold, journal=job.journal)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {
        "job": asdict(job),
        "settings": config_to_dict(model.config),
        "gold": gold_of(job),
        "valid": score_of(model, data.valid),
        "test": score_of(model, data.test),
        "seconds": round(wall, 3),
        "cpu_seconds": round(cpu, 3),
        "stages": stages,
        **_learned(job, model, data.train),
        **provenance(),
    }


def provenance() -> dict[str, Any]:
    """When, where and with what a fit was made."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(PACKAGES),
        "code": code(),
    }


def gold_of(job: Job) -> str:
    """Which gold a model has seen."""
    kind = cv.get_model(job.model)
    if kind.supervised:
        return "all: a reference"
    return "valid: stopping" if kind.uses_valid_gold and not job.free else "none"


def score_of(model: Any, data: cv.Dataset) -> dict[str, Any]:
    """Micro scores, right spans beyond the best choice among the sources, errors of calibration."""
    predictions = model.predict(data)
    found, gold, chosen = (
        labels_to_spans(each, data.offsets, data.tags) for each in (predictions.labels, data.gold, _oracle(data))
    )
    hits = found.take(is_correct(found, gold))
    score = score_spans(found, gold, data.tags.types).micro.to_json()
    score["beyond"] = int((~is_correct(hits, chosen)).sum())
    if predictions.scores is not None:
        right = predictions.labels == data.gold
        for scope in ("all", "entities"):
            found = token_calibration(predictions, right, data.gold > 0, scope=scope)
            score[f"{scope}_ece"] = found.ece
        score["span_ece"] = span_calibration(predictions.spans, gold).ece
    return score


def _oracle(data: cv.Dataset) -> np.ndarray:
    return cv.BestConsensus().fit(data).predict(data).labels


def _learned(job: Job, model: Any, train: cv.Dataset) -> dict[str, Any]:
    """What a model holds of its sources: (K, L) and (K, E) arrays, and its size."""
    fitted, count = model.fitted, len(train.sources)
    facts: dict[str, Any] = {
        "sources": list(train.sources),
        "heard": list(fitted.heard),
        "types": list(train.tags.types),
        "width": None if train.features is None else train.features.dim,
        "parameters": {
            name: array.size for name, array in fitted.params.items() if name.rpartition(".")[2] in ("weight", "bias")
        },
        "reliability": {
            "recall": _list(fitted.reliability.recall),
            "precision": _list(fitted.reliability.precision),
            "f1": _list(fitted.reliability.f1),
        },
    }
    if hasattr(model, "chosen"):
        facts["chosen"] = model.chosen
    emissions = fitted.params.get("emissions")
    if emissions is not None and np.ndim(emissions) == 3:
        facts["diagonal"] = _list(np.einsum("kii->ki", emissions[:count]))
        if job.seed == 0:
            facts["emissions"] = _list(emissions[:count])
    if hasattr(model, "scores"):
        facts["scores"] = _list(model.scores(train).mean(axis=0, dtype=np.float64))
    return facts


def _list(array: np.ndarray) -> list[Any]:
    """Nested lists of five digits; None for what is not known."""
    return [_list(row) if np.ndim(row) else (None if np.isnan(row) else round(float(row), 5)) for row in array]


@cache
def code() -> str:
    """A digest of what computes: models, taggers, networks, training, kernels."""
    digest = hashlib.sha256()
    root = Path(cv.__file__).parent
    for room in ("kernels", "models", "nets", "tagger", "train"):
        for path in sorted((root / room).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _spoken(job: Job, outcome: Outcome | None) -> str:
    if outcome is None:
        return f"{job.key}: failed"
    valid, test = (100 * outcome[name]["f1"] for name in ("valid", "test"))
    seconds = outcome["cpu_seconds"]
    return f"{job.key}: F1 {valid:.2f} valid, {test:.2f} test; {seconds:.1f} s of CPU"


def _log(line: str) -> None:
    """A line a fit, where no bar is drawn."""
    if not sys.stderr.isatty():
        print(line, file=sys.stderr, flush=True)


def grouped(found: Sequence[tuple[Job, Outcome]], *names: str) -> dict[tuple[str, ...], list[Outcome]]:
    """Outcomes by these attributes of their jobs; the seeds of one thing come together."""
    groups: dict[tuple[str, ...], list[Outcome]] = {}
    for job, outcome in found:
        groups.setdefault(tuple(getattr(job, name) for name in names), []).append(outcome)
    return groups
