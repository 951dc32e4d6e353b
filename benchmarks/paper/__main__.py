"""`python -m benchmarks.paper [PART ...]`: the tables and figures of the Sparse-CHMM paper.

All parts by default. Every fit is kept in a file of its own under `benchmarks/results/paper`:
a run that was stopped goes on where it ended, and what is there is not made again unless its
settings have changed. See `docs/reproduction.md`.
"""

from __future__ import annotations

import os
import sys

# Two pools of threads that take turns must not wait for each other awake.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from benchmarks import command
from benchmarks.paper import (
    ablation,
    curves,
    datasets,
    efficiency,
    emissions,
    exponents,
    reliability,
    results,
)

PARTS: dict[str, command.Part] = {
    "statistics": datasets.page,
    "curves": curves.page,
    "main": results.page,
    "recall": results.recall_page,
    "epochs": efficiency.epochs_page,
    "reliability": reliability.page,
    "ablation": ablation.page,
    "emissions": emissions.page,
    "efficiency": efficiency.page,
    "exponents": exponents.page,
}


if __name__ == "__main__":
    sys.exit(command.run("paper", __doc__, PARTS))
