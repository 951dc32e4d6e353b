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
from convener.features import Dtype, EncoderSpec, Features, from_float32, numpy_dtype
from convener.packed import chunk_bounds

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

TOKENS_FILE, SENTENCES_FILE, METADATA_FILE, PROGRESS_FILE = (
    "tokens.bin",
    "sentences.bin",
    "facts.json",
    "done.json",
)
VERSION = 1
SHARD_TOKENS = 1 << 14
"""Tokens that are encoded and written together, or one longer sentence: what a kill can cost."""
PARTIAL_SUFFIX = ".partial"


def open_features(folder: Path) -> Features:
    """The features in a finished folder, memory-mapped."""
    metadata = read_metadata(folder)
    try:
        dtype = numpy_dtype(metadata["dtype"])
        return Features(
            _memory_map(folder / TOKENS_FILE, (metadata["tokens"], metadata["width"]), dtype),
            _memory_map(folder / SENTENCES_FILE, (metadata["sentences"], metadata["width"]), dtype),
            EncoderSpec.from_json(metadata["encoding"]),
        )
    except (OSError, LookupError, TypeError) as error:
        raise DataError(f"{folder}: damaged: {error}") from error


def _memory_map(path: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    size, actual_size = shape[0] * shape[1] * dtype.itemsize, path.stat().st_size
    if actual_size != size:
        raise DataError(f"{path}: damaged: expected {size:,} bytes, got {actual_size:,}")
    return np.memmap(path, dtype, "r", shape=shape) if size else np.zeros(shape, dtype)


def read_metadata(folder: Path) -> dict[str, Any]:
    """What a finished folder says of itself."""
    try:
        metadata: dict[str, Any] = json.loads((folder / METADATA_FILE).read_text(encoding="utf-8"))
        missing = {"version", "dtype", "width", "tokens", "sentences", "encoding"} - set(metadata)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{folder}: no features: {error}") from error
    if missing or metadata["version"] != VERSION:
        raise DataError(f"{folder / METADATA_FILE}: not features of version {VERSION}")
    return metadata


def write_features(folder: Path, data: Dataset, encoder: Encoder, dtype: Dtype) -> None:
    """Encode the data into a folder, whole; a run that was killed is gone on with.

    Shards are the same in every run and each is encoded alone, so the bytes are those of a run
    that was not interrupted.
    """
    draft = folder.with_name(folder.name + PARTIAL_SUFFIX)
    try:
        draft.parent.mkdir(parents=True, exist_ok=True)
        with _write_lock(draft):
            if (folder / METADATA_FILE).is_file():  # another process was faster
                return
            draft.mkdir(exist_ok=True)
            try:
                _write_shards(draft, data, encoder, dtype)
            except BaseException:
                if not (draft / PROGRESS_FILE).is_file():  # nothing to go on with
                    shutil.rmtree(draft, ignore_errors=True)
                raise
            metadata = {
                "version": VERSION,
                "dtype": dtype,
                "width": encoder.dim,
                "tokens": len(data.tokens),
                "sentences": len(data),
                "encoding": encoder.spec.to_json(),
                "date": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            _write_json(draft / METADATA_FILE, metadata)
            (draft / PROGRESS_FILE).unlink(missing_ok=True)
            draft.rename(folder)
    except OSError as error:
        raise DataError(f"{folder}: features cannot be written: {error.strerror}") from error


def _write_shards(draft: Path, data: Dataset, encoder: Encoder, dtype: Dtype) -> None:
    """All shards that are not on disk yet."""
    bounds = chunk_bounds(data.offsets, SHARD_TOKENS)
    row_bytes = encoder.dim * numpy_dtype(dtype).itemsize
    sizes = {TOKENS_FILE: data.offsets[bounds] * row_bytes, SENTENCES_FILE: bounds * row_bytes}
    num_complete = _count_complete_shards(draft, bounds, sizes)
    title, tokens_done = f"encoding with {encoder.name}", int(data.offsets[bounds[num_complete]])
    with (
        _open_truncated(draft / TOKENS_FILE, sizes[TOKENS_FILE][num_complete]) as tokens,
        _open_truncated(draft / SENTENCES_FILE, sizes[SENTENCES_FILE][num_complete]) as sentences,
        progress.progress_bar(title, len(data.tokens), unit="tokens", completed=tokens_done) as advance,
    ):
        for number in range(num_complete, len(bounds) - 1):
            shard = data[int(bounds[number]) : int(bounds[number + 1])]
            encoded = encoder.encode(shard.tokens, shard.offsets)
            for file, rows, count in (
                (tokens, encoded.tokens, len(shard.tokens)),
                (sentences, encoded.sentences, len(shard)),
            ):
                expect.check_shape(f"features of {encoder.name}", rows.shape, (count, encoder.dim))
                file.write(from_float32(rows, dtype).tobytes())
                file.flush()
                os.fsync(file.fileno())
            _write_json(draft / PROGRESS_FILE, {"shards": number + 1, "of": len(bounds) - 1})
            advance(by=len(shard.tokens))


def _count_complete_shards(draft: Path, bounds: NDArray[np.int64], sizes: Mapping[str, Any]) -> int:
    """How many shards are safely there; none where the folder says nothing one can use.

    sizes: for each file, the bytes it must have where each shard begins.
    """
    try:
        state = json.loads((draft / PROGRESS_FILE).read_text(encoding="utf-8"))
        num_complete = int(state["shards"])
        complete = all((draft / name).stat().st_size >= size[num_complete] for name, size in sizes.items())
        return num_complete if complete and state["of"] == len(bounds) - 1 else 0
    except (OSError, ValueError, LookupError, TypeError):
        return 0


@contextmanager
def _open_truncated(path: Path, size: int) -> Iterator[BinaryIO]:
    """The file, cut to the bytes that are known to be good, open at its end."""
    with path.open("ab") as file:
        file.truncate(size)
        yield file


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Whole or not at all, and on disk before anything that comes later."""
    temp_path = path.with_suffix(".new")
    with temp_path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temp_path.replace(path)


@contextmanager
def _write_lock(draft: Path) -> Iterator[None]:
    """One process writes; others wait. The system frees the lock of one that is killed."""
    if fcntl is None:  # no such locks on Windows: there two writers are on their own
        yield
        return
    path = lock_path(draft)
    while True:
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not _is_same_file(file, path):  # removed by the process that had it: it locks nothing
                continue
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def is_being_written(draft: Path) -> bool:
    """Whether a process is at work on a folder, rather than was."""
    try:
        with lock_path(draft).open("r") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def lock_path(draft: Path) -> Path:
    """The file whose lock a process at work on a folder holds."""
    return draft.with_suffix(".lock")


def _is_same_file(file: IO[Any], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
