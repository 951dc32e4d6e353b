"""All models with and without gold, how sure they may be, and what they know of their sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

import convener as cv
from benchmarks import pages
from benchmarks.jobs import Job, Options, Outcome, outcomes, splits
from benchmarks.pages import mean_of, spread_of
from benchmarks.paper import figures, reliability, results
from benchmarks.quality import stress
from convener.inference.counts import type_reliability

Found = list[tuple[Job, Outcome]]
LIMIT = 0.05
"""Of the expected calibration error."""


def page(options: Options) -> None:
    """Part `models`: F1 by model and data set, what saw gold of valid in columns of its own."""
    found = [*outcomes(results.jobs(options), options), *outcomes(_auto_jobs(options), options)]
    blocks = [pages.MEASURE, *(_table(data, found) for data in options.data)]
    pages.write("quality/models", "All models, with and without gold", blocks, found)


def _auto_jobs(options: Options) -> Iterator[Job]:
    """Auto on unchanged data, from the runs under stress."""
    return (job for job in stress.jobs(options) if job.model == stress.AUTO and not job.change)


def _table(data: str, found: Found) -> cv.Table:
    """A line for each model and encoder: without gold, with gold of valid, the difference."""
    lines: dict[tuple[str, str], dict[bool, list[Outcome]]] = {}
    for job, outcome in found:
        told = "" if job.variant in ("ours", "free") else job.variant
        name = f"{job.model} {told}".strip()
        if job.data == data and not cv.get_model(job.model).supervised:
            with_gold = outcome["gold"] != "none"
            lines.setdefault((name, job.encoder), {}).setdefault(with_gold, []).append(outcome)
    rows = []
    for (name, encoder), both in lines.items():
        free, gold = (both.get(which, []) for which in (False, True))
        gap = mean_of(gold) - mean_of(free)
        pairs = [(mean_of(seeds), spread_of(seeds), len(seeds)) for seeds in (free, gold)]
        rows.append((name, encoder or "none", *pairs[0], *pairs[1], gap))
    columns = ("no gold", "±", "seeds", "gold of valid", "± ", "seeds ", "difference")
    return cv.Table(
        title=data,
        columns=("model", "encoder", *columns),
        rows=rows,
        formats={
            **dict.fromkeys((columns[0], columns[1], columns[3], columns[4]), ".2f"),
            "difference": "+.2f",
        },
        notes=(f"the paper's Sparse-CHMM, tuned on gold of valid: {figures.MAIN[results.PAPER][data][0]:.2f}",),
    )


def calibration_page(options: Options) -> None:
    """Part `calibration`: expected errors of probabilities on test, auto without gold."""
    found = outcomes(_auto_jobs(options), options)
    errors = ("all_ece", "entities_ece", "span_ece")
    rows = [
        (job.data, job.encoder, outcome["chosen"], *(outcome["test"].get(name) for name in errors))
        for job, outcome in found
    ]
    table = cv.Table(
        title="Expected calibration error on test",
        columns=("data", "encoder", "chosen", "tokens", "tokens of entities", "spans"),
        rows=rows,
        formats=dict.fromkeys(("tokens", "tokens of entities", "spans"), ".3f"),
        notes=(
            "15 bins of equal width, lenient; tokens: the probability of the label given, right "
            "where it is gold's; of entities: only where label or gold is an entity, which counts "
            "what no source and no model sees as O that is wrong",
        ),
    )
    good = [f"{row[0]} ({row[1]})" for row in rows if max(row[3], row[5]) < LIMIT]
    line = f"Tokens and spans below {LIMIT}: {', '.join(good) or 'nowhere'}."
    pages.write("quality/calibration", "How sure the labels may be", [table, line], found)


def sources_page(options: Options) -> None:
    """Part `sources`: what auto knows of its sources, against the truth on test."""
    found = outcomes(_auto_jobs(options), options)
    truths = {data: reliability.Truth.of(data) for data in options.data}
    rows = []
    for encoder in dict.fromkeys(job.encoder for job, _ in found):
        there = {job.data: outcome for job, outcome in found if job.encoder == encoder}
        for name in (*there, *([reliability.POOLED] if len(there) > 1 else [])):
            chosen = list(there) if name == reliability.POOLED else [name]
            rows.append((encoder, name, *_knowledge(chosen, there, truths)))
    columns = ("Spearman", "Pearson", "error of precision")
    table = cv.Table(
        title="Estimated and true quality of sources, by type",
        columns=("encoder", "data", "n", *columns, "n of precision", "best source right"),
        rows=rows,
        formats=dict.fromkeys(columns, ".3f"),
        notes=(
            "Spearman, Pearson: F1 of reliability() and true F1 on test, over sources and types; "
            "error: mean absolute difference of estimated and true precision by token, where a "
            "source marks the type on test; best: the source of highest mean F1 over types",
        ),
    )
    pages.write("quality/sources", "What is known of the sources without gold", [table], found)


def _knowledge(
    names: Sequence[str], there: dict[str, Outcome], truths: dict[str, reliability.Truth]
) -> tuple[int, float, float, float, int, str]:
    """Of some data sets: pairs, Spearman, Pearson, error of precision, its pairs, best sources."""
    ours = np.concatenate([reliability.predicted(there[name], "F1").ravel() for name in names])
    true = np.concatenate([truths[name].f1.ravel() for name in names])
    gaps, right = list[np.ndarray](), 0
    for name in names:
        test = splits(name).test
        estimated = np.array(there[name]["reliability"]["precision"], float)
        kinds = np.eye(len(test.tags.types) + 1, dtype=np.float32)[(test.gold + 1) // 2]
        _, actual = type_reliability(test.votes, kinds[:, 1:])
        both = np.isfinite(estimated) & np.isfinite(actual)
        gaps.append(np.abs(estimated - actual)[both])
        guess = reliability.predicted(there[name], "F1").mean(axis=1)
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
