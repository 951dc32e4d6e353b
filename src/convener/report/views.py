"""Prepared views in the cache: what the viewer serves is made once, and can be listed and removed.

A view is a folder with the page, the sheet of its sentences, and a few facts about itself.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convener import caching
from convener.errors import DataError

VIEWS, FACTS = "views", "view.json"
HOUR = 3600.0


def place_of(folder: Path, key: str) -> Path:
    """The folder that a view has in a cache."""
    return folder / VIEWS / key[:32]


def note(view: Path, title: str, sentences: int) -> None:
    """Write what a view says of itself."""
    facts = {"title": title, "sentences": sentences}
    (view / FACTS).write_text(json.dumps(facts), encoding="utf-8")


def touch(view: Path) -> None:
    """Note that a view is used now; one that may only be read is fine."""
    with suppress(OSError):
        os.utime(view / FACTS)


@dataclass(frozen=True)
class Entry:
    """One view in the cache."""

    folder: Path
    title: str
    sentences: int | None
    bytes: int
    used: float
    """When it was last used, in seconds since 1970."""

    @property
    def key(self) -> str:
        """Its name in the cache."""
        return self.folder.name

    @property
    def finished(self) -> bool:
        """Whether it is whole."""
        return not self.folder.name.startswith(".")


def entries(folder: Path) -> list[Entry]:
    """All views in the cache, the last used first."""
    return sorted(_entries(folder / VIEWS), key=lambda entry: -entry.used)


def prunable(
    found: Iterable[Entry],
    *,
    older_than: float | None = None,
    keep_bytes: float | None = None,
    unfinished: bool = False,
) -> list[Entry]:
    """Which views to remove: see `caching.prunable`; unfinished: drafts that nobody writes on."""
    found = list(found)
    gone = caching.prunable(found, older_than=older_than, keep_bytes=keep_bytes)
    if unfinished:
        late = time.time() - HOUR
        gone += [x for x in found if not x.finished and x.used < late and x not in gone]
    return gone


def remove(chosen: Iterable[Entry]) -> None:
    """Delete views; one that is being served is served on, from what is still open."""
    for entry in chosen:
        try:
            shutil.rmtree(entry.folder)
        except FileNotFoundError:  # another process was faster
            continue
        except OSError as error:
            raise DataError(f"{entry.folder}: cannot be removed: {error.strerror}") from error


def _entries(folder: Path) -> Iterator[Entry]:
    for view in folder.iterdir() if folder.is_dir() else ():
        if not view.is_dir():
            continue
        facts: Any = None
        with suppress(OSError, ValueError):
            facts = json.loads((view / FACTS).read_text(encoding="utf-8"))
        known = facts if isinstance(facts, dict) else {}
        with suppress(FileNotFoundError):  # finished or removed while one looks
            files = [file.stat() for file in view.rglob("*") if file.is_file()]
            yield Entry(
                folder=view,
                title=str(known.get("title", "?")),
                sentences=known.get("sentences"),
                bytes=sum(file.st_size for file in files),
                used=max((file.st_mtime for file in files), default=view.stat().st_mtime),
            )
