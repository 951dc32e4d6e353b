"""On-disk store of features: computed once per text, encoder and dtype.

The key is a digest of tokens and sentence offsets, of the encoder with its settings, and of the
dtype. Sources, votes and gold do not matter. Features are written shard by shard into
`<key>.partial`, which is renamed when it is complete, so an interrupted run can resume.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from convener import progress
from convener.cache import CACHE_METADATA_FILE, FEATURES_DIR, PARTIAL_SUFFIX, lock_path, remove_folder
from convener.data import validation
from convener.data.dataset import Dataset
from convener.data.features import Dtype, EncoderSpec, Features, from_float32, numpy_dtype
from convener.data.ragged import chunk_bounds
from convener.encoders.base import Encoder
from convener.errors import ConvenerWarning, DataError
from convener.storage import arrays_digest, compute_digest

TOKENS_FILE, SENTENCES_FILE, PROGRESS_FILE = "tokens.bin", "sentences.bin", "progress.json"
VERSION = 2
SHARD_TOKENS = 1 << 14
"""Tokens per shard; a longer sentence is a shard of its own. An interrupted run loses at most one shard."""


def load_or_encode(data: Dataset, encoder: Encoder, dtype: Dtype, cache_dir: Path) -> Features:
    """Return the features of a dataset from the cache, or compute and store them."""
    path = features_path(data, encoder, dtype, cache_dir)
    if path.is_dir():
        try:
            features = open_features(path)
        except DataError as error:
            warnings.warn(f"{error}; computing the features again", ConvenerWarning, stacklevel=3)
            remove_folder(path)
        else:
            with suppress(OSError):  # records the last use; the cache may be read-only
                os.utime(path / CACHE_METADATA_FILE)
            return features
    write_features(path, data, encoder, dtype)
    return open_features(path)


def features_path(data: Dataset, encoder: Encoder, dtype: Dtype, cache_dir: Path) -> Path:
    """Return the folder of a dataset's features in the cache."""
    return cache_dir / FEATURES_DIR / cache_key(data, encoder, dtype)


def cache_key(data: Dataset, encoder: Encoder, dtype: Dtype) -> str:
    """Return a digest of everything that determines the stored features."""
    spec = encoder.spec
    settings = {"version": VERSION, "dtype": dtype, "dim": encoder.dim}
    return compute_digest(_text_digest(data), spec.name, spec.digest, settings)[:32]


def _text_digest(data: Dataset) -> bytes:
    """Return a digest of tokens and sentence offsets."""
    tokens = data.tokens.compact()
    return arrays_digest((tokens.data, tokens.offsets, data.offsets))


def open_features(folder: Path) -> Features:
    """Return the features of a complete folder, memory-mapped."""
    metadata = read_metadata(folder)
    try:
        dtype = numpy_dtype(metadata["dtype"])
        return Features(
            _memory_map(folder / TOKENS_FILE, (metadata["tokens"], metadata["dim"]), dtype),
            _memory_map(folder / SENTENCES_FILE, (metadata["sentences"], metadata["dim"]), dtype),
            EncoderSpec.from_json(metadata["encoder"]),
        )
    except (OSError, LookupError, TypeError) as error:
        raise DataError(f"{folder}: damaged: {error}") from error


def _memory_map(path: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    size, actual_size = shape[0] * shape[1] * dtype.itemsize, path.stat().st_size
    if actual_size != size:
        raise DataError(f"{path}: damaged: expected {size:,} bytes, got {actual_size:,}")
    return np.memmap(path, dtype, "r", shape=shape) if size else np.zeros(shape, dtype)


def read_metadata(folder: Path) -> dict[str, Any]:
    """Return the metadata of a complete folder."""
    try:
        metadata: dict[str, Any] = json.loads((folder / CACHE_METADATA_FILE).read_text(encoding="utf-8"))
        missing = {"version", "dtype", "dim", "tokens", "sentences", "encoder"} - set(metadata)
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{folder}: no features found: {error}") from error
    if missing or metadata["version"] != VERSION:
        raise DataError(f"{folder / CACHE_METADATA_FILE}: expected features of format version {VERSION}")
    return metadata


def write_features(folder: Path, data: Dataset, encoder: Encoder, dtype: Dtype) -> None:
    """Encode the data into a folder; an interrupted run resumes.

    Shards are the same in every run and are encoded independently, so a resumed run writes the
    same bytes as an uninterrupted one.
    """
    draft = folder.with_name(folder.name + PARTIAL_SUFFIX)
    try:
        draft.parent.mkdir(parents=True, exist_ok=True)
        with _write_lock(draft):
            if (folder / CACHE_METADATA_FILE).is_file():  # written by another process meanwhile
                return
            draft.mkdir(exist_ok=True)
            try:
                _write_shards(draft, data, encoder, dtype)
            except BaseException:
                if not (draft / PROGRESS_FILE).is_file():  # no shard to resume from
                    shutil.rmtree(draft, ignore_errors=True)
                raise
            metadata = {
                "version": VERSION,
                "dtype": dtype,
                "dim": encoder.dim,
                "tokens": len(data.tokens),
                "sentences": len(data),
                "label": encoder.name,
                "encoder": encoder.spec.to_json(),
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
            }
            _write_json(draft / CACHE_METADATA_FILE, metadata)
            (draft / PROGRESS_FILE).unlink(missing_ok=True)
            draft.rename(folder)
    except OSError as error:
        raise DataError(f"{folder}: cannot write features: {error.strerror}") from error


def _write_shards(draft: Path, data: Dataset, encoder: Encoder, dtype: Dtype) -> None:
    """Encode and write the shards that are not on disk yet."""
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
                validation.check_shape(f"features of {encoder.name}", rows.shape, (count, encoder.dim))
                file.write(from_float32(rows, dtype).tobytes())
                file.flush()
                os.fsync(file.fileno())
            _write_json(draft / PROGRESS_FILE, {"shards": number + 1, "of": len(bounds) - 1})
            advance(by=len(shard.tokens))


def _count_complete_shards(draft: Path, bounds: NDArray[np.int64], sizes: Mapping[str, Any]) -> int:
    """Return the number of complete shards on disk; 0 if the progress file is missing or invalid.

    sizes: for each file, its size in bytes at the start of each shard.
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
    """Open a file for appending, truncated to the bytes of complete shards."""
    with path.open("ab") as file:
        file.truncate(size)
        yield file


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically and flush it to disk."""
    temp_path = path.with_suffix(".new")
    with temp_path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temp_path.replace(path)


@contextmanager
def _write_lock(draft: Path) -> Iterator[None]:
    """Let one process write and others wait. The operating system releases the lock of a killed process."""
    path = lock_path(draft)
    with FileLock(path):
        yield
    # Reached only when the features are complete, so no process writes them again and the lock can go.
    with suppress(OSError):
        path.unlink()
