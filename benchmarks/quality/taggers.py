"""End models: taggers that learned from labels without gold, beside the models that taught them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import convener as cv
from benchmarks import pages
from benchmarks.jobs import Job, Options, Outcome, grouped, outcomes, provenance, score_of, splits
from benchmarks.pages import mean_of, spread_of
from benchmarks.paper import recipes, results
from convener.config import config_to_dict

SEEDS = {"frozen": 5, "finetuned": 1}
"""By kind; one that takes an hour of a core must do with one seed."""
USUAL, TEACHERS = "dws", {"CoNLL": "sparse-chmm"}
"""Which label model teaches: the better one of both on gold of valid, which nothing else sees."""
REFERENCE = "bert-ner"


@dataclass(frozen=True, kw_only=True)
class TaggerJob(Job):
    """One label model, fitted without gold, and one tagger that learns from it."""

    kind: str

    def model_for(self) -> Any:
        """The tagger, set up."""
        return cv.tagger.get_tagger(self.kind)(seed=self.seed, encoder=self.encoder, **self.settings)

    def outcome(self) -> Outcome:
        """Fit both; gold is read for their figures alone."""
        data, tagger = splits(self.data, self.encoder), self.model_for()
        teacher = cv.get_model(self.model)(seed=self.seed).fit(data.train, data.valid, use_valid_gold=False)
        taught = [teacher.predict(part) for part in (data.train, data.valid)]
        wall, cpu = time.perf_counter(), time.process_time()
        tagger.fit(*taught, journal=self.journal)
        return {
            "job": asdict(self),
            "settings": config_to_dict(tagger.config),
            "gold": "none",
            "valid": score_of(tagger, data.valid),
            "test": score_of(tagger, data.test),
            "teacher": score_of(teacher, data.test),
            "seconds": round(time.perf_counter() - wall, 3),
            "cpu_seconds": round(time.process_time() - cpu, 3),
            **provenance(),
        }


def jobs(options: Options) -> Iterator[TaggerJob]:
    """Every kind of tagger on every data set and encoder."""
    for kind, count in SEEDS.items():
        for data in options.data:
            for encoder in options.encoders:
                for seed in options.seeds_for(count):
                    slow = kind == "finetuned"
                    yield TaggerJob(
                        part="quality/taggers",
                        data=data,
                        model=TEACHERS.get(data, USUAL),
                        variant=kind,
                        encoder=encoder,
                        seed=seed,
                        free=True,
                        slow=slow,
                        kind=kind,
                        settings={"epochs": recipes.EPOCHS[encoder]} if slow else {},
                    )


def page(options: Options) -> None:
    """Part `taggers`: test F1 of the label model, its tagger, and the same tagger on gold."""
    found = outcomes(jobs(options), options)
    known = outcomes(results.jobs(options, REFERENCE, "majority-vote"), options)
    true = grouped(known, "data", "model", "variant", "encoder")
    rows = []
    for (data, model, kind, encoder), seeds in grouped(found, "data", "model", "variant", "encoder").items():
        vote = mean_of(true.get((data, "majority-vote", "io", ""), []))
        gold = mean_of(true.get((data, REFERENCE, kind, encoder), []))
        taught = sum(100 * each["teacher"]["f1"] for each in seeds) / len(seeds)
        f1 = mean_of(seeds)
        seconds = sum(each["cpu_seconds"] for each in seeds) / len(seeds)
        said = (data, encoder, kind, vote, model, taught, f1, spread_of(seeds), len(seeds))
        rows.append((*said, f1 - taught, gold, gold - taught, seconds))
    figures = ("majority vote", "its F1", "tagger", "±", "on gold")
    table = cv.Table(
        title="Taggers on text alone, and label models with the votes of the same sentences",
        columns=(
            *("data", "encoder", "kind", "majority vote", "label model", "its F1", "tagger", "±"),
            *("seeds", "difference", "on gold", "difference ", "seconds"),
        ),
        rows=rows,
        formats={
            **dict.fromkeys(figures, ".2f"),
            **dict.fromkeys(("difference", "difference "), "+.2f"),
            "seconds": ".0f",
        },
        notes=(
            "difference: to the label model that taught it; on gold: the same tagger trained on "
            "gold of train, a reference; seconds: of CPU, to train the tagger",
        ),
    )
    pages.write("quality/taggers", "Taggers trained without gold", [pages.MEASURE, table], found)
