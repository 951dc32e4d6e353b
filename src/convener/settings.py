"""Frozen dataclasses as settings: from names and values, checked, with suggestions."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from convener.errors import ConfigError, unknown_name

Settings = TypeVar("Settings")


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
    for name in values:
        if name not in known:
            raise ConfigError(unknown_name(what, name, known))
    return cls(**{name: _converted(name, hints[name], value) for name, value in values.items()})


def to_mapping(settings: Any) -> dict[str, Any]:
    """Names and plain values of a settings instance, fit for JSON."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(settings).items()
    }


def _converted(name: str, hint: Any, value: Any) -> Any:
    """The value as its field's type wants it, or an error that says what was expected."""
    problems = []
    for option in _options(hint):
        try:
            return _as_type(option, value)
        except (TypeError, ValueError):
            problems.append(_spoken(option))
    raise ConfigError(f"{name} must be {' or '.join(problems)}; got {value!r}")


def _options(hint: Any) -> tuple[Any, ...]:
    """The members of a union, tuples first: "a,b" is a list before it is a string."""
    if get_origin(hint) not in (Union, types.UnionType):
        return (hint,)
    members: list[Any] = list(get_args(hint))
    return tuple(sorted(members, key=lambda member: "tuple" not in str(member)))


def _as_type(hint: Any, value: Any) -> Any:
    if hint is type(None):
        if value is None or value in ("none", "None", ""):
            return None
        raise ValueError
    if get_origin(hint) is Literal:
        if value in get_args(hint):
            return value
        raise ValueError
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        if isinstance(value, str):
            if "," not in value:
                raise ValueError
            value = [part.strip() for part in value.split(",") if part.strip()]
        return tuple(_as_type(inner, item) for item in value)
    if hint is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if isinstance(value, str):
            return words[value.lower()] if value.lower() in words else int("x")
        if isinstance(value, bool):
            return value
        raise ValueError
    if isinstance(value, bool) or (hint is int and isinstance(value, float)):
        raise ValueError
    if hint is str and not isinstance(value, str):
        raise ValueError
    return hint(value)


def _spoken(hint: Any) -> str:
    if hint is type(None):
        return "none"
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a list of {_spoken(get_args(hint)[0])}"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}.get(
        hint, str(hint)
    )
