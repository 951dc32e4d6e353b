"""The main results: every model on every data set, compared with the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import convener as cv
from benchmarks.harness.jobs import Job, Options, group, run_jobs
from benchmarks.harness.results import MEASURE, Row, mean_of, spread_of
from benchmarks.paper import published, recipes

SEEDS = 5
Found = list[tuple[Job, Row]]


class Entry(NamedTuple):
    """A line of the table of main results."""

    title: str
    model: str
    variant: str = ""
    paper: str = ""
    """Its name in the paper."""
    weak: bool = True
    """Whether it is a baseline that Sparse-CHMM should beat: one without our additions."""
    seeds: int = SEEDS
    """Number of seeds at most, where a fit takes long."""
    pretrained: bool = False
    """Whether it trains a pretrained encoder."""


OURS, PAPER = "sparse-chmm", "Sparse-CHMM"
ENTRIES = (
    Entry("majority vote (IO)", "majority-vote", "io", "MV"),
    Entry("span union", "majority-vote", "span"),
    Entry("Dawid-Skene", "dawid-skene"),
    Entry("Snorkel", "snorkel", "", "Snorkel"),
    Entry("HMM", "hmm", "", "HMM"),
    Entry("linked HMM", "linked-hmm"),
    Entry("Bayesian sequence combination", "bsc"),
    Entry("CHMM", "chmm", "", "CHMM"),
    Entry("CHMM, no gold", "chmm", "no-gold", "CHMM"),
    Entry("DWS", "dws", weak=False),
    Entry("DWS, no gold", "dws", "no-gold", weak=False),
    Entry("DWS, nothing added", "dws", "paper"),
    Entry("ConNet", "connet", "", "ConNet", weak=False),
    Entry("ConNet, no gold", "connet", "no-gold", "ConNet", weak=False),
    Entry("ConNet, features alone", "connet", "alone", "ConNet"),
    Entry("ConNet, features alone, unmarked is O", "connet", "paper", "ConNet"),
    Entry("ALT, no gold", "alt", "no-gold", weak=False, seeds=1),
    Entry("Sparse-CHMM, ours", OURS, "ours", PAPER, weak=False),
    Entry("Sparse-CHMM, no gold", OURS, "no-gold", PAPER, weak=False),
    Entry("Sparse-CHMM, the paper's settings", OURS, "paper", PAPER, weak=False),
    Entry("best consensus", "best-consensus", "", "Best consensus", weak=False),
    Entry("CHMM-FE", "chmm-fe", "", "CHMM-FE", weak=False),
    Entry("BERT-NER, frozen features", "bert-ner", "frozen", "BERT-NER", weak=False),
    Entry("BERT-NER, fine-tuned", "bert-ner", "finetuned", "BERT-NER", weak=False, seeds=1, pretrained=True),
)


def jobs(options: Options, *models: str) -> Iterator[Job]:
    """The fits of the main results, or those of some models only.

    Models without features are deterministic, and are fitted once. Smoke tests leave out models
    whose fits take long.
    """
    for data in options.data:
        for encoder in ("", *options.encoders):
            for entry in ENTRIES:
                needed = entry.model in cv.list_models() and cv.get_model(entry.model).needs_features
                skipped = entry.seeds < SEEDS and options.smoke is not None
                if bool(encoder) == needed and not skipped and (not models or entry.model in models):
                    yield from _seeds(entry, data, encoder, options)


def _seeds(entry: Entry, data: str, encoder: str, options: Options) -> Iterator[Job]:
    if entry.model == OURS:
        settings = recipes.settings(entry.variant, data, encoder)
    else:
        settings = recipes.others(entry.model, entry.variant, encoder)
    for seed in options.seeds_for(SEEDS)[: entry.seeds] if encoder else (0,):
        yield Job(
            part="paper/main",
            data=data,
            model=entry.model,
            variant=entry.variant,
            encoder=encoder,
            seed=seed,
            use_valid_gold=entry.variant != "no-gold",
            finetunes=entry.pretrained,
            settings=settings,
        )


def page(options: Options) -> None:
    """Part `main`."""
    found = run_jobs(jobs(options), options)
    tables = [_table(data, found) for data in options.data]
    blocks = [MEASURE, *tables, *gains(found, options), goals(found, options)]
    options.write_page("paper/main", "Main results on test", blocks, found)


def _table(data: str, found: Found) -> cv.Table:
    """All models on one data set."""
    groups = group(found, "data", "model", "variant", "encoder")
    rows = []
    for entry in ENTRIES:
        f1, precision, recall = published.main_scores(entry.paper, data)
        for (name, model, variant, encoder), seeds in groups.items():
            if (name, model, variant) == (data, entry.model, entry.variant):
                means = [mean_of(seeds, metric) for metric in ("f1", "precision", "recall")]
                ours = (entry.title, encoder or "none", *means, spread_of(seeds), len(seeds))
                gap = None if f1 is None else round(means[0], 2) - f1
                rows.append((*ours, seeds[0]["gold"], f1, precision, recall, gap))
    columns = ("model", "encoder", "F1", "precision", "recall", "±", "seeds", "gold used")
    theirs = ("paper F1", "paper precision", "paper recall", "difference")
    split = " (train: the first 80 % of its valid)" if data == "CoNLL" else ""
    return cv.Table(
        title=f"{data}{split}",
        columns=(*columns, *theirs),
        rows=rows,
        formats=dict.fromkeys((*columns[2:6], *theirs[:3]), ".2f") | {"difference": "+.2f"},
    )


def gains(found: Found, options: Options) -> Iterator[cv.Table]:
    """How far Sparse-CHMM is above the strongest baseline, by encoder and recipe."""
    for encoder in options.encoders:
        for recipe in recipes.NAMES:
            rows = [row for data in options.data if (row := _gain(data, encoder, recipe, found))]
            if rows:
                ours, theirs = (float(np.mean([row[n] for row in rows])) for n in (-2, -1))  # NaN if unknown
                rows.append(("average", None, "", None, None, ours, theirs))
            yield cv.Table(
                title=f"Gain over the strongest baseline: {recipe}, {encoder}",
                columns=("data", "F1", "baseline", "its encoder", "its F1", "gain", "paper's gain"),
                rows=rows,
                formats={
                    **dict.fromkeys(("F1", "its F1"), ".2f"),
                    **dict.fromkeys(("gain", "paper's gain"), "+.2f"),
                },
                notes=(
                    f"the paper's average over its five data sets is {published.GAIN}, its baselines "
                    f"are {', '.join(published.WEAK)}; here all models above but the references",
                ),
            )


def _gain(data: str, encoder: str, recipe: str, found: Found) -> tuple | None:
    groups = group(found, "data", "model", "variant", "encoder")
    ours = groups.get((data, OURS, recipe, encoder))
    baselines = [
        (mean_of(groups[key]), entry.title, key[3])
        for entry in ENTRIES
        for key in ((data, entry.model, entry.variant, used) for used in ("", encoder))
        if entry.weak and key in groups
    ]
    if not ours or not baselines:
        return None
    best, title, used = max(baselines)
    f1 = mean_of(ours)
    return (data, f1, title, used or "none", best, f1 - best, published.gain(data))


def goals(found: Found, options: Options) -> cv.Table:
    """The goal, and the reference scores below it."""
    groups = group(found, "data", "model", "variant", "encoder")
    rows = []
    for data in options.data:
        for encoder in options.encoders:
            for recipe in recipes.NAMES:
                seeds = groups.get((data, OURS, recipe, encoder))
                if not seeds:
                    continue
                gain = _gain(data, encoder, recipe, found)
                references = [gain[4] if gain else None]
                references += [known.get((data, encoder)) for known in (published.PUBLISHED, published.YARDSTICK)]
                f1, goal = mean_of(seeds), published.main_scores(PAPER, data)[0]
                above = all(f1 > reference for reference in references if reference is not None)
                rows.append((data, encoder, recipe, f1, goal, *references, above, None if goal is None else f1 >= goal))
    references = ("best baseline", "published code", "yardstick")
    return cv.Table(
        title="Goal and reference scores",
        columns=("data", "encoder", "recipe", "F1", "goal", *references, "above references", "goal met"),
        rows=rows,
        formats=dict.fromkeys(("F1", "goal", *references), ".2f"),
        notes=(
            "goal: the paper's F1; published code: the authors' code on these features with raised "
            "learning rates, one seed; yardstick: span union and an MLP trained on it; both measured earlier",
        ),
    )


def recall_page(options: Options) -> None:
    """Part `recall`: Sparse-CHMM against the oracle that only chooses among the sources."""
    found = run_jobs(jobs(options, OURS, "best-consensus"), options)
    groups = group(found, "data", "model", "variant", "encoder")
    rows = []
    for data in options.data:
        oracle = mean_of(groups.get((data, "best-consensus", "", ""), []), "recall")
        paper = [published.main_scores(name, data)[2] for name in (PAPER, "Best consensus")]
        for encoder in options.encoders:
            for recipe in recipes.NAMES:
                if seeds := groups.get((data, OURS, recipe, encoder)):
                    recall = mean_of(seeds, "recall")
                    ours = (data, encoder, recipe, recall, spread_of(seeds, "recall"), oracle)
                    beyond, gold = mean_of(seeds, "beyond_consensus"), seeds[0]["test"]["gold"]
                    rows.append((*ours, recall - oracle, beyond, gold, *paper))
    columns = ("recall", "±", "best consensus", "difference")
    table = cv.Table(
        title="Recall of Sparse-CHMM and of best consensus",
        columns=(
            *("data", "encoder", "recipe", *columns, "beyond consensus", "of gold spans"),
            *("paper recall", "paper best consensus"),
        ),
        rows=rows,
        formats={
            **dict.fromkeys((*columns[:3], "paper recall", "paper best consensus"), ".2f"),
            "difference": "+.2f",
            "beyond consensus": ".1f",
        },
        notes=(
            "beyond consensus: correct spans that best consensus, which chooses among the sources' "
            "labels by gold, does not have; mean over seeds",
        ),
    )
    above = [f"{row[0]} ({row[1]}, {row[2]})" for row in rows if row[6] > 0]
    line = f"Recall above the oracle's: {', '.join(above) or 'nowhere'}."
    options.write_page("paper/recall", "Recall beyond the sources", [MEASURE, table, line], found)
