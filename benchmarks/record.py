"""Results as files: date, seed, machine and versions beside every figure."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from convener.data.tables import Table

RESULTS = Path(__file__).parent / "results"
DATA = Path(os.environ.get("CONVENER_DATA", Path(__file__).parents[2] / "shared" / "data"))
"""Where the real data sets are."""


def save(name: str, tables: Iterable[Table], *, seed: int, packages: Iterable[str], note: str = "") -> Path:
    """Write the tables as JSON and Markdown under `benchmarks/results`; returns the Markdown."""
    tables = list(tables)
    now = datetime.now(UTC)
    facts: dict[str, Any] = {
        "benchmark": name,
        "date": now.isoformat(timespec="seconds"),
        "seed": seed,
        "machine": machine(),
        "versions": versions(packages),
        "note": note,
    }
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / f"{name}-{now:%Y-%m-%d}"
    content = facts | {"tables": {table.title: table.to_records() for table in tables}}
    stem.with_suffix(".json").write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    lines = [f"# {name}", note, ""]
    for table in tables:
        lines += [f"## {table.title}", "```", str(table), "```", ""]
    lines += [f"- {key}: {_spoken(value)}" for key, value in facts.items() if key != "note"]
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return stem.with_suffix(".md")


def machine() -> dict[str, Any]:
    """What a figure depends on."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].partition(":")[2].strip() if names else cpu
    return {"cpu": cpu, "cores": os.cpu_count(), "system": platform.system()}


def peak_memory() -> int:
    """The most resident memory this process has had, in bytes; what it was forked from apart."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return 1024 * int(line.split()[1])


def forget_peak() -> None:
    """Count peak memory from here on."""
    Path("/proc/self/clear_refs").write_text("5")


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of Python and of these packages."""
    found = {"python": platform.python_version()}
    for name in ("convener", "numpy", *packages):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _spoken(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return str(value)
