"""Just enough TOML to write settings that `tomllib` reads back."""

from __future__ import annotations

import json
import math
import operator
import tomllib
import types
from collections.abc import Iterator, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from convener.errors import ConfigError, check_known

ConfigT = TypeVar("ConfigT")
TRUE_VALUES: set[Any] = {True, "true", "yes", "1"}
FALSE_VALUES: set[Any] = {False, "false", "no", "0"}
NONE_VALUES = ("none", "None", "")


def config_from_dict(cls: type[ConfigT], values: Mapping[str, Any], *, kind: str) -> ConfigT:
    """An instance of a settings class; strings are converted to the field's type.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Config:
    ...     epochs: int = 5
    >>> config_from_dict(Config, {"epochs": "7"}, kind="setting")
    Config(epochs=7)
    >>> config_from_dict(Config, {"epoch": 7}, kind="setting")
    Traceback (most recent call last):
    convener.errors.ConfigError: no setting 'epoch'; did you mean 'epochs'?
    """
    hints = get_type_hints(cls)
    field_names = [item.name for item in fields(cls)]  # type: ignore[arg-type]
    check_known(kind, values, field_names)
    return cls(**{name: _convert(name, hints[name], value) for name, value in values.items()})


def check_min(settings: Any, minimum: float, *names: str) -> None:
    """Refuse settings that are below a bound; None is none."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < minimum:
            raise ConfigError(f"{name} must be at least {minimum:g}, got {value}")


def check_fraction(settings: Any, *names: str) -> None:
    """Complain where a setting is not above 0 and at most 1; None is fine."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not 0 < value <= 1:
            raise ConfigError(f"{name} must be in (0, 1], got {value}")


def config_to_dict(settings: Any) -> dict[str, Any]:
    """Names and plain values of a settings instance, fit for JSON."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(settings).items()}


def _convert(name: str, hint: Any, value: Any) -> Any:
    """The value as its field's type wants it, or an error that says what was expected."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for member in sorted(members, key=lambda member: _member_priority(member, value)):
        try:
            return _convert_to(member, value)
        except (TypeError, ValueError, OverflowError):
            continue
    raise ConfigError(f"{name} must be {' or '.join(map(_describe_type, members))}; got {value!r}")


def _member_priority(hint: Any, value: Any) -> int:
    """Which member of a union is tried first.

    A word of a Literal and "none" are meant before any string, "a,b" is a list before it is a
    string, and a word alone is a list only where nothing else takes it.
    """
    if get_origin(hint) is Literal:
        return 0
    if hint is type(None):
        return 1
    if get_origin(hint) is tuple:
        return 4 if isinstance(value, str) and "," not in value else 2
    return 3


def _convert_to(hint: Any, value: Any) -> Any:
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        return tuple(_convert_to(inner, item) for item in value)
    if get_origin(hint) is Mapping:
        return _parse_mapping(value)
    if get_origin(hint) is Literal:
        return _require(value, value in get_args(hint))
    if hint is type(None):
        return _require(None, value is None or (isinstance(value, str) and value in NONE_VALUES))
    if hint is bool:
        word = value.lower() if isinstance(value, str) else value
        return _require(
            word in TRUE_VALUES,
            isinstance(word, (bool, str)) and word in TRUE_VALUES | FALSE_VALUES,
        )
    if isinstance(value, bool):  # Python's booleans are numbers, ours are not
        raise ValueError
    if hint is str:
        return _require(value, isinstance(value, str))
    if hint is int:
        return int(value) if isinstance(value, str) else operator.index(value)
    if hint is float:
        return _require(float(value), math.isfinite(float(value)))
    return hint(value)


def _parse_mapping(value: Any) -> dict[Any, Any]:
    """A mapping, or what is written "name=value; name=value"."""
    if not isinstance(value, str):
        return dict(value)
    pairs = [part.partition("=") for part in value.split(";") if part.strip()]
    _require(value, all(separator for _, separator, _ in pairs))
    return {name.strip(): text.strip() for name, _, text in pairs}


def _require(value: Any, condition: bool) -> Any:
    if not condition:
        raise ValueError
    return value


def _describe_type(hint: Any) -> str:
    if hint is type(None):
        return "none"
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a list of {_describe_type(get_args(hint)[0])}"
    if get_origin(hint) is Mapping:
        return "name=value, several with ; between them"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}.get(hint, str(hint))


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
