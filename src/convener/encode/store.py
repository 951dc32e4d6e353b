"""Features as a folder: written shard by shard, gone on with after a kill, opened as a map.

A finished folder holds `tokens.bin` and `sentences.bin`, the rows as they are, and `facts.json`,
which tells their shape. A folder still being written has a name of its own and `done.json`, the
number of shards that are safely on disk: what lies behind them is written anew.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from convener import expect, progress
from convener.data import Dataset
from convener.encode.base import Encoder
from convener.errors import DataError
from convener.features import Dtype, Encoding, Features, as_stored, numpy_dtype
from convener.packed import shard_bounds

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

TOKENS, SENTENCES, FACTS, DONE = "tokens.bin", "sentences.bin", "facts.json", "done.json"
VERSION = 1
SHARD = 1 << 14
"""Tokens that are encoded and written together: what a kill can cost."""
PARTIAL = ".partial"


def open_features(folder: Path) -> Features:
    """The features in a finished folder, memory-mapped."""
    facts = read_facts(folder)
    try:
        kind = numpy_dtype(facts["dtype"])
        return Features(
            _mapped(folder / TOKENS, (facts["tokens"], facts["width"]), kind),
            _mapped(folder / SENTENCES, (facts["sentences"], facts["width"]), kind),
            Encoding.from_json(facts["encoding"]),
        )
    except (OSError, LookupError, TypeError) as error:
        raise DataError(f"{folder}: damaged: {error}") from error


def _mapped(path: Path, shape: tuple[int, int], kind: np.dtype[Any]) -> NDArray[Any]:
    size, found = shape[0] * shape[1] * kind.itemsize, path.stat().st_size
    if found != size:
        raise DataError(f"{path}: damaged: expected {size:,} bytes, got {found:,}")
    return np.memmap(path, kind, "r", shape=shape) if size else np.zeros(shape, kind)


def read_facts(folder: Path) -> dict[str, Any]:
    """What a finished folder says of itself."""
    try:
        facts: dict[str, Any] = json.loads((folder / FACTS).read_text(encoding="utf-8"))
        missing = {"version", "dtype", "width", "tokens", "sentences", "encoding"} - set(facts)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{folder}: no features: {error}") from error
    if missing or facts["version"] != VERSION:
        raise DataError(f"{folder / FACTS}: not features of version {VERSION}")
    return facts


def write_features(folder: Path, data: Dataset, encoder: Encoder, dtype: Dtype) -> None:
    """Encode the data into a folder, whole; a run that was killed is gone on with.

    Shards are the same in every run and each is encoded alone, so the bytes are those of a run
    that was not interrupted.
    """
    draft = folder.with_name(folder.name + PARTIAL)
    try:
        draft.parent.mkdir(parents=True, exist_ok=True)
        with _locked(draft):
            if (folder / FACTS).is_file():  # another process was faster
                return
            draft.mkdir(exist_ok=True)
            try:
                _write_shards(draft, data, encoder, dtype)
            except BaseException:
                if not (draft / DONE).is_file():  # nothing to go on with
                    shutil.rmtree(draft, ignore_errors=True)
                raise
            facts = {
                "version": VERSION,
                "dtype": dtype,
                "width": encoder.width,
                "tokens": len(data.tokens),
                "sentences": len(data),
                "encoding": encoder.encoding.to_json(),
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            _write_json(draft / FACTS, facts)
            (draft / DONE).unlink(missing_ok=True)
            draft.rename(folder)
    except OSError as error:
        raise DataError(f"{folder}: features cannot be written: {error.strerror}") from error


def _write_shards(draft: Path, data: Dataset, encoder: Encoder, dtype: Dtype) -> None:
    """All shards that are not on disk yet."""
    bounds = shard_bounds(data.offsets, SHARD)
    row = encoder.width * numpy_dtype(dtype).itemsize
    sizes = {TOKENS: data.offsets[bounds] * row, SENTENCES: bounds * row}
    ready = _shards_done(draft, bounds, sizes)
    title, before = f"encoding with {encoder.name}", int(data.offsets[bounds[ready]])
    with (
        _kept(draft / TOKENS, sizes[TOKENS][ready]) as tokens,
        _kept(draft / SENTENCES, sizes[SENTENCES][ready]) as sentences,
        progress.bar(title, len(data.tokens), unit="tokens", done=before) as advance,
    ):
        for number in range(ready, len(bounds) - 1):
            part = data[int(bounds[number]) : int(bounds[number + 1])]
            encoded = encoder.encode(part.tokens, part.offsets)
            for file, rows, count in (
                (tokens, encoded.tokens, len(part.tokens)),
                (sentences, encoded.sentences, len(part)),
            ):
                expect.shape(f"features of {encoder.name}", rows.shape, (count, encoder.width))
                file.write(as_stored(rows, dtype).tobytes())
                file.flush()
                os.fsync(file.fileno())
            _write_json(draft / DONE, {"shards": number + 1, "of": len(bounds) - 1})
            advance(by=len(part.tokens))


def _shards_done(draft: Path, bounds: NDArray[np.int64], sizes: Mapping[str, Any]) -> int:
    """How many shards are safely there; none where the folder says nothing one can use.

    sizes: for each file, the bytes it must have where each shard begins.
    """
    try:
        said = json.loads((draft / DONE).read_text(encoding="utf-8"))
        ready = int(said["shards"])
        there = all((draft / name).stat().st_size >= size[ready] for name, size in sizes.items())
        return ready if there and said["of"] == len(bounds) - 1 else 0
    except (OSError, ValueError, LookupError, TypeError):
        return 0


@contextmanager
def _kept(path: Path, size: int) -> Iterator[BinaryIO]:
    """The file, cut to the bytes that are known to be good, open at its end."""
    with path.open("ab") as file:
        file.truncate(size)
        yield file


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Whole or not at all, and on disk before anything that comes later."""
    fresh = path.with_suffix(".new")
    with fresh.open("w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


@contextmanager
def _locked(draft: Path) -> Iterator[None]:
    """One process writes; others wait. The system frees the lock of one that is killed."""
    if fcntl is None:  # no such locks on Windows: there two writers are on their own
        yield
        return
    path = lock_of(draft)
    while True:
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_at(file, path):  # removed by the process that had it: it locks nothing
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def is_being_written(draft: Path) -> bool:
    """Whether a process is at work on a folder, rather than was."""
    try:
        with lock_of(draft).open("r") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def lock_of(draft: Path) -> Path:
    """The file whose lock a process at work on a folder holds."""
    return draft.with_suffix(".lock")


def _is_at(file: IO[Any], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
