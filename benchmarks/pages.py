"""Pages: Markdown tables and plots under `results`, with what they depend on below."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import convener as cv
from benchmarks.jobs import PACKAGES, Job, Outcome, code
from benchmarks.record import RESULTS, machine, versions

Block = cv.Table | str | Path | None
MISSING = "-"
MEASURE = (
    "Entity level, micro average, conlleval mode (seqeval's default, as in the paper), in percent. "
    "±: standard deviation over seeds (n - 1)."
)


def write(part: str, title: str, blocks: Sequence[Block], found: Sequence[tuple[Job, Outcome]] = ()) -> Path:
    """One page: tables, lines and plots in this order, then facts. Prints the tables, too."""
    lines = [f"# {title}", ""]
    for block in blocks:
        if isinstance(block, cv.Table):
            print(block, end="\n\n", flush=True)
            lines += [f"## {block.title}", *markdown(block), "", *_notes(block)]
        elif isinstance(block, Path):
            lines += [f"![{block.stem}]({block.name})", ""]
        elif block:
            print(block, end="\n\n", flush=True)
            lines += [block, ""]
    lines += ["## Facts", *(f"- {key}: {value}" for key, value in facts(found).items())]
    path = RESULTS / f"{part}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(path)
    return path


def _notes(table: cv.Table) -> list[str]:
    return [line for note in table.notes for line in (note, "")]


def markdown(table: cv.Table) -> list[str]:
    """The lines of a Markdown table; numbers to the right."""
    formats = [table.formats.get(name, ".4g") for name in table.columns]
    right = [all(not isinstance(row[n], str) for row in table.rows) for n in range(len(formats))]
    rows = [[_cell(*pair) for pair in zip(row, formats, strict=True)] for row in table.rows]
    marks = ["---:" if numeric else "---" for numeric in right]
    return ["| " + " | ".join(row) + " |" for row in (table.columns, marks, *rows)]


def _cell(value: Any, form: str) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return format(value, form)
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")


def facts(found: Sequence[tuple[Job, Outcome]]) -> dict[str, str]:
    """What the figures depend on; fits by other code than today's are counted."""
    lines = {"written": datetime.now(UTC).isoformat(timespec="seconds")}
    if found:
        seeds = sorted({job.seed for job, _ in found})
        dates = sorted(outcome["date"] for _, outcome in found)
        versions_seen = Counter(_spoken(outcome["versions"]) for _, outcome in found)
        machines = Counter(_spoken(outcome["machine"]) for _, outcome in found)
        codes = Counter(outcome["code"] for _, outcome in found)
        lines |= {
            "fits": f"{len(found)}, made {dates[0]} to {dates[-1]}",
            "seeds": ", ".join(map(str, seeds)),
            "encoders": ", ".join(sorted({job.encoder for job, _ in found} - {""})) or "none",
            "machine": "; ".join(machines),
            "versions": "; ".join(versions_seen),
            "code": "; ".join(
                f"{name} ({count} fits{'' if name == code() else ', not the code of this page'})"
                for name, count in codes.most_common()
            ),
        }
    else:
        lines |= {"machine": _spoken(machine()), "versions": _spoken(versions(PACKAGES))}
    return lines


def _spoken(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())


def mean_of(outcomes: Sequence[Outcome], figure: str = "f1", split: str = "test") -> float:
    """Mean over seeds, in percent; counts stay as they are. NaN where there is nothing."""
    values = [outcome[split][figure] for outcome in outcomes]
    scale = 1 if figure in ("beyond", "gold") else 100
    return scale * float(np.mean(values)) if values else math.nan


def spread_of(outcomes: Sequence[Outcome], figure: str = "f1", split: str = "test") -> float:
    """Standard deviation over seeds, in percent; NaN for a single one."""
    values = [100 * outcome[split][figure] for outcome in outcomes]
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def pyplot() -> Any:
    """Matplotlib, drawing small files that do not change without reason; None without it."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("matplotlib is not installed; plots are skipped", file=sys.stderr)
        return None
    mpl.use("svg")
    mpl.rcParams |= {
        "svg.hashsalt": "convener",
        "svg.fonttype": "none",
        "font.size": 8,
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    import matplotlib.pyplot as plt

    return plt


def save_plot(figure: Any, name: str) -> Path:
    """Write a figure as SVG beside the pages."""
    path = RESULTS / f"{name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    pyplot().close(figure)
    return path
