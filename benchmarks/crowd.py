"""`python -m benchmarks.crowd`: F1 and estimated worker quality on generated crowds, five seeds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import convener as cv
from benchmarks.harness.cli import simple_parser
from benchmarks.harness.results import RESULTS, save_tables
from tests.helpers.crowd import STATISTICS, CrowdConfig, make_crowd, score_model

MODELS = ("majority-vote", "dawid-skene", "snorkel", "bsc")
SMOKE = CrowdConfig(documents=50, length=20, workers=8, annotated=0.4, spans=2.0)
NOTE = (
    "F1 by span against the generated gold, fitted and predicted on the same documents, gold hidden. "
    "Rank correlation: Spearman's, over the workers, of the true F1 by span and the F1 that "
    "reliability() estimates (mean over the types a worker gives). Spammers found: share of the true "
    f"spammers among as many workers with the lowest estimates. Crowd: {STATISTICS}."
)


def table(title: str, form: str, values: np.ndarray) -> cv.Table:
    """One row per seed, one column per model.  values (seeds, models)"""
    rows = [[str(seed), *row] for seed, row in enumerate(values.tolist())]
    rows += [["mean", *values.mean(axis=0).tolist()]]
    return cv.Table(title=title, columns=("seed", *MODELS), rows=rows, formats=dict.fromkeys(MODELS, form))


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line."""
    parser = simple_parser("crowd", __doc__)
    parser.add_argument("--seeds", type=int, default=5, help="number of crowds")
    args = parser.parse_args(argv)
    seeds, config = (1, SMOKE) if args.smoke else (args.seeds, CrowdConfig())
    crowds = [make_crowd(seed, config) for seed in range(seeds)]
    scores = np.array([[score_model(crowd, name) for name in MODELS] for crowd in crowds])
    tables = [
        table("F1", ".3f", scores[..., 0]),
        table("Rank correlation of estimated and true worker F1", ".3f", scores[..., 1]),
        table("Share of the spammers found", ".2f", scores[..., 2]),
    ]
    save_tables(results, "crowd/crowd", tables, seed=0, packages=["numba"], note=NOTE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
