"""`python -m benchmarks.quality [PART ...]`: is one setting, without gold, good everywhere?

All parts by default. Fits are stored as rows of `benchmarks/results/quality/PART.jsonl`: a run that
was stopped continues where it ended. On two cores all of it takes about three hours, a third of
that where the fits of `benchmarks.paper main` are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import cli
from benchmarks.harness.results import RESULTS
from benchmarks.paper import recipes
from benchmarks.quality import models, segments, stress, taggers

PARTS: dict[str, cli.Part] = {
    "segments": segments.page,
    "stress": stress.page,
    "models": models.page,
    "calibration": models.calibration_page,
    "sources": models.sources_page,
    "taggers": taggers.page,
}


def main(argv: Sequence[str] | None = None, *, results: Path = RESULTS) -> int:
    """Run the command line."""
    return cli.run_parts(
        "quality", __doc__, PARTS, recipes=recipes.NAMES, smoke=recipes.SMOKE, argv=argv, results=results
    )
