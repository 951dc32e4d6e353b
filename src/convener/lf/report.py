"""What applying labeling functions gave, and what happened on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from convener.data import Dataset
from convener.io.report import Issues
from convener.lf.settle import INVALID
from convener.lf.work import FAILURES
from convener.tables import Table

ISSUE_KINDS = (INVALID, "misaligned", "overlap", *FAILURES)
"""What is counted of every function; others are counted where they occur."""


@dataclass(frozen=True, kw_only=True)
class LFStats:
    """How one function fared."""

    name: str
    num_spans: int
    abstained_texts: int
    """Texts on which it abstains."""
    seconds: float | None
    """Time it took, of all processes together; None where it did not run."""
    status: str
    """Whether it ran, and if it was not kept, why."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ApplyResult:
    """The votes of labeling functions, and a report of what happened."""

    data: Dataset
    stats: Sequence[LFStats]
    issues: Issues
    """Every span that was mended or left out, every failure: with its place and function."""

    def table(self) -> Table:
        """One row a function: what it marked, and how often what happened."""
        counts = Counter((issue.source, issue.kind) for issue in self.issues)
        kinds = [*ISSUE_KINDS, *sorted({kind for _, kind in counts} - set(ISSUE_KINDS))]
        return Table(
            title=f"Labeling functions on {len(self.data):,} sentences",
            columns=("function", "spans", "abstains", *kinds, "seconds", "how"),
            rows=[
                (
                    entry.name,
                    entry.num_spans,
                    entry.abstained_texts,
                    *(counts[entry.name, kind] for kind in kinds),
                    entry.seconds,
                    entry.status,
                )
                for entry in self.stats
            ],
            formats={"seconds": ".2f"},
        )

    def __str__(self) -> str:
        return str(self.table())
