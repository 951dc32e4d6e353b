"""Models on disk: JSON for what can be read, safetensors for the numbers. Never pickle."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from convener.errors import DataError
from convener.io.files import atomic_write

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
