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
from convener.caching import arrays_digest, compute_digest
from convener.data import Dataset
from convener.encode import store
from convener.encode.base import Encoder
from convener.errors import ConvenerWarning, DataError
from convener.features import Dtype, Features

FEATURES_DIR = "features"


def load_or_encode(data: Dataset, encoder: Encoder, dtype: Dtype, cache_dir: Path) -> Features:
    """The features of a dataset: from the cache, or computed and kept there."""
    path = features_path(data, encoder, dtype, cache_dir)
    if path.is_dir():
        try:
            features = store.open_features(path)
        except DataError as error:
            warnings.warn(f"{error}; encoding again", ConvenerWarning, stacklevel=3)
            _delete(path)
        else:
            with suppress(OSError):  # when it was last used; a cache one may only read is fine
                os.utime(path / store.METADATA_FILE)
            return features
    store.write_features(path, data, encoder, dtype)
    return store.open_features(path)


def features_path(data: Dataset, encoder: Encoder, dtype: Dtype, cache_dir: Path) -> Path:
    """The folder that a dataset's features have in the cache, once they are whole."""
    return cache_dir / FEATURES_DIR / cache_key(data, encoder, dtype)


def cache_key(data: Dataset, encoder: Encoder, dtype: Dtype) -> str:
    """What decides the bytes of features, as one word."""
    spec = encoder.spec
    settings = {"version": store.VERSION, "dtype": dtype, "width": encoder.dim}
    return compute_digest(_text_digest(data), spec.name, spec.digest, settings)[:32]


def _text_digest(data: Dataset) -> bytes:
    """A digest of the words and of where sentences begin."""
    words = data.tokens.compact()
    return arrays_digest((words.data, words.offsets, data.offsets))


@dataclass(frozen=True)
class FeatureEntry:
    """One set of features in the cache, finished or not."""

    folder: Path
    encoder: str
    tokens: int | None
    sentences: int | None
    dim: int | None
    dtype: str
    size: int
    last_used: float
    """When it was last used, in seconds since 1970."""
    in_use: bool = False
    """Whether a process is writing it right now."""

    @property
    def key(self) -> str:
        """Its name in the cache."""
        return self.folder.name.removesuffix(store.PARTIAL_SUFFIX)

    @property
    def complete(self) -> bool:
        """Whether it is whole."""
        return not self.folder.name.endswith(store.PARTIAL_SUFFIX)


def entries(cache_dir: Path) -> list[FeatureEntry]:
    """All features in the cache, the last used first."""
    return sorted(_iter_entries(cache_dir / FEATURES_DIR), key=lambda entry: -entry.last_used)


def _iter_entries(folder: Path) -> Iterator[FeatureEntry]:
    for path in folder.iterdir() if folder.is_dir() else ():
        if not path.is_dir():
            continue
        metadata: dict[str, Any] = {}
        with suppress(DataError):
            metadata = store.read_metadata(path)
        with suppress(FileNotFoundError):  # finished or removed while one looks
            files = [file.stat() for file in path.iterdir() if file.is_file()]
            yield FeatureEntry(
                folder=path,
                encoder=_encoder_name(metadata),
                tokens=metadata.get("tokens"),
                sentences=metadata.get("sentences"),
                dim=metadata.get("width"),
                dtype=metadata.get("dtype", "?"),
                size=sum(file.st_size for file in files),
                last_used=max((file.st_mtime for file in files), default=path.stat().st_mtime),
                in_use=path.name.endswith(store.PARTIAL_SUFFIX) and store.is_being_written(path),
            )


def _encoder_name(metadata: dict[str, Any]) -> str:
    spec = metadata.get("encoding")
    return str(spec.get("name", "?")) if isinstance(spec, dict) else "?"


def entries_to_prune(
    candidates: list[FeatureEntry],
    *,
    encoder: str | None = None,
    older_than: float | None = None,
    max_bytes: float | None = None,
    incomplete: bool = False,
) -> list[FeatureEntry]:
    """Which entries to remove; each condition given takes some of what the others leave.

    encoder: those it made. older_than: not used for so many days. unfinished: those a kill left
    behind. keep_bytes: of what then remains, the longest unused until no more is kept. What a
    process is writing stays.
    """
    candidates = [entry for entry in candidates if not entry.in_use]
    selected = {entry.folder for entry in candidates if entry.encoder == encoder or (incomplete and not entry.complete)}
    rest = [entry for entry in candidates if entry.folder not in selected]
    unused = caching.entries_to_prune(rest, older_than=older_than, max_bytes=max_bytes)
    selected |= {entry.folder for entry in unused}
    return [entry for entry in candidates if entry.folder in selected]


def remove(selected: list[FeatureEntry]) -> int:
    """Delete entries; the bytes that were freed."""
    for entry in selected:
        _delete(entry.folder)
        if not entry.complete:
            store.lock_path(entry.folder).unlink(missing_ok=True)
    return sum(entry.size for entry in selected)


def _delete(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:  # another process was faster
        pass
    except OSError as error:
        raise DataError(f"{folder}: cannot be removed: {error.strerror}") from error
