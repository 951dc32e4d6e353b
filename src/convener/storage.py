"""Files on disk: atomic writes, strict JSON, saved models, and digests of content."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from convener.encodings import UndecodableError
from convener.errors import DataError

Arrays = Mapping[str, NDArray[Any]]
METADATA_FILE, ARRAYS_FILE = "model.json", "params.safetensors"
"""Files of a saved model: settings and names; arrays."""
MODEL_FILE_VERSION = 2
BLOCK_SIZE = 1 << 20
"""Number of array elements hashed at a time."""


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write a file or a folder to; on success it is moved to `path`.

    Files written beside the temporary path are moved along with it. A folder is replaced only if the new one contains
    all of its files. On an exception, `path` and its sibling files keep their old content and the temporary files are
    removed.
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
    """Return the files called `name` beside a temporary path and beside its final destination, where they exist."""
    candidates = (temp_path.parent / name, temp_path.parent.parent / name)
    return [candidate for candidate in candidates if candidate.is_file()]


def _move_into_place(temp_dir: Path, path: Path) -> None:
    """Move all files of the temporary folder beside `path`, `path` itself last; undo the moves if one fails."""
    temp_paths = sorted(temp_dir.iterdir(), key=lambda temp_path: temp_path.name == path.name)
    if path.is_dir() and not (temp_dir / path.name).is_dir():
        raise DataError(f"{path}: cannot be written: it is a folder")
    _refuse_unrelated_files(temp_dir / path.name, path)
    for temp_path in temp_paths:
        if temp_path.is_file():
            with temp_path.open("rb+") as file:
                os.fsync(file.fileno())
    backup_dir = Path(tempfile.mkdtemp(dir=temp_dir))  # the replaced files; removed with temp_dir
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
    """Raise DataError if the folder at `path` contains a file that the new folder does not."""
    if not path.is_dir():
        return
    new_files = {file.relative_to(temp_path) for file in temp_path.rglob("*")}
    unrelated = sorted(file for file in path.rglob("*") if file.relative_to(path) not in new_files)
    if unrelated:
        raise DataError(f"{path}: refusing to replace the folder: it contains other files, e.g. {unrelated[0].name}")


def _restore(target: Path, backup: Path, temp_path: Path) -> None:
    """Restore the file that was at `target` before the move, if the move took place."""
    if backup.exists():
        backup.replace(target)
    elif not temp_path.exists():
        target.unlink(missing_ok=True)


def decode_utf8(raw: bytes, where: str) -> str:
    """Decode the UTF-8 bytes of a file without its byte order mark; an error names the line."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UndecodableError(f"{where}:{line}: not UTF-8 text (byte {raw[error.start]:#04x})") from None


def decode_line(raw: bytes, where: str) -> str:
    """Decode the UTF-8 bytes of a line or a part of it; `where` names the line in the error."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UndecodableError(f"{where}: not UTF-8 text (byte {raw[error.start]:#04x})") from None


def parse_json(text: str, where: str) -> Any:
    """Return the value of a JSON text. NaN, duplicate keys and excessive nesting are errors.

    >>> parse_json('{"a": NaN}', "x.jsonl:3")
    Traceback (most recent call last):
    convener.errors.DataError: x.jsonl:3: not valid JSON: NaN is not a JSON number
    """
    try:
        return JSON_DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not valid JSON at character {error.pos}: {error.msg}") from None
    except ValueError as error:
        raise DataError(f"{where}: not valid JSON: {error}") from None
    except RecursionError:
        raise DataError(f"{where}: not valid JSON: nested too deep") from None


def read_json(path: Path) -> Any:
    """Return the value of a JSON file, parsed as strictly as by `parse_json`; errors name the file."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    return parse_json(decode_utf8(raw, str(path)), str(path))


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"duplicate key {duplicate!r}")
    return result


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


JSON_DECODER = json.JSONDecoder(object_pairs_hook=_reject_duplicate_keys, parse_constant=_reject_constant)
"""Decoder that rejects duplicate keys, NaN and Infinity."""


def save_model_files(folder: Path, metadata: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a saved model as a folder, atomically."""
    with atomic_write(folder) as temp_path:
        temp_path.mkdir()
        write_model_files(temp_path, metadata, arrays)


def write_model_files(folder: Path, metadata: Mapping[str, Any], arrays: Arrays) -> None:
    """Write the files of a saved model into an existing folder."""
    write_metadata(folder, metadata)
    write_arrays(folder, arrays)


def write_metadata(folder: Path, metadata: Mapping[str, Any]) -> None:
    """Write `model.json` into an existing folder."""
    text = json.dumps({"version": MODEL_FILE_VERSION, **metadata}, indent=2, ensure_ascii=False)
    (folder / METADATA_FILE).write_text(text + "\n", encoding="utf-8")


def write_arrays(folder: Path, arrays: Arrays) -> None:
    """Write `params.safetensors` into an existing folder."""
    packed = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    (folder / ARRAYS_FILE).write_bytes(safetensors.save(packed))


def read_model_files(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return metadata and arrays of a saved model."""
    if not (folder / METADATA_FILE).is_file() or not (folder / ARRAYS_FILE).is_file():
        raise DataError(f"{folder}: not a saved model ({METADATA_FILE} and {ARRAYS_FILE} expected)")
    return read_metadata(folder), read_arrays(folder)


def read_metadata(folder: Path) -> dict[str, Any]:
    """Return the content of `model.json`; DataError if it is missing or has another version."""
    if not (folder / METADATA_FILE).is_file():
        raise DataError(f"{folder}: not a saved model ({METADATA_FILE} expected)")
    metadata = read_json(folder / METADATA_FILE)
    if not isinstance(metadata, dict) or metadata.get("version") != MODEL_FILE_VERSION:
        version = metadata.get("version") if isinstance(metadata, dict) else type(metadata).__name__
        raise DataError(f"{folder / METADATA_FILE}: expected a model of version {MODEL_FILE_VERSION}, got {version}")
    return metadata


def read_arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of `params.safetensors`."""
    try:
        return safetensors.load((folder / ARRAYS_FILE).read_bytes())
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise DataError(f"{folder / ARRAYS_FILE}: damaged: {error}") from error


def select_prefix(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Return the arrays whose names start with a prefix, keyed by the rest of the name.

    >>> list(select_prefix("net.", {"net.bias": np.zeros(1), "scale": np.ones(1)}))
    ['bias']
    """
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def compute_digest(*parts: bytes | str | Mapping[str, Any]) -> str:
    """Return one SHA-256 digest of all parts, in order; mappings are hashed as JSON with sorted keys.

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
    """Return the SHA-256 digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def arrays_digest(arrays: Iterable[NDArray[Any]]) -> bytes:
    """Return a SHA-256 digest of the values of arrays, independent of their memory layout."""
    hasher = hashlib.sha256()
    for array in arrays:
        hasher.update(len(array).to_bytes(8, "little"))
        for start in range(0, len(array), BLOCK_SIZE):
            hasher.update(array[start : start + BLOCK_SIZE].tobytes())
    return hasher.digest()
