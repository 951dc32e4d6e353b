"""All models with and without gold, their calibration, and their estimates of the sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import convener as cv
from benchmarks.harness.data import splits
from benchmarks.harness.jobs import Job, Options, run_jobs
from benchmarks.harness.perturbations import NONE
from benchmarks.harness.results import MEASURE, Row, mean_of, spread_of
from benchmarks.paper import main_results, published, reliability
from benchmarks.quality import stress
from benchmarks.worlds.scoring import measured_quality

Found = list[tuple[Job, Row]]
LIMIT = 0.05
"""Expected calibration error below which probabilities count as calibrated."""


def page(options: Options) -> None:
    """Part `models`: F1 by model and data set, with and without gold of valid."""
    found = [*run_jobs(main_results.jobs(options), options), *run_jobs(_auto_jobs(options), options)]
    blocks = [MEASURE, *(_table(data, found) for data in options.data)]
    options.write_page("quality/models", "All models, with and without gold", blocks, found)


def _auto_jobs(options: Options) -> Iterator[Job]:
    """Auto on unperturbed data, from the fits of the part `stress`."""
    return (job for job in stress.jobs(options) if job.model == stress.AUTO and job.perturbation == NONE)


def _table(data: str, found: Found) -> cv.Table:
    """A line for each model and encoder: without gold, with gold of valid, the difference."""
    lines: dict[tuple[str, str], dict[bool, list[Row]]] = {}
    for job, row in found:
        variant = "" if job.variant in ("ours", "no-gold") else job.variant
        name = f"{job.model} {variant}".strip()
        if job.data == data and not cv.get_model(job.model).supervised:
            with_gold = row["gold"] != "none"
            lines.setdefault((name, job.encoder), {}).setdefault(with_gold, []).append(row)
    rows = []
    for (name, encoder), both in lines.items():
        without, gold = (both.get(with_gold, []) for with_gold in (False, True))
        gap = mean_of(gold) - mean_of(without)
        pairs = [(mean_of(seeds), spread_of(seeds), len(seeds)) for seeds in (without, gold)]
        rows.append((name, encoder or "none", *pairs[0], *pairs[1], gap))
    columns = ("no gold", "±", "seeds", "gold of valid", "± ", "seeds ", "difference")
    paper = published.main_scores(main_results.PAPER, data)[0]
    return cv.Table(
        title=data,
        columns=("model", "encoder", *columns),
        rows=rows,
        formats={
            **dict.fromkeys((columns[0], columns[1], columns[3], columns[4]), ".2f"),
            "difference": "+.2f",
        },
        notes=() if paper is None else (f"the paper's Sparse-CHMM, tuned on gold of valid: {paper:.2f}",),
    )


def calibration_page(options: Options) -> None:
    """Part `calibration`: expected calibration error on test, auto without gold."""
    found = run_jobs(_auto_jobs(options), options)
    errors = ("all_ece", "entities_ece", "span_ece")
    rows = [
        (job.data, job.encoder, row["selected_model"], *(row["test"].get(name) for name in errors))
        for job, row in found
    ]
    table = cv.Table(
        title="Expected calibration error on test",
        columns=("data", "encoder", "selected model", "tokens", "tokens of entities", "spans"),
        rows=rows,
        formats=dict.fromkeys(("tokens", "tokens of entities", "spans"), ".3f"),
        notes=(
            "15 bins of equal width, conlleval mode; tokens: the probability of the predicted label; of "
            "entities: only tokens where prediction or gold is an entity, so that entities that no "
            "source and no model finds count as wrong O",
        ),
    )
    good = [f"{row[0]} ({row[1]})" for row in rows if max(row[3] or 0.0, row[5] or 0.0) < LIMIT]
    line = f"Tokens and spans below {LIMIT}: {', '.join(good) or 'nowhere'}."
    options.write_page("quality/calibration", "Calibration of the probabilities", [table, line], found)


def sources_page(options: Options) -> None:
    """Part `sources`: auto's estimates of its sources against their true quality on test."""
    found = run_jobs(_auto_jobs(options), options)
    truths = {data: reliability.TrueQuality.of(data) for data in options.data}
    rows = []
    for encoder in dict.fromkeys(job.encoder for job, _ in found):
        fits = {job.data: row for job, row in found if job.encoder == encoder}
        for name in (*fits, *([reliability.POOLED] if len(fits) > 1 else [])):
            chosen = list(fits) if name == reliability.POOLED else [name]
            rows.append((encoder, name, *_errors(chosen, fits, truths)))
    columns = ("Spearman", "Pearson", "error of precision")
    table = cv.Table(
        title="Estimated and true quality of sources, by type",
        columns=("encoder", "data", "n", *columns, "n of precision", "best source correct"),
        rows=rows,
        formats=dict.fromkeys(columns, ".3f"),
        notes=(
            "Spearman, Pearson: F1 of reliability() and true F1 on test, over sources and types; "
            "error: mean absolute difference of estimated and true precision by span, where a "
            "source marks the type on test; best: the source of highest mean F1 over types",
        ),
    )
    options.write_page("quality/sources", "Quality of the sources, estimated without gold", [table], found)


def _errors(
    names: Sequence[str], fits: dict[str, Row], truths: dict[str, reliability.TrueQuality]
) -> tuple[int, float, float, float, int, str]:
    """Over data sets: pairs, Spearman, Pearson, error of precision, its pairs, best sources found."""
    ours = np.concatenate([reliability.estimated(fits[name], "F1").ravel() for name in names])
    true = np.concatenate([truths[name].f1.ravel() for name in names])
    gaps, right = list[np.ndarray](), 0
    for name in names:
        test = splits(name).test
        estimated = np.array(fits[name]["reliability"]["precision"], float)
        _, actual = measured_quality(test)
        both = np.isfinite(estimated) & np.isfinite(actual)
        gaps.append(np.abs(estimated - actual)[both])
        guess = reliability.estimated(fits[name], "F1").mean(axis=1)
        right += int(np.argmax(guess) == np.argmax(truths[name].f1.mean(axis=1)))
    error = np.concatenate(gaps)
    return (
        len(ours),
        reliability.spearman(ours, true),
        reliability.pearson(ours, true),
        float(error.mean()),
        len(error),
        f"{right} of {len(names)}",
    )
