"""Frozen dataclasses as settings: from names and values, checked, with suggestions."""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from convener.errors import ConfigError, check_known

Settings = TypeVar("Settings")

YES: set[Any] = {True, "true", "yes", "1"}
NO: set[Any] = {False, "false", "no", "0"}
NOTHING = ("none", "None", "")


def from_mapping(cls: type[Settings], values: Mapping[str, Any], *, what: str) -> Settings:
    """An instance of a settings class; strings are converted to the field's type.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Config:
    ...     epochs: int = 5
    >>> from_mapping(Config, {"epochs": "7"}, what="setting")
    Config(epochs=7)
    >>> from_mapping(Config, {"epoch": 7}, what="setting")
    Traceback (most recent call last):
    convener.errors.ConfigError: no setting 'epoch'; did you mean 'epochs'?
    """
    hints = get_type_hints(cls)
    known = [item.name for item in fields(cls)]  # type: ignore[arg-type]
    check_known(what, values, known)
    return cls(**{name: _converted(name, hints[name], value) for name, value in values.items()})


def at_least(settings: Any, least: float, *names: str) -> None:
    """Refuse settings that are below a bound; None is none."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < least:
            raise ConfigError(f"{name} must be at least {least:g}, got {value}")


def shares(settings: Any, *names: str) -> None:
    """Complain where a setting is not above 0 and at most 1; None is fine."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not 0 < value <= 1:
            raise ConfigError(f"{name} must be in (0, 1], got {value}")


def to_mapping(settings: Any) -> dict[str, Any]:
    """Names and plain values of a settings instance, fit for JSON."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }


def _converted(name: str, hint: Any, value: Any) -> Any:
    """The value as its field's type wants it, or an error that says what was expected."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for member in sorted(members, key=lambda member: _rank(member, value)):
        try:
            return _as_type(member, value)
        except (TypeError, ValueError, OverflowError):
            continue
    raise ConfigError(f"{name} must be {' or '.join(map(_spoken, members))}; got {value!r}")


def _rank(hint: Any, value: Any) -> int:
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


def _as_type(hint: Any, value: Any) -> Any:
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        return tuple(_as_type(inner, item) for item in value)
    if get_origin(hint) is Mapping:
        return _mapping(value)
    if get_origin(hint) is Literal:
        return _checked(value, value in get_args(hint))
    if hint is type(None):
        return _checked(None, value is None or (isinstance(value, str) and value in NOTHING))
    if hint is bool:
        word = value.lower() if isinstance(value, str) else value
        return _checked(word in YES, isinstance(word, (bool, str)) and word in YES | NO)
    if isinstance(value, bool):  # Python's booleans are numbers, ours are not
        raise ValueError
    if hint is str:
        return _checked(value, isinstance(value, str))
    if hint is int:
        return int(value) if isinstance(value, str) else operator.index(value)
    if hint is float:
        return _checked(float(value), math.isfinite(float(value)))
    return hint(value)


def _mapping(value: Any) -> dict[Any, Any]:
    """A mapping, or what is written "name=value; name=value"."""
    if not isinstance(value, str):
        return dict(value)
    pairs = [part.partition("=") for part in value.split(";") if part.strip()]
    _checked(value, all(sign for _, sign, _ in pairs))
    return {name.strip(): meant.strip() for name, _, meant in pairs}


def _checked(value: Any, holds: bool) -> Any:
    if not holds:
        raise ValueError
    return value


def _spoken(hint: Any) -> str:
    if hint is type(None):
        return "none"
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a list of {_spoken(get_args(hint)[0])}"
    if get_origin(hint) is Mapping:
        return "name=value, several with ; between them"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}.get(
        hint, str(hint)
    )
