"""The main results: every model on every data set, beside the paper's figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import convener as cv
from benchmarks import pages
from benchmarks.jobs import Job, Options, Outcome, grouped, outcomes
from benchmarks.pages import mean_of, spread_of
from benchmarks.paper import figures, recipes

SEEDS = 5
Found = list[tuple[Job, Outcome]]


class Row(NamedTuple):
    """A line of the table of main results."""

    title: str
    model: str
    variant: str = ""
    paper: str = ""
    """Its name in the paper."""
    weak: bool = True
    """Whether it is a baseline that Sparse-CHMM should beat: one without what we added to it."""
    seeds: int = SEEDS
    """At most so many, where a fit takes long."""


OURS, PAPER = "sparse-chmm", "Sparse-CHMM"
ROWS = (
    Row("majority vote (IO)", "majority-vote", "io", "MV"),
    Row("span union", "majority-vote", "span"),
    Row("Dawid-Skene", "dawid-skene"),
    Row("Snorkel", "snorkel", "", "Snorkel"),
    Row("HMM", "hmm", "", "HMM"),
    Row("linked HMM", "linked-hmm"),
    Row("Bayesian sequence combination", "bsc"),
    Row("CHMM", "chmm", "", "CHMM"),
    Row("CHMM, no gold", "chmm", "free", "CHMM"),
    Row("DWS", "dws", weak=False),
    Row("DWS, no gold", "dws", "free", weak=False),
    Row("DWS, nothing added", "dws", "paper"),
    Row("ConNet", "connet", "", "ConNet", weak=False),
    Row("ConNet, no gold", "connet", "free", "ConNet", weak=False),
    Row("ConNet, features alone", "connet", "alone", "ConNet"),
    Row("ConNet, features alone, silence is O", "connet", "paper", "ConNet"),
    Row("ALT, no gold", "alt", "free", weak=False, seeds=1),
    Row("Sparse-CHMM, ours", OURS, "ours", PAPER, weak=False),
    Row("Sparse-CHMM, no gold", OURS, "free", PAPER, weak=False),
    Row("Sparse-CHMM, the paper's settings", OURS, "paper", PAPER, weak=False),
    Row("best consensus", "best-consensus", "", "Best consensus", weak=False),
    Row("CHMM-FE", "chmm-fe", "", "CHMM-FE", weak=False),
    Row("BERT-NER, frozen features", "bert-ner", "frozen", "BERT-NER", weak=False),
    Row("BERT-NER, fine-tuned", "bert-ner", "finetuned", "BERT-NER", weak=False, seeds=1),
)


def jobs(options: Options, *models: str) -> Iterator[Job]:
    """The fits of the main results, or those of some models only.

    Models without features have nothing random in them, and are fitted once.
    """
    for data in options.data:
        for encoder in ("", *options.encoders):
            for row in ROWS:
                needed = row.model in cv.list_models() and cv.get_model(row.model).needs_features
                if bool(encoder) == needed and (not models or row.model in models):
                    yield from _seeds(row, data, encoder, options)


def _seeds(row: Row, data: str, encoder: str, options: Options) -> Iterator[Job]:
    if row.model == OURS:
        settings = recipes.settings(row.variant, data, encoder)
    else:
        settings = recipes.others(row.model, row.variant, encoder)
    for seed in options.seeds_for(SEEDS)[: row.seeds] if encoder else (0,):
        yield Job(
            part="paper/main",
            data=data,
            model=row.model,
            variant=row.variant,
            encoder=encoder,
            seed=seed,
            free=row.variant == "free",
            slow=bool(settings.get("finetune")),
            settings=settings,
        )


def page(options: Options) -> None:
    """Part `main`."""
    found = outcomes(jobs(options), options)
    tables = [_table(data, found) for data in options.data]
    blocks = [pages.MEASURE, *tables, *gains(found, options), goals(found, options)]
    pages.write("paper/main", "Main results on test", blocks, found)


def _table(data: str, found: Found) -> cv.Table:
    """All models on one data set."""
    groups = grouped(found, "data", "model", "variant", "encoder")
    rows = []
    for row in ROWS:
        f1, precision, recall = figures.MAIN.get(row.paper, {}).get(data, (None,) * 3)
        for (name, model, variant, encoder), seeds in groups.items():
            if (name, model, variant) == (data, row.model, row.variant):
                means = [mean_of(seeds, figure) for figure in ("f1", "precision", "recall")]
                said = (row.title, encoder or "none", *means, spread_of(seeds), len(seeds))
                gap = None if f1 is None else round(means[0], 2) - f1
                rows.append((*said, seeds[0]["gold"], f1, precision, recall, gap))
    columns = ("model", "encoder", "F1", "precision", "recall", "±", "seeds", "gold seen")
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
                ours, theirs = (float(np.mean([row[n] for row in rows])) for n in (-2, -1))
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
                    f"the paper's average over its five data sets is {figures.GAIN}, its baselines "
                    f"are {', '.join(figures.WEAK)}; here all models above but the references",
                ),
            )


def _gain(data: str, encoder: str, recipe: str, found: Found) -> tuple | None:
    groups = grouped(found, "data", "model", "variant", "encoder")
    ours = groups.get((data, OURS, recipe, encoder))
    rivals = [
        (mean_of(groups[key]), row.title, key[3])
        for row in ROWS
        for key in ((data, row.model, row.variant, e) for e in ("", encoder))
        if row.weak and key in groups
    ]
    if not ours or not rivals:
        return None
    best, title, read = max(rivals)
    theirs = figures.MAIN[PAPER][data][0] - max(figures.MAIN[m][data][0] for m in figures.WEAK)
    f1 = mean_of(ours)
    return (data, f1, title, read or "none", best, f1 - best, theirs)


def goals(found: Found, options: Options) -> cv.Table:
    """The goal, and the floors below it."""
    groups = grouped(found, "data", "model", "variant", "encoder")
    rows = []
    for data in options.data:
        for encoder in options.encoders:
            for recipe in recipes.NAMES:
                seeds = groups.get((data, OURS, recipe, encoder))
                if not seeds:
                    continue
                gain = _gain(data, encoder, recipe, found)
                floors = [gain[4] if gain else None]
                floors += [known.get((data, encoder)) for known in (figures.PUBLISHED, figures.YARDSTICK)]
                f1, goal = mean_of(seeds), figures.MAIN[PAPER][data][0]
                above = all(f1 > floor for floor in floors if floor is not None)
                rows.append((data, encoder, recipe, f1, goal, *floors, above, f1 >= goal))
    floors = ("best baseline", "published code", "yardstick")
    return cv.Table(
        title="Goal and floors",
        columns=("data", "encoder", "recipe", "F1", "goal", *floors, "above floors", "goal met"),
        rows=rows,
        formats=dict.fromkeys(("F1", "goal", *floors), ".2f"),
        notes=(
            "goal: the paper's figure; published code: the authors' on these features with raised "
            "rates, one seed; yardstick: span union and an MLP trained on it; measured beforehand",
        ),
    )


def recall_page(options: Options) -> None:
    """Part `recall`: Sparse-CHMM against the oracle that only chooses among the sources."""
    found = outcomes(jobs(options, OURS, "best-consensus"), options)
    groups = grouped(found, "data", "model", "variant", "encoder")
    rows = []
    for data in options.data:
        oracle = mean_of(groups.get((data, "best-consensus", "", ""), []), "recall")
        paper = [figures.MAIN[name][data][2] for name in (PAPER, "Best consensus")]
        for encoder in options.encoders:
            for recipe in recipes.NAMES:
                if seeds := groups.get((data, OURS, recipe, encoder)):
                    recall = mean_of(seeds, "recall")
                    said = (data, encoder, recipe, recall, spread_of(seeds, "recall"), oracle)
                    beyond, gold = mean_of(seeds, "beyond"), seeds[0]["test"]["gold"]
                    rows.append((*said, recall - oracle, beyond, gold, *paper))
    figures_ = ("recall", "±", "best consensus", "difference")
    table = cv.Table(
        title="Recall of Sparse-CHMM and of best consensus",
        columns=(
            *("data", "encoder", "recipe", *figures_, "found beyond", "of gold spans"),
            *("paper recall", "paper best consensus"),
        ),
        rows=rows,
        formats={
            **dict.fromkeys((*figures_[:3], "paper recall", "paper best consensus"), ".2f"),
            "difference": "+.2f",
            "found beyond": ".1f",
        },
        notes=(
            "found beyond: right spans that no choice among the sources' labels could give, mean "
            "over seeds: the transitions found them",
        ),
    )
    above = [f"{row[0]} ({row[1]}, {row[2]})" for row in rows if row[6] > 0]
    line = f"Recall above the oracle's: {', '.join(above) or 'nowhere'}."
    pages.write("paper/recall", "Recall beyond the sources", [pages.MEASURE, table, line], found)
