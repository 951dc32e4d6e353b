"""What applying labeling functions gave, and what happened on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from convener.data import Dataset
from convener.io.report import Report
from convener.lf.settle import INVALID
from convener.lf.work import FAILURES
from convener.tables import Table

KINDS = (INVALID, "misaligned", "overlap", *FAILURES)
"""What is counted of every function; others are counted where they occur."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """How one function fared."""

    name: str
    spans: int
    abstains: int
    """Texts on which it abstains."""
    seconds: float | None
    """Time it took, of all processes together; None where it did not run."""
    how: str
    """Whether it ran, and if it was not kept, why."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Applied:
    """The votes of labeling functions, and a report of what happened."""

    data: Dataset
    runs: Sequence[Run]
    report: Report
    """Every span that was mended or left out, every failure: with its place and function."""

    def table(self) -> Table:
        """One row a function: what it marked, and how often what happened."""
        counts = Counter((case.source, case.kind) for case in self.report)
        kinds = [*KINDS, *sorted({kind for _, kind in counts} - set(KINDS))]
        return Table(
            title=f"Labeling functions on {len(self.data):,} sentences",
            columns=("function", "spans", "abstains", *kinds, "seconds", "how"),
            rows=[
                (
                    run.name,
                    run.spans,
                    run.abstains,
                    *(counts[run.name, kind] for kind in kinds),
                    run.seconds,
                    run.how,
                )
                for run in self.runs
            ],
            formats={"seconds": ".2f"},
        )

    def __str__(self) -> str:
        return str(self.table())
