"""Just enough TOML to write settings that `tomllib` reads back."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from convener.errors import ConfigError


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def to_toml(values: Mapping[str, Any]) -> str:
    """Plain values, lists of them and tables as TOML; what is None is left out.

    >>> print(to_toml({"model": "hmm", "settings": {"seed": 1, "types": ["A"]}}), end="")
    model = "hmm"
    <BLANKLINE>
    [settings]
    seed = 1
    types = ["A"]
    """
    return "\n".join(_toml_lines(values, "")).lstrip("\n") + "\n"


def _toml_lines(values: Mapping[str, Any], table: str) -> Iterator[str]:
    """The lines of one table, then those of the tables in it."""
    for key, value in values.items():
        if value is not None and not isinstance(value, Mapping):
            yield f"{_toml_key(key)} = {_toml_value(value)}"
    for key, value in values.items():
        if isinstance(value, Mapping):
            name = f"{table}.{_toml_key(key)}" if table else _toml_key(key)
            yield from ("", f"[{name}]")
            yield from _toml_lines(value, name)


def _toml_key(key: str) -> str:
    stripped = key.replace("-", "").replace("_", "")
    return key if stripped.isalnum() and stripped.isascii() else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(float(value))
    if not isinstance(value, (str, int)):
        raise ConfigError(f"TOML cannot hold {value!r} of type {type(value).__name__} here")
    # JSON's strings, numbers and booleans are TOML's; DEL must be escaped in TOML.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
