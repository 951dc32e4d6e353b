"""`python -m benchmarks.classic`: test F1 of every model that needs no features, three seeds.

No gold is used: models are fitted on the votes of train and measured once on test. Data sets that
are not there are skipped by name.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import convener as cv
from benchmarks.record import DATA, save

NAMES = ("LaptopReview", "NCBI-Disease", "BC5CDR", "CoNLL")
SEEDS = (0, 1, 2)
VARIANTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("majority-vote", {}),
    ("majority-vote", {"scheme": "span"}),
    ("dawid-skene", {}),
    ("snorkel", {}),
    ("hmm", {}),
    ("linked-hmm", {}),
    ("linked-hmm", {"both": True}),
    ("bsc", {}),
    ("best-consensus", {}),
)


def splits(path: Path) -> tuple[cv.Dataset, cv.Dataset]:
    """Train and test; where there is no train, it is the first 80 % of valid."""
    corpus = cv.read(path)
    train = corpus.train if "train" in corpus else corpus.valid.split(0.8)[0]
    return train, corpus.test


def main() -> None:
    """One table a data set, mean and spread over the seeds."""
    warnings.simplefilter("ignore", cv.ConvenerWarning)
    tables = []
    for name in NAMES:
        if not (DATA / name).is_dir():
            print(f"{name}: not in {DATA}; skipped", file=sys.stderr)
            continue
        train, test = splits(DATA / name)
        rows = []
        for model, settings in VARIANTS:
            figures, seconds = [], []
            for seed in SEEDS:
                begin = time.perf_counter()
                fitted = cv.get_model(model)(seed=seed, **settings).fit(train)
                seconds.append(time.perf_counter() - begin)
                score = cv.evaluate(fitted.predict(test), test)
                figures.append((score.precision, score.recall, score.f1))
            mean, spread = np.mean(figures, axis=0), np.std([f1 for *_, f1 in figures])
            said = ", ".join(f"{key}={value}" for key, value in settings.items())
            gold = "yes" if cv.get_model(model).supervised else "no"
            rows.append((model, said, *mean.tolist(), float(spread), gold, min(seconds)))
        tables.append(
            cv.Table(
                title=f"{name}, test, {len(SEEDS)} seeds",
                columns=(
                    "model",
                    "settings",
                    "precision",
                    "recall",
                    "F1",
                    "spread",
                    "sees gold",
                    "fit s",
                ),
                rows=rows,
                formats=dict.fromkeys(("precision", "recall", "F1", "spread"), ".2%"),
                notes=("entity level, conlleval mode; settings are the defaults unless named",),
            )
        )
        print(tables[-1], flush=True)
    print(save("classic", tables, seed=SEEDS[0], packages=["numba"]))


if __name__ == "__main__":
    main()
