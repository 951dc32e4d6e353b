"""The cache of votes: each function's column is kept by what the function does and by the text.

A function that is edited runs again, the others do not. A column is kept as one safetensors file;
what was to report stands in it as JSON.
"""

from __future__ import annotations

import json
import os
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors import numpy as safetensors

from convener.caching import digest_of, digest_of_arrays
from convener.data import Dataset
from convener.errors import ConvenerWarning, DataError
from convener.io.files import whole
from convener.lf.columns import Column
from convener.lf.work import Event

VOTES, SUFFIX = "votes", ".safetensors"
VERSION = "1"
_UNREADABLE = (SafetensorError, OSError, ValueError, LookupError, TypeError)


def corpus_digest(data: Dataset) -> str:
    """What a function can see of a dataset, as one word: words, text, documents."""
    words = data.tokens.compact()
    arrays: list[NDArray[Any]] = [words.data, words.offsets, data.offsets]
    if data.text is not None:
        texts = data.text.text.compact()
        arrays += [texts.data, texts.offsets, data.text.chars]
    if data.documents is not None:
        names = data.documents.compact()
        arrays += [names.data, names.offsets]
    return digest_of(digest_of_arrays(arrays))


def place_of(folder: Path, function: str, corpus: str) -> Path:
    """The file of a function's column, by the digests of the function and the corpus."""
    return folder / VOTES / (digest_of(VERSION, function, corpus)[:32] + SUFFIX)


def keep(path: Path, name: str, column: Column) -> None:
    """Write a column, whole or not at all."""
    facts = {"name": json.dumps(name), "events": json.dumps(column.events)}
    with whole(path) as draft:
        draft.write_bytes(safetensors.save({"labels": column.labels}, facts))


def kept(path: Path, tokens: int) -> Column | None:
    """The column in a file, or None if there is none that can be used."""
    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="np") as file:
            labels = file.get_tensor("labels")
            events = tuple(Event(*event) for event in json.loads(file.metadata()["events"]))
        if labels.shape != (tokens,) or labels.dtype != np.int16:
            raise DataError(f"expected {tokens} labels, got {labels.shape} of {labels.dtype}")
    except _UNREADABLE as error:
        warnings.warn(f"{path}: damaged: {error}; running again", ConvenerWarning, stacklevel=2)
        return None
    with suppress(OSError):  # when it was last used; a cache one may only read is fine
        os.utime(path)
    return Column(labels, events)


@dataclass(frozen=True)
class Entry:
    """One column in the cache."""

    path: Path
    name: str
    """Of the function, when it was written."""
    bytes: int
    used: float
    """When it was last used, in seconds since 1970."""


def entries(folder: Path) -> list[Entry]:
    """All columns in the cache, the last used first."""
    found = []
    for path in (folder / VOTES).glob(f"*{SUFFIX}"):
        name = "?"
        with suppress(*_UNREADABLE), safe_open(path, framework="np") as file:
            name = str(json.loads(file.metadata()["name"]))
        with suppress(FileNotFoundError):  # removed while one looks
            status = path.stat()
            found.append(Entry(path, name, status.st_size, status.st_mtime))
    return sorted(found, key=lambda entry: -entry.used)


def remove(chosen: list[Entry]) -> None:
    """Delete columns."""
    for entry in chosen:
        entry.path.unlink(missing_ok=True)
