"""The cache of features: computed once for each corpus, encoder and setting.

A key is a digest of the words and sentences, of the encoder with its settings, and of how the
numbers are stored. Sources, votes and gold do not matter: the same text is encoded once.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from convener import progress, storage
from convener.data import validation
from convener.data.dataset import Dataset
from convener.data.features import Dtype, EncoderSpec, Features, from_float32, numpy_dtype
from convener.data.ragged import chunk_bounds
from convener.encoders.base import Encoder
from convener.errors import ConvenerWarning, DataError
from convener.storage import arrays_digest, compute_digest

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
                validation.check_shape(f"features of {encoder.name}", rows.shape, (count, encoder.dim))
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


FEATURES_DIR = "features"


def load_or_encode(data: Dataset, encoder: Encoder, dtype: Dtype, cache_dir: Path) -> Features:
    """The features of a dataset: from the cache, or computed and kept there."""
    path = features_path(data, encoder, dtype, cache_dir)
    if path.is_dir():
        try:
            features = open_features(path)
        except DataError as error:
            warnings.warn(f"{error}; encoding again", ConvenerWarning, stacklevel=3)
            _delete(path)
        else:
            with suppress(OSError):  # when it was last used; a cache one may only read is fine
                os.utime(path / METADATA_FILE)
            return features
    write_features(path, data, encoder, dtype)
    return open_features(path)


def features_path(data: Dataset, encoder: Encoder, dtype: Dtype, cache_dir: Path) -> Path:
    """The folder that a dataset's features have in the cache, once they are whole."""
    return cache_dir / FEATURES_DIR / cache_key(data, encoder, dtype)


def cache_key(data: Dataset, encoder: Encoder, dtype: Dtype) -> str:
    """What decides the bytes of features, as one word."""
    spec = encoder.spec
    settings = {"version": VERSION, "dtype": dtype, "width": encoder.dim}
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
        return self.folder.name.removesuffix(PARTIAL_SUFFIX)

    @property
    def complete(self) -> bool:
        """Whether it is whole."""
        return not self.folder.name.endswith(PARTIAL_SUFFIX)


def entries(cache_dir: Path) -> list[FeatureEntry]:
    """All features in the cache, the last used first."""
    return sorted(_iter_entries(cache_dir / FEATURES_DIR), key=lambda entry: -entry.last_used)


def _iter_entries(folder: Path) -> Iterator[FeatureEntry]:
    for path in folder.iterdir() if folder.is_dir() else ():
        if not path.is_dir():
            continue
        metadata: dict[str, Any] = {}
        with suppress(DataError):
            metadata = read_metadata(path)
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
                in_use=path.name.endswith(PARTIAL_SUFFIX) and is_being_written(path),
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
    unused = storage.entries_to_prune(rest, older_than=older_than, max_bytes=max_bytes)
    selected |= {entry.folder for entry in unused}
    return [entry for entry in candidates if entry.folder in selected]


def remove(selected: list[FeatureEntry]) -> int:
    """Delete entries; the bytes that were freed."""
    for entry in selected:
        _delete(entry.folder)
        if not entry.complete:
            lock_path(entry.folder).unlink(missing_ok=True)
    return sum(entry.size for entry in selected)


def _delete(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:  # another process was faster
        pass
    except OSError as error:
        raise DataError(f"{folder}: cannot be removed: {error.strerror}") from error
