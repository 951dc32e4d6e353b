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

VIEWS_DIR, METADATA_FILE = "views", "view.json"
HOUR = 3600.0


def view_dir(folder: Path, key: str) -> Path:
    """The folder that a view has in a cache."""
    return folder / VIEWS_DIR / key[:32]


def write_metadata(view: Path, title: str, sentences: int) -> None:
    """Write what a view says of itself."""
    metadata = {"title": title, "sentences": sentences}
    (view / METADATA_FILE).write_text(json.dumps(metadata), encoding="utf-8")


def touch(view: Path) -> None:
    """Note that a view is used now; one that may only be read is fine."""
    with suppress(OSError):
        os.utime(view / METADATA_FILE)


@dataclass(frozen=True)
class ViewEntry:
    """One view in the cache."""

    folder: Path
    title: str
    sentences: int | None
    size: int
    last_used: float
    """When it was last used, in seconds since 1970."""

    @property
    def key(self) -> str:
        """Its name in the cache."""
        return self.folder.name

    @property
    def finished(self) -> bool:
        """Whether it is whole."""
        return not self.folder.name.startswith(".")


def entries(folder: Path) -> list[ViewEntry]:
    """All views in the cache, the last used first."""
    return sorted(_entries(folder / VIEWS_DIR), key=lambda entry: -entry.last_used)


def entries_to_prune(
    candidates: Iterable[ViewEntry],
    *,
    older_than: float | None = None,
    keep_bytes: float | None = None,
    unfinished: bool = False,
) -> list[ViewEntry]:
    """Which views to remove: see `caching.prunable`; unfinished: drafts that nobody writes on."""
    candidates = list(candidates)
    selected = caching.entries_to_prune(candidates, older_than=older_than, max_bytes=keep_bytes)
    if unfinished:
        threshold = time.time() - HOUR
        selected += [x for x in candidates if not x.finished and x.last_used < threshold and x not in selected]
    return selected


def remove(selected: Iterable[ViewEntry]) -> None:
    """Delete views; one that is being served is served on, from what is still open."""
    for entry in selected:
        try:
            shutil.rmtree(entry.folder)
        except FileNotFoundError:  # another process was faster
            continue
        except OSError as error:
            raise DataError(f"{entry.folder}: cannot be removed: {error.strerror}") from error


def _entries(folder: Path) -> Iterator[ViewEntry]:
    for view in folder.iterdir() if folder.is_dir() else ():
        if not view.is_dir():
            continue
        content: Any = None
        with suppress(OSError, ValueError):
            content = json.loads((view / METADATA_FILE).read_text(encoding="utf-8"))
        metadata = content if isinstance(content, dict) else {}
        with suppress(FileNotFoundError):  # finished or removed while one looks
            files = [file.stat() for file in view.rglob("*") if file.is_file()]
            yield ViewEntry(
                folder=view,
                title=str(metadata.get("title", "?")),
                sentences=metadata.get("sentences"),
                size=sum(file.st_size for file in files),
                last_used=max((file.st_mtime for file in files), default=view.stat().st_mtime),
            )
