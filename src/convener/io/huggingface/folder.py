"""The files of a folder of `Dataset.save_to_disk`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from convener.errors import DataError
from convener.io import arrow
from convener.io.files import decode_utf8
from convener.io.json_stream import parse_json
from convener.io.messages import short_repr, wrap_errors

DATA_FILE, INFO_FILE, STATE_FILE = "data-00000-of-00001.arrow", "dataset_info.json", "state.json"
METADATA_FILE = "convener.json"
VOTES_PREFIX = "votes:"
"""Begins the name of a source's column."""


def read_features(path: Path) -> Mapping[str, Any]:
    """The features that a folder describes."""
    features = _read_json(path / INFO_FILE).get("features") or {}
    if not isinstance(features, dict):
        raise DataError(f"{path / INFO_FILE}: features must be an object")
    return features


def read_table(path: Path) -> Any:
    """All rows of the Arrow files that a folder lists."""
    pa, ipc = arrow.import_pyarrow(), arrow.import_pyarrow("pyarrow.ipc")
    data_files = _read_json(path / STATE_FILE).get("_data_files")
    items = data_files if isinstance(data_files, list) else []
    names = [str(item.get("filename", "")) if isinstance(item, dict) else "" for item in items]
    if not names or not all(name and Path(name).name == name for name in names):
        raise DataError(f"{path / STATE_FILE}: _data_files must list file names, got {short_repr(data_files)}")
    tables = []
    for name in names:
        with wrap_errors(str(path / name), "Arrow stream"), pa.memory_map(str(path / name)) as file:
            tables.append(ipc.open_stream(file).read_all())
    with wrap_errors(str(path), "Arrow stream"):
        return pa.concat_tables(tables)


def _read_json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise DataError(f"{path}: no such file; expected a folder of Dataset.save_to_disk")
    values = parse_json(decode_utf8(path.read_bytes(), str(path)), str(path))
    if not isinstance(values, dict):
        raise DataError(f"{path}: expected a JSON object, got {short_repr(values)}")
    return values
