"""The cache directory: its entries, which can be listed and pruned, and the lock of an entry that is being written."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open

from convener.errors import DataError

CACHE_DIR_VARIABLE = "CONVENER_CACHE_DIR"
"""Environment variable that names the cache directory."""
SECONDS_PER_HOUR, SECONDS_PER_DAY = 3600.0, 24 * 3600.0
FEATURES_DIR, VOTES_DIR, REPORTS_DIR = CACHE_KINDS = ("features", "votes", "reports")
"""Folders of the cache, each with one kind of entries."""
CACHE_METADATA_FILE = "metadata.json"
"""Describes a folder in the cache; its `label` is shown in lists."""
COLUMN_SUFFIX = ".safetensors"
"""Suffix of cached votes, which are files; all other entries are folders."""
PARTIAL_SUFFIX = ".partial"
"""Suffix of a folder that is still being written, or was left by an interrupted run."""


def cache_dir() -> Path:
    """Return the cache directory: `CONVENER_CACHE_DIR` if set, else the default of the operating system."""
    if override := os.environ.get(CACHE_DIR_VARIABLE):
        return Path(override).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "convener"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "convener" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convener"


def resolve_cache_dir(cache: str | Path | bool) -> Path | None:
    """Return the folder of a setting `cache`: the default for True, None for False, else the given folder.

    >>> str(resolve_cache_dir("here")), resolve_cache_dir(False)
    ('here', None)
    """
    if isinstance(cache, bool):
        return cache_dir() if cache else None
    return Path(cache)


@dataclass(frozen=True, kw_only=True)
class CacheEntry:
    """Features, votes or a prepared report in the cache, complete or not."""

    kind: str
    """Name of the folder in the cache: one of CACHE_KINDS."""
    path: Path
    label: str
    """The encoder, labeling function or run; "?" if it is not known."""
    size: int
    """Size on disk in bytes."""
    last_used: float
    """Time of the last use, in seconds since 1970."""
    in_use: bool = False
    """Whether a process is writing it now."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further values of `metadata.json`, such as the number of sentences."""

    @property
    def key(self) -> str:
        """Name of the entry in the cache."""
        return self.path.name.removesuffix(PARTIAL_SUFFIX).removesuffix(COLUMN_SUFFIX)

    @property
    def complete(self) -> bool:
        """Whether it was written completely."""
        return not _is_draft(self.path)


def list_cache(folder: Path) -> list[CacheEntry]:
    """Return the features, votes and prepared reports in a cache, most recently used first."""
    found = []
    for kind in CACHE_KINDS:
        for path in (folder / kind).iterdir() if (folder / kind).is_dir() else ():
            if path.is_dir() or path.suffix == COLUMN_SUFFIX:
                with suppress(FileNotFoundError):  # renamed or removed by another process
                    found.append(_read_entry(kind, path))
    return sorted(found, key=lambda entry: -entry.last_used)


def _read_entry(kind: str, path: Path) -> CacheEntry:
    metadata: Any = None
    with suppress(OSError, ValueError, LookupError, TypeError, SafetensorError):
        if path.is_dir():
            metadata = json.loads((path / CACHE_METADATA_FILE).read_text(encoding="utf-8"))
        else:
            with safe_open(path, framework="np") as file:
                metadata = {"label": json.loads(file.metadata()["label"])}
    metadata = metadata if isinstance(metadata, dict) else {}
    files = [file.stat() for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path.stat()]
    last_used = max((file.st_mtime for file in files), default=path.stat().st_mtime)
    return CacheEntry(
        kind=kind,
        path=path,
        label=str(metadata.get("label", "?")),
        size=sum(file.st_size for file in files),
        last_used=last_used,
        in_use=_is_being_written(path, last_used),
        details={name: value for name, value in metadata.items() if name != "label"},
    )


def _is_draft(path: Path) -> bool:
    """Whether a path is unfinished: a folder with a lock, or a temporary folder of `atomic_write`."""
    return path.name.endswith(PARTIAL_SUFFIX) or path.name.startswith(".")


def _is_being_written(path: Path, last_used: float) -> bool:
    """Whether a process is writing an entry: a folder with a lock while that is held, another draft for an hour."""
    if path.name.endswith(PARTIAL_SUFFIX):
        return is_locked(path)
    return _is_draft(path) and time.time() - last_used < SECONDS_PER_HOUR


def is_locked(draft: Path) -> bool:
    """Return whether a running process holds the lock of a folder, rather than an interrupted one."""
    path = lock_path(draft)
    if not path.is_file():
        return False
    try:
        with FileLock(path, timeout=0):
            return False
    except Timeout:
        return True
    except OSError:  # for example a read-only cache
        return False


def lock_path(draft: Path) -> Path:
    """Return the file that a process locks while it writes a folder."""
    return draft.with_suffix(".lock")


def entries_to_prune(
    entries: Iterable[CacheEntry],
    *,
    encoder: str | None = None,
    older_than: float | None = None,
    max_bytes: float | None = None,
    incomplete: bool = False,
) -> list[CacheEntry]:
    """Return the entries that meet any of the conditions; entries that are being written are never included.

    encoder     features of this encoder
    older_than  entries unused for more than this many days
    incomplete  entries left by interrupted runs
    max_bytes   the least recently used of the remaining entries, until at most this size is left
    """
    entries = [entry for entry in entries if not entry.in_use]
    now, kept_bytes, selected = time.time(), 0, []
    for entry in sorted(entries, key=lambda entry: -entry.last_used):
        if (
            (encoder is not None and entry.kind == FEATURES_DIR and entry.label == encoder)
            or (incomplete and not entry.complete)
            or (older_than is not None and now - entry.last_used > older_than * SECONDS_PER_DAY)
        ):
            selected.append(entry)
            continue
        kept_bytes += entry.size
        if max_bytes is not None and kept_bytes > max_bytes:
            selected.append(entry)
    return selected


def remove_entries(entries: Iterable[CacheEntry]) -> None:
    """Delete entries of the cache; what another process has removed is passed over."""
    for entry in entries:
        if entry.path.is_dir():
            remove_folder(entry.path)
        else:
            entry.path.unlink(missing_ok=True)
        if not entry.complete:
            lock_path(entry.path).unlink(missing_ok=True)


def remove_folder(folder: Path) -> None:
    """Delete a folder of the cache, unless another process has removed it."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise DataError(f"{folder}: cannot be removed: {error.strerror}") from error
