"""Result files: rows as JSON Lines, pages as Markdown, figures as SVG, each with its provenance."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

import convener as cv
from convener.cache import cache_dir
from convener.storage import atomic_write

RESULTS = Path(__file__).parents[1] / "results"
PACKAGES = ("torch", "numba", "transformers")
"""Packages whose versions are recorded with every fit."""
KEY = ("data", "perturbation", "encoder", "model", "variant", "seed")
"""Fields that identify a fit within its part."""
MISSING = "-"
MEASURE = (
    "Entity level, micro average, conlleval mode (seqeval's default, as in the paper), in percent. "
    "±: standard deviation over seeds (n - 1)."
)
Row = dict[str, Any]
Block = cv.Table | str | Path | None


def row_key(row: Mapping[str, Any]) -> str:
    """The name of a fit: its key fields that are not empty.

    >>> row_key({"data": "CoNLL", "perturbation": "", "encoder": "", "model": "hmm", "variant": "", "seed": 0})
    'CoNLL_hmm_seed0'
    """
    words = [row[name] for name in KEY[:-1]]
    return "_".join([*(word for word in words if word), f"seed{row['seed']}"])


class ResultFile:
    """The rows of one part in a JSON Lines file: one line per fit, sorted by key.

    `add` replaces the whole file atomically and under a lock, so several processes can add to it
    and a killed one loses at most the fit in progress.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Row]:
        """All rows by key; empty where there is no file."""
        if not self.path.is_file():
            return {}
        lines = self.path.read_text(encoding="utf-8").splitlines()
        return {row_key(row): row for row in map(json.loads, lines)}

    def add(self, row: Row) -> None:
        """Add a row, or replace the one with the same key."""
        digest = hashlib.sha256(str(self.path.resolve()).encode()).hexdigest()[:16]
        lock = cache_dir() / "benchmarks" / f"{digest}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(lock):
            write_rows(self.path, sorted((self.read() | {row_key(row): row}).items()))


def write_rows(path: Path, rows: Iterable[tuple[str, Row]]) -> None:
    """Write rows as JSON Lines, in the given order, whole or not at all."""
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for _, row in rows)
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")


def save_tables(
    results: Path,
    name: str,
    tables: Iterable[cv.Table],
    *,
    seed: int,
    packages: Iterable[str],
    note: str = "",
    figures: Sequence[Path] = (),
) -> Path:
    """Write the tables of a benchmark as `NAME.jsonl` and `NAME.md`; returns the page.

    Every line of the JSON Lines file is a table row with the table's title and provenance.
    """
    tables = list(tables)
    metadata = {
        "date": now(),
        "seed": seed,
        "machine": machine(),
        "versions": versions(packages),
    }
    records = [
        {"table": table.title, **record, "provenance": metadata} for table in tables for record in table.to_records()
    ]
    write_rows(results / f"{name}.jsonl", (("", record) for record in records))
    title = name.rpartition("/")[2]
    return write_page(results / f"{name}.md", title, [note, *figures, *tables], metadata)


def write_page(path: Path, title: str, blocks: Sequence[Block], metadata: Mapping[str, Any]) -> Path:
    """Write a page: tables, paragraphs and figures in this order, then the provenance."""
    lines = [f"# {title}", ""]
    for block in blocks:
        if isinstance(block, cv.Table):
            print(block, end="\n\n", flush=True)
            lines += [f"## {block.title}", *markdown(block), "", *(line for note in block.notes for line in (note, ""))]
        elif isinstance(block, Path):
            lines += [f"![{block.stem}]({block.name})", ""]
        elif block:
            print(block, end="\n\n", flush=True)
            lines += [block, ""]
    lines += ["## Provenance", *(f"- {key}: {as_text(value)}" for key, value in metadata.items())]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(path)
    return path


def markdown(table: cv.Table) -> list[str]:
    """The lines of a Markdown table; columns of numbers are right-aligned."""
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


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def machine() -> dict[str, Any]:
    """Processor, cores and operating system."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].partition(":")[2].strip() if names else cpu
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.system()}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of Python, convener, NumPy and these packages."""
    found = {"python": platform.python_version()}
    for name in ("convener", "numpy", *packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


@cache
def code_digest() -> str:
    """A digest of the code that determines the result of a fit."""
    digest = hashlib.sha256()
    root = Path(cv.__file__).parent
    for package in ("inference", "neural", "models", "taggers"):
        for path in sorted((root / package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def provenance() -> dict[str, Any]:
    """When, where and with what a fit was made."""
    return {
        "date": now(),
        "machine": machine(),
        "versions": versions(PACKAGES),
        "code": code_digest(),
    }


def page_provenance(rows: Sequence[Row]) -> dict[str, str]:
    """Provenance of a page made from these fits; fits made by other code are counted."""
    metadata = {"written": now()}
    if not rows:
        return metadata | {"machine": as_text(machine()), "versions": as_text(versions(PACKAGES))}
    dates = sorted(row["date"] for row in rows)
    codes = Counter(row["code"] for row in rows)
    return metadata | {
        "fits": f"{len(rows)}, made {dates[0]} to {dates[-1]}",
        "seeds": ", ".join(map(str, sorted({row["seed"] for row in rows}))),
        "encoders": ", ".join(sorted({row["encoder"] for row in rows} - {""})) or "none",
        "machine": "; ".join(Counter(as_text(row["machine"]) for row in rows)),
        "versions": "; ".join(Counter(as_text(row["versions"]) for row in rows)),
        "code": "; ".join(
            f"{name} ({count} fits{'' if name == code_digest() else ', not the code of this page'})"
            for name, count in codes.most_common()
        ),
    }


def as_text(value: Any) -> str:
    """A value for a page; mappings as "key value" pairs."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return str(value)


def mean_of(rows: Sequence[Row], metric: str = "f1", split: str = "test") -> float:
    """Mean over seeds: scores in percent, counts as they are; NaN without rows."""
    values = [row[split][metric] for row in rows]
    scale = 1 if metric in ("beyond_consensus", "gold") else 100
    return scale * float(np.mean(values)) if values else math.nan


def spread_of(rows: Sequence[Row], metric: str = "f1", split: str = "test") -> float:
    """Standard deviation over seeds, in percent; NaN for a single one."""
    values = [100 * row[split][metric] for row in rows]
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def pyplot() -> Any:
    """Matplotlib, set up to write reproducible SVG files; None if it is not installed."""
    try:
        import matplotlib as mpl
    except ImportError:
        print("matplotlib is not installed; figures are skipped", file=sys.stderr)
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


def save_figure(figure: Any, path: Path) -> Path:
    """Write a figure as SVG and close it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight")
    pyplot().close(figure)
    return path
