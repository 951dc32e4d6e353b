"""The cache of features: computed once for each corpus, encoder and setting.

A key is a digest of the words and sentences, of the encoder with its settings, and of how the
numbers are stored. Sources, votes and gold do not matter: the same text is encoded once.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convener import caching
from convener.caching import digest_of, digest_of_arrays
from convener.data import Dataset
from convener.encode import store
from convener.encode.base import Encoder
from convener.errors import ConvenerWarning, DataError
from convener.features import Dtype, Features

FEATURES = "features"


def features_of(data: Dataset, encoder: Encoder, dtype: Dtype, folder: Path) -> Features:
    """The features of a dataset: from the cache, or computed and kept there."""
    place = place_of(data, encoder, dtype, folder)
    if place.is_dir():
        try:
            features = store.open_features(place)
        except DataError as error:
            warnings.warn(f"{error}; encoding again", ConvenerWarning, stacklevel=3)
            _delete(place)
        else:
            with suppress(OSError):  # when it was last used; a cache one may only read is fine
                os.utime(place / store.FACTS)
            return features
    store.write_features(place, data, encoder, dtype)
    return store.open_features(place)


def place_of(data: Dataset, encoder: Encoder, dtype: Dtype, folder: Path) -> Path:
    """The folder that a dataset's features have in the cache, once they are whole."""
    return folder / FEATURES / key_of(data, encoder, dtype)


def key_of(data: Dataset, encoder: Encoder, dtype: Dtype) -> str:
    """What decides the bytes of features, as one word."""
    encoding = encoder.encoding
    settings = {"version": store.VERSION, "dtype": dtype, "width": encoder.width}
    return digest_of(_digest_of_text(data), encoding.name, encoding.digest, settings)[:32]


def _digest_of_text(data: Dataset) -> bytes:
    """A digest of the words and of where sentences begin."""
    words = data.tokens.compact()
    return digest_of_arrays((words.data, words.offsets, data.offsets))


@dataclass(frozen=True)
class Entry:
    """One set of features in the cache, finished or not."""

    folder: Path
    encoder: str
    tokens: int | None
    sentences: int | None
    width: int | None
    dtype: str
    bytes: int
    used: float
    """When it was last used, in seconds since 1970."""
    busy: bool = False
    """Whether a process is writing it right now."""

    @property
    def key(self) -> str:
        """Its name in the cache."""
        return self.folder.name.removesuffix(store.PARTIAL)

    @property
    def finished(self) -> bool:
        """Whether it is whole."""
        return not self.folder.name.endswith(store.PARTIAL)


def entries(folder: Path) -> list[Entry]:
    """All features in the cache, the last used first."""
    return sorted(_entries(folder / FEATURES), key=lambda entry: -entry.used)


def _entries(folder: Path) -> Iterator[Entry]:
    for place in folder.iterdir() if folder.is_dir() else ():
        if not place.is_dir():
            continue
        facts: dict[str, Any] = {}
        with suppress(DataError):
            facts = store.read_facts(place)
        with suppress(FileNotFoundError):  # finished or removed while one looks
            files = [file.stat() for file in place.iterdir() if file.is_file()]
            yield Entry(
                folder=place,
                encoder=_name_in(facts),
                tokens=facts.get("tokens"),
                sentences=facts.get("sentences"),
                width=facts.get("width"),
                dtype=facts.get("dtype", "?"),
                bytes=sum(file.st_size for file in files),
                used=max((file.st_mtime for file in files), default=place.stat().st_mtime),
                busy=place.name.endswith(store.PARTIAL) and store.is_being_written(place),
            )


def _name_in(facts: dict[str, Any]) -> str:
    encoding = facts.get("encoding")
    return str(encoding.get("name", "?")) if isinstance(encoding, dict) else "?"


def prunable(
    found: list[Entry],
    *,
    encoder: str | None = None,
    older_than: float | None = None,
    keep_bytes: float | None = None,
    unfinished: bool = False,
) -> list[Entry]:
    """Which entries to remove; each condition given takes some of what the others leave.

    encoder: those it made. older_than: not used for so many days. unfinished: those a kill left
    behind. keep_bytes: of what then remains, the longest unused until no more is kept. What a
    process is writing stays.
    """
    found = [entry for entry in found if not entry.busy]
    gone = {
        entry.folder
        for entry in found
        if entry.encoder == encoder or (unfinished and not entry.finished)
    }
    rest = [entry for entry in found if entry.folder not in gone]
    unused = caching.prunable(rest, older_than=older_than, keep_bytes=keep_bytes)
    gone |= {entry.folder for entry in unused}
    return [entry for entry in found if entry.folder in gone]


def remove(chosen: list[Entry]) -> int:
    """Delete entries; the bytes that were freed."""
    for entry in chosen:
        _delete(entry.folder)
        if not entry.finished:
            store.lock_of(entry.folder).unlink(missing_ok=True)
    return sum(entry.bytes for entry in chosen)


def _delete(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:  # another process was faster
        pass
    except OSError as error:
        raise DataError(f"{folder}: cannot be removed: {error.strerror}") from error
