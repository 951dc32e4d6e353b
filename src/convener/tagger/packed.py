"""A tagger as arrays: the bytes of the files that it saves, for models that hold one inside."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.tagger import load_tagger
from convener.tagger.base import Tagger


def tagger_to_arrays(tagger: Tagger[Any]) -> dict[str, NDArray[Any]]:
    """The bytes of all files of a fitted tagger, by name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tagger.save_files(folder)
        files = sorted(file for file in folder.rglob("*") if file.is_file())
        return {file.relative_to(folder).as_posix(): np.frombuffer(file.read_bytes(), np.uint8) for file in files}


def tagger_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Tagger[Any]:
    """The tagger that such files hold."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for file, content in arrays.items():
            target = (folder / file).resolve()
            if folder not in target.parents:
                raise DataError(f"a tagger with a file outside of its folder: {file!r}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.tobytes())
        return load_tagger(folder)
