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
from convener.io.files import whole

Arrays = Mapping[str, NDArray[Any]]
FACTS, NUMBERS = "model.json", "params.safetensors"
VERSION = 1


def save(folder: Path, facts: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint as a folder, whole or not at all."""
    with whole(folder) as draft:
        draft.mkdir()
        write(draft, facts, arrays)


def write(folder: Path, facts: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint's files into an existing folder."""
    write_facts(folder, facts)
    write_arrays(folder, arrays)


def write_facts(folder: Path, facts: Mapping[str, Any]) -> None:
    """Write what can be read into an existing folder."""
    text = json.dumps({"version": VERSION, **facts}, indent=2, ensure_ascii=False)
    (folder / FACTS).write_text(text + "\n", encoding="utf-8")


def write_arrays(folder: Path, arrays: Arrays) -> None:
    """Write the numbers into an existing folder."""
    packed = {name: np.ascontiguousarray(array) for name, array in sorted(arrays.items())}
    (folder / NUMBERS).write_bytes(safetensors.save(packed))


def read(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Facts and arrays of a checkpoint."""
    if not (folder / FACTS).is_file() or not (folder / NUMBERS).is_file():
        raise DataError(f"{folder}: not a saved model ({FACTS} and {NUMBERS} expected)")
    return read_facts(folder), read_arrays(folder)


def read_facts(folder: Path) -> dict[str, Any]:
    """What can be read of a checkpoint."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{folder / FACTS}: not valid JSON: {error}") from error
    except OSError as error:
        raise DataError(f"{folder}: not a saved model ({FACTS} expected)") from error
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        found = facts.get("version") if isinstance(facts, dict) else type(facts).__name__
        raise DataError(f"{folder / FACTS}: expected a model of version {VERSION}, got {found}")
    return facts


def read_arrays(folder: Path) -> dict[str, NDArray[Any]]:
    """The numbers of a checkpoint."""
    try:
        return safetensors.load((folder / NUMBERS).read_bytes())
    except (OSError, SafetensorError, ValueError, KeyError) as error:
        raise DataError(f"{folder / NUMBERS}: damaged: {error}") from error


def under(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    """Arrays whose names begin so, by the rest of their names.

    >>> list(under("net.", {"net.bias": np.zeros(1), "scale": np.ones(1)}))
    ['bias']
    """
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
