"""CPU time of whole fits of Sparse-CHMM, three stages, features given."""

from __future__ import annotations

import sys
import time
from typing import Any

import convener as cv
from benchmarks.record import DATA

ENCODER = "minilm"
SEED = 1
# Data sets, and CPU seconds that a fit may take.
WANTED = {"NCBI-Disease": 30, "BC5CDR": 45}


def fits() -> cv.Table:
    """One row a data set that is there."""
    rows: list[list[Any]] = []
    for name, seconds in WANTED.items():
        if not (DATA / name).is_dir():
            print(f"{name}: {DATA / name} is not there; skipped", file=sys.stderr)
            continue
        corpus = cv.encode(cv.read(DATA / name), ENCODER)
        model = cv.get_model("sparse-chmm")
        model(seed=SEED, epochs=1).fit(corpus.train[:50], corpus.valid[:50])  # compiles
        begin = time.process_time()
        fitted = model(seed=SEED).fit(corpus.train, corpus.valid, use_valid_gold=True)
        spent = time.process_time() - begin
        f1 = cv.evaluate(fitted.predict(corpus.test), corpus.test).f1
        rows.append([name, len(corpus.train), len(corpus.train.tokens), spent, seconds, f1])
        print(rows[-1], flush=True)
    return cv.Table(
        title="Three stages, fit with validation gold for stopping",
        columns=["data", "sentences", "tokens", "CPU s", "at most", "test F1"],
        rows=rows,
        formats={"CPU s": ".1f", "test F1": ".2%"},
    )
