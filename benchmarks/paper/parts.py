"""`python -m benchmarks.paper [PART ...]`: the tables and figures of the Sparse-CHMM paper.

All parts by default. Every fit is stored as a row of `benchmarks/results/paper/PART.jsonl`: a run
that was stopped continues where it ended, and a stored fit is not made again unless its settings
have changed. See `docs/reproduction.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import cli
from benchmarks.harness.results import RESULTS
from benchmarks.paper import (
    ablation,
    curves,
    datasets,
    efficiency,
    emissions,
    exponents,
    main_results,
    recipes,
    reliability,
)

PARTS: dict[str, cli.Part] = {
    "statistics": datasets.page,
    "curves": curves.page,
    "main": main_results.page,
    "recall": main_results.recall_page,
    "epochs": efficiency.epochs_page,
    "reliability": reliability.page,
    "ablation": ablation.page,
    "emissions": emissions.page,
    "efficiency": efficiency.page,
    "exponents": exponents.page,
}


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line."""
    return cli.run_parts(
        "paper", __doc__, PARTS, recipes=recipes.NAMES, smoke=recipes.SMOKE, argv=argv, results=results
    )
