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

VARIABLE = "CONVENER_CACHE"
BLOCK = 1 << 20
DAY = 24 * 3600.0


class Entry(Protocol):
    """Something in a cache."""

    @property
    def bytes(self) -> int:
        """What it takes on disk."""

    @property
    def used(self) -> float:
        """When it was last used, in seconds since 1970."""


E = TypeVar("E", bound=Entry)


def root() -> Path:
    """Where the cache lies: `CONVENER_CACHE`, or the system's place for caches."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "convener"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "convener" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convener"


def chosen(cache: str | Path | bool) -> Path | None:
    """The folder that a setting `cache` means: the usual one, another, or none.

    >>> str(chosen("here")), chosen(False)
    ('here', None)
    """
    if isinstance(cache, bool):
        return root() if cache else None
    return Path(cache)


def digest_of(*parts: bytes | str | Mapping[str, Any]) -> str:
    """One digest of all that decides something.

    >>> digest_of("hashing", {"width": 64}) == digest_of("hashing", {"width": 64})
    True
    """
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, Mapping):
            part = json.dumps(part, sort_keys=True)
        raw = part.encode() if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8, "little") + raw)
    return total.hexdigest()


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_arrays(arrays: Iterable[NDArray[Any]]) -> bytes:
    """A digest of what arrays hold, wherever they lie in memory."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(len(array).to_bytes(8, "little"))
        for start in range(0, len(array), BLOCK):
            total.update(array[start : start + BLOCK].tobytes())
    return total.digest()


def prunable(
    found: Iterable[E], *, older_than: float | None = None, keep_bytes: float | None = None
) -> list[E]:
    """What to remove, the last used first.

    older_than: what was not used for so many days. keep_bytes: of what then remains, the longest
    unused until no more is kept.
    """
    now, kept, gone = time.time(), 0, []
    for entry in sorted(found, key=lambda entry: -entry.used):
        if older_than is not None and now - entry.used > older_than * DAY:
            gone.append(entry)
            continue
        kept += entry.bytes
        if keep_bytes is not None and kept > keep_bytes:
            gone.append(entry)
    return gone
