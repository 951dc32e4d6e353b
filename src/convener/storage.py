"""Where caches lie, the digests that are their keys, and what of them may go."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from convener.errors import DataError


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A place to write a file or a folder; it moves to `path` when all went well.

    Whatever else is written beside it moves along. A folder is replaced only if all that it holds
    is replaced. If anything is raised inside, `path` and its
    neighbours are left as they were and nothing else remains.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temp_dir = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        yield temp_dir / path.name
        _move_into_place(temp_dir, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(temp_dir, ignore_errors=True)


def sibling_files(temp_path: Path, name: str) -> list[Path]:
    """Files of this name that a draft will stand beside: where it is, and where it will be."""
    candidates = (temp_path.parent / name, temp_path.parent.parent / name)
    return [candidate for candidate in candidates if candidate.is_file()]


def _move_into_place(temp_dir: Path, path: Path) -> None:
    """Move all that is in the room beside `path`, `path` itself last, or nothing."""
    temp_paths = sorted(temp_dir.iterdir(), key=lambda temp_path: temp_path.name == path.name)
    if path.is_dir() and not (temp_dir / path.name).is_dir():
        raise DataError(f"{path}: cannot be written: it is a folder")
    _refuse_unrelated_files(temp_dir / path.name, path)
    for temp_path in temp_paths:
        if temp_path.is_file():
            with temp_path.open("rb+") as file:
                os.fsync(file.fileno())
    backup_dir = Path(tempfile.mkdtemp(dir=temp_dir))  # what is replaced; removed with the room
    moved: list[Path] = []
    try:
        for temp_path in temp_paths:
            target = path.parent / temp_path.name
            moved.append(target)
            if target.is_dir():
                target.rename(backup_dir / temp_path.name)
            elif target.exists() and target != path:
                shutil.copy2(target, backup_dir / temp_path.name)
            temp_path.replace(target)
        if path not in moved:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    except BaseException:
        for target in reversed(moved):
            _restore(target, backup_dir / target.name, temp_dir / target.name)
        raise


def _refuse_unrelated_files(temp_path: Path, path: Path) -> None:
    """Refuse to replace a folder that holds anything the new one does not."""
    if not path.is_dir():
        return
    new_files = {file.relative_to(temp_path) for file in temp_path.rglob("*")}
    unrelated = sorted(file for file in path.rglob("*") if file.relative_to(path) not in new_files)
    if unrelated:
        raise DataError(f"{path}: holds other things, such as {unrelated[0].name}; nothing written")


def _restore(target: Path, backup: Path, temp_path: Path) -> None:
    """Put back what stood at the target before the draft moved there, if it did."""
    if backup.exists():
        backup.replace(target)
    elif not temp_path.exists():
        target.unlink(missing_ok=True)


def decode_utf8(raw: bytes, where: str) -> str:
    """Text of UTF-8 bytes, without a byte order mark; an error names the line."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"{where}:{line}: not UTF-8 text (byte {raw[error.start]:#04x})") from None


Arrays = Mapping[str, NDArray[Any]]
METADATA_FILE, ARRAYS_FILE = "model.json", "params.safetensors"
MODEL_FILE_VERSION = 1


def save_model_files(folder: Path, metadata: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint as a folder, whole or not at all."""
    with atomic_write(folder) as temp_path:
        temp_path.mkdir()
        write_model_files(temp_path, metadata, arrays)


def write_model_files(folder: Path, metadata: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint's files into an existing folder."""
    write_metadata(folder, metadata)
    write_arrays(folder, arrays)


def write_metadata(folder: Path, metadata: Mapping[str, Any]) -> None:
    """Write what can be read into an existing folder."""
    text = json.dumps({"version": MODEL_FILE_VERSION, **metadata}, indent=2, ensure_ascii=False)
    (folder / METADATA_FILE).write_text(text + "\n", encoding="utf-8")


def write_arrays(folder: Path, arrays: Arrays) -> None:
    """Write the numbers into an existing folder."""
    packed = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    (folder / ARRAYS_FILE).write_bytes(safetensors.save(packed))


def read_model_files(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Facts and arrays of a checkpoint."""
    if not (folder / METADATA_FILE).is_file() or not (folder / ARRAYS_FILE).is_file():
        raise DataError(f"{folder}: not a saved model ({METADATA_FILE} and {ARRAYS_FILE} expected)")
    return read_metadata(folder), read_arrays(folder)


def read_metadata(folder: Path) -> dict[str, Any]:
    """What can be read of a checkpoint."""
    try:
        metadata = json.loads((folder / METADATA_FILE).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{folder / METADATA_FILE}: not valid JSON: {error}") from error
    except OSError as error:
        raise DataError(f"{folder}: not a saved model ({METADATA_FILE} expected)") from error
    if not isinstance(metadata, dict) or metadata.get("version") != MODEL_FILE_VERSION:
        version = metadata.get("version") if isinstance(metadata, dict) else type(metadata).__name__
        raise DataError(f"{folder / METADATA_FILE}: expected a model of version {MODEL_FILE_VERSION}, got {version}")
    return metadata


def read_arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """The numbers of a checkpoint."""
    try:
        return safetensors.load((folder / ARRAYS_FILE).read_bytes())
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise DataError(f"{folder / ARRAYS_FILE}: damaged: {error}") from error


def select_prefix(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Arrays whose names begin so, by the rest of their names.

    >>> list(select_prefix("net.", {"net.bias": np.zeros(1), "scale": np.ones(1)}))
    ['bias']
    """
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


CACHE_DIR_VARIABLE = "CONVENER_CACHE"
BLOCK_SIZE = 1 << 20
SECONDS_PER_DAY = 24 * 3600.0


class CacheEntry(Protocol):
    """Something in a cache."""

    @property
    def size(self) -> int:
        """What it takes on disk."""

    @property
    def last_used(self) -> float:
        """When it was last used, in seconds since 1970."""


EntryT = TypeVar("EntryT", bound=CacheEntry)


def cache_dir() -> Path:
    """Where the cache lies: `CONVENER_CACHE`, or the system's place for caches."""
    if override := os.environ.get(CACHE_DIR_VARIABLE):
        return Path(override).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "convener"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "convener" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convener"


def resolve_cache_dir(cache: str | Path | bool) -> Path | None:
    """The folder that a setting `cache` means: the usual one, another, or none.

    >>> str(resolve_cache_dir("here")), resolve_cache_dir(False)
    ('here', None)
    """
    if isinstance(cache, bool):
        return cache_dir() if cache else None
    return Path(cache)


def compute_digest(*parts: bytes | str | Mapping[str, Any]) -> str:
    """One digest of all that decides something.

    >>> compute_digest("hashing", {"width": 64}) == compute_digest("hashing", {"width": 64})
    True
    """
    hasher = hashlib.sha256()
    for part in parts:
        if isinstance(part, Mapping):
            part = json.dumps(part, sort_keys=True)
        raw = part.encode() if isinstance(part, str) else part
        hasher.update(len(raw).to_bytes(8, "little") + raw)
    return hasher.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def arrays_digest(arrays: Iterable[NDArray[Any]]) -> bytes:
    """A digest of what arrays hold, wherever they lie in memory."""
    hasher = hashlib.sha256()
    for array in arrays:
        hasher.update(len(array).to_bytes(8, "little"))
        for start in range(0, len(array), BLOCK_SIZE):
            hasher.update(array[start : start + BLOCK_SIZE].tobytes())
    return hasher.digest()


def entries_to_prune(
    entries: Iterable[EntryT], *, older_than: float | None = None, max_bytes: float | None = None
) -> list[EntryT]:
    """What to remove, the last used first.

    older_than: what was not used for so many days. keep_bytes: of what then remains, the longest
    unused until no more is kept.
    """
    now, kept_bytes, to_remove = time.time(), 0, []
    for entry in sorted(entries, key=lambda entry: -entry.last_used):
        if older_than is not None and now - entry.last_used > older_than * SECONDS_PER_DAY:
            to_remove.append(entry)
            continue
        kept_bytes += entry.size
        if max_bytes is not None and kept_bytes > max_bytes:
            to_remove.append(entry)
    return to_remove
