"""Where caches lie, the digests that are their keys, and what of them may go."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from numpy.typing import NDArray

CACHE_DIR_VARIABLE = "CONVENER_CACHE"
BLOCK_SIZE = 1 << 20
SECONDS_PER_DAY = 24 * 3600.0


class CacheEntry(Protocol):
    """Something in a cache."""

    @property
    def size(self) -> int:
        """What it takes on disk."""

    @property
    def last_used(self) -> float:
        """When it was last used, in seconds since 1970."""


EntryT = TypeVar("EntryT", bound=CacheEntry)


def cache_dir() -> Path:
    """Where the cache lies: `CONVENER_CACHE`, or the system's place for caches."""
    if override := os.environ.get(CACHE_DIR_VARIABLE):
        return Path(override).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "convener"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "convener" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convener"


def resolve_cache_dir(cache: str | Path | bool) -> Path | None:
    """The folder that a setting `cache` means: the usual one, another, or none.

    >>> str(resolve_cache_dir("here")), resolve_cache_dir(False)
    ('here', None)
    """
    if isinstance(cache, bool):
        return cache_dir() if cache else None
    return Path(cache)


def compute_digest(*parts: bytes | str | Mapping[str, Any]) -> str:
    """One digest of all that decides something.

    >>> compute_digest("hashing", {"width": 64}) == compute_digest("hashing", {"width": 64})
    True
    """
    hasher = hashlib.sha256()
    for part in parts:
        if isinstance(part, Mapping):
            part = json.dumps(part, sort_keys=True)
        raw = part.encode() if isinstance(part, str) else part
        hasher.update(len(raw).to_bytes(8, "little") + raw)
    return hasher.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def arrays_digest(arrays: Iterable[NDArray[Any]]) -> bytes:
    """A digest of what arrays hold, wherever they lie in memory."""
    hasher = hashlib.sha256()
    for array in arrays:
        hasher.update(len(array).to_bytes(8, "little"))
        for start in range(0, len(array), BLOCK_SIZE):
            hasher.update(array[start : start + BLOCK_SIZE].tobytes())
    return hasher.digest()


def entries_to_prune(
    entries: Iterable[EntryT], *, older_than: float | None = None, max_bytes: float | None = None
) -> list[EntryT]:
    """What to remove, the last used first.

    older_than: what was not used for so many days. keep_bytes: of what then remains, the longest
    unused until no more is kept.
    """
    now, kept_bytes, to_remove = time.time(), 0, []
    for entry in sorted(entries, key=lambda entry: -entry.last_used):
        if older_than is not None and now - entry.last_used > older_than * SECONDS_PER_DAY:
            to_remove.append(entry)
            continue
        kept_bytes += entry.size
        if max_bytes is not None and kept_bytes > max_bytes:
            to_remove.append(entry)
    return to_remove
