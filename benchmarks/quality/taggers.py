"""End models: taggers trained on labels made without gold, compared with the label models that made them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import convener as cv
from benchmarks.harness.data import splits
from benchmarks.harness.jobs import Job, Options, group, run_jobs, score
from benchmarks.harness.results import MEASURE, Row, mean_of, provenance, spread_of
from benchmarks.paper import main_results, recipes
from convener.config import config_to_dict

SEEDS = {"frozen": 5, "finetuned": 1}
"""Seeds by kind of tagger; fine-tuning takes an hour of one core, so one seed must do."""
DEFAULT_TEACHER, TEACHERS = "dws", {"CoNLL": "sparse-chmm"}
"""Label models that provide the training labels: on each data set the better one on gold of valid,
which nothing else uses."""
REFERENCE = "bert-ner"


@dataclass(frozen=True, kw_only=True)
class TaggerJob(Job):
    """One label model, fitted without gold, and one tagger trained on its labels; `variant` is its kind."""

    @property
    def estimator_class(self) -> Any:
        return cv.get_tagger(self.variant)

    def build(self) -> Any:
        return self.estimator_class(seed=self.seed, encoder=self.encoder, **self.settings)

    def run(self) -> Row:
        """Fit both; gold is used for their scores alone."""
        data, tagger = splits(self.data, self.encoder), self.build()
        teacher = cv.get_model(self.model)(seed=self.seed).fit(data.train, data.valid, use_valid_gold=False)
        labels = [teacher.predict(part) for part in (data.train, data.valid)]
        wall, cpu = time.perf_counter(), time.process_time()
        tagger.fit(*labels, checkpoint_dir=self.checkpoint_dir)
        return {
            **self.fields,
            "settings": config_to_dict(tagger.config),
            "gold": "none",
            "valid": score(tagger, data.valid),
            "test": score(tagger, data.test),
            "teacher": score(teacher, data.test),
            "seconds": round(time.perf_counter() - wall, 3),
            "cpu_seconds": round(time.process_time() - cpu, 3),
            **provenance(),
        }


def jobs(options: Options) -> Iterator[TaggerJob]:
    """Every kind of tagger on every data set and encoder; smoke tests fine-tune nothing."""
    for kind, count in SEEDS.items():
        finetunes = kind == "finetuned"
        if finetunes and options.smoke is not None:
            continue
        for data in options.data:
            for encoder in options.encoders:
                for seed in options.seeds_for(count):
                    yield TaggerJob(
                        part="quality/taggers",
                        data=data,
                        model=TEACHERS.get(data, DEFAULT_TEACHER),
                        variant=kind,
                        encoder=encoder,
                        seed=seed,
                        use_valid_gold=False,
                        finetunes=finetunes,
                        settings=recipes.FINETUNING[encoder] if finetunes else {},
                    )


def page(options: Options) -> None:
    """Part `taggers`: test F1 of the label model, its tagger, and the same tagger trained on gold."""
    found = run_jobs(jobs(options), options)
    references = run_jobs(main_results.jobs(options, REFERENCE, "majority-vote"), options)
    by_model = group(references, "data", "model", "variant", "encoder")
    rows = []
    for (data, model, kind, encoder), seeds in group(found, "data", "model", "variant", "encoder").items():
        vote = mean_of(by_model.get((data, "majority-vote", "io", ""), []))
        gold = mean_of(by_model.get((data, REFERENCE, kind, encoder), []))
        teacher = sum(100 * each["teacher"]["f1"] for each in seeds) / len(seeds)
        f1 = mean_of(seeds)
        seconds = sum(each["cpu_seconds"] for each in seeds) / len(seeds)
        scores = (data, encoder, kind, vote, model, teacher, f1, spread_of(seeds), len(seeds))
        rows.append((*scores, f1 - teacher, gold, gold - teacher, seconds))
    percentages = ("majority vote", "its F1", "tagger", "±", "on gold")
    table = cv.Table(
        title="Taggers on text alone, and label models with the votes of the same sentences",
        columns=(
            *("data", "encoder", "kind", "majority vote", "label model", "its F1", "tagger", "±"),
            *("seeds", "difference", "on gold", "difference ", "seconds"),
        ),
        rows=rows,
        formats={
            **dict.fromkeys(percentages, ".2f"),
            **dict.fromkeys(("difference", "difference "), "+.2f"),
            "seconds": ".0f",
        },
        notes=(
            "difference: to the label model that made its training labels; on gold: the same tagger "
            "trained on gold of train, a reference; seconds: CPU time to train the tagger",
        ),
    )
    options.write_page("quality/taggers", "Taggers trained without gold", [MEASURE, table], found)
