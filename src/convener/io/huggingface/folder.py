"""The files of a folder of `Dataset.save_to_disk`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convener.errors import DataError
from convener.io import arrow
from convener.io.files import decoded
from convener.io.json_stream import parsed
from convener.io.messages import readable, shown

DATA, DATA_INFO, STATE = "data-00000-of-00001.arrow", "dataset_info.json", "state.json"
FACTS = "convener.json"
VOTES = "votes:"
"""Begins the name of a source's column."""


def features_of(path: Path) -> Mapping[str, Any]:
    """The features that a folder describes."""
    features = _json(path / DATA_INFO).get("features") or {}
    if not isinstance(features, dict):
        raise DataError(f"{path / DATA_INFO}: features must be an object")
    return features


def table_of(path: Path) -> Any:
    """All rows of the Arrow files that a folder lists."""
    pa, ipc = arrow.pyarrow(), arrow.pyarrow("pyarrow.ipc")
    listed = _json(path / STATE).get("_data_files")
    items = listed if isinstance(listed, list) else []
    names = [str(item.get("filename", "")) if isinstance(item, dict) else "" for item in items]
    if not names or not all(name and Path(name).name == name for name in names):
        raise DataError(f"{path / STATE}: _data_files must list file names, got {shown(listed)}")
    tables = []
    for name in names:
        with readable(str(path / name), "Arrow stream"), pa.memory_map(str(path / name)) as file:
            tables.append(ipc.open_stream(file).read_all())
    with readable(str(path), "Arrow stream"):
        return pa.concat_tables(tables)


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected a folder of Dataset.save_to_disk")
    values = parsed(decoded(path.read_bytes(), str(path)), str(path))
    if not isinstance(values, dict):
        raise DataError(f"{path}: expected a JSON object, got {shown(values)}")
    return values
