"""Typed settings: conversion from strings and plain values, range checks, and TOML files.

A settings class is a frozen dataclass. `config_from_dict` builds one from names and values of a TOML file, of the
command line (strings) or of keyword arguments; `config_to_dict` is its inverse.
"""

from __future__ import annotations

import inspect
import math
import operator
import tomllib
import types
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import tomli_w

from convener.errors import ConfigError, check_known

ConfigT = TypeVar("ConfigT")
P = ParamSpec("P")
Init = Callable[Concatenate[Any, P], None]
TRUE_VALUES: set[Any] = {True, "true", "yes", "1"}
FALSE_VALUES: set[Any] = {False, "false", "no", "0"}
NONE_VALUES = ("none", "None", "")
"""Strings that stand for true, false and None."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Base of the settings of models and taggers, and of the groups that they combine by inheritance.

    A subclass that checks its values extends `__post_init__` and calls that of `super()`, so that the checks of all
    groups run.
    """

    def __post_init__(self) -> None:
        """Check the values."""


class Configurable:
    """Base of models and taggers, whose settings are read and changed as in scikit-learn."""

    config: Any
    _fitted: Any

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All settings by name; `deep` has no effect, since no setting is an estimator."""
        return {item.name: getattr(self.config, item.name) for item in fields(self.config)}

    def set_params(self, **settings: Any) -> Self:
        """Change settings.  -> the same object; it is no longer fitted if a setting changes."""
        config = type(self)(**self.get_params() | settings).config
        if config != self.config:
            self.config, self._fitted = config, None
        return self

    def clone(self) -> Self:
        """A new object with the same settings that is not fitted; `sklearn.base.clone` returns the same."""
        return type(self)(**self.get_params())

    def __sklearn_clone__(self) -> Self:
        return self.clone()


def init_with(config: Callable[P, Any]) -> Callable[[Callable[..., None]], Init[P]]:
    """Decorator that gives an `__init__(self, **settings)` the signature of a settings class.

    Type checkers and editors then know the names and types of the settings, and `help` shows them.
    """

    def decorate(init: Callable[..., None]) -> Init[P]:
        parameters = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        parameters += inspect.signature(config).parameters.values()
        init.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return init

    return decorate


def config_from_dict(cls: type[ConfigT], values: Mapping[str, Any], *, kind: str) -> ConfigT:
    """Return an instance of a settings class; strings are converted to the type of the field.

    `kind` is what messages call a field: "setting", "reading option".

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
    """Raise ConfigError if a setting is below the minimum; None is accepted."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and value < minimum:
            raise ConfigError(f"{name} must be at least {minimum:g}, got {value}")


def check_range(settings: Any, interval: str, *names: str) -> None:
    """Raise ConfigError if a setting, or a value of a tuple, is not in an interval; None is accepted.

    >>> from types import SimpleNamespace
    >>> check_range(SimpleNamespace(dropout=1.0), "[0, 1)", "dropout")
    Traceback (most recent call last):
    convener.errors.ConfigError: dropout must be in [0, 1), got 1.0
    """
    low, high = (float(bound) for bound in interval[1:-1].split(","))
    above = operator.le if interval.startswith("[") else operator.lt
    below = operator.le if interval.endswith("]") else operator.lt
    for name in names:
        value = getattr(settings, name)
        for number in value if isinstance(value, tuple) else (value,):
            if number is not None and not (above(low, number) and below(number, high)):
                raise ConfigError(f"{name} must be in {interval}, got {value}")


def config_to_dict(settings: Any) -> dict[str, Any]:
    """Return the fields of a settings instance as plain values that JSON can represent; tuples become lists."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(settings).items()}


def _convert(name: str, hint: Any, value: Any) -> Any:
    """Convert a value to the type of its field; a ConfigError names the expected types."""
    members = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for member in sorted(members, key=lambda member: _member_priority(member, value)):
        try:
            return _convert_to(member, value)
        except (TypeError, ValueError, OverflowError):
            continue
    raise ConfigError(f"{name} must be {' or '.join(map(_describe_type, members))}; got {value!r}")


def _member_priority(hint: Any, value: Any) -> int:
    """Return the rank of a union member; the member with the lowest rank is tried first.

    Literals and None precede strings. A string with a comma is tried as a list first, a string without one as a list
    last.
    """
    if get_origin(hint) is Literal:
        return 0
    if hint is type(None):
        return 1
    if get_origin(hint) is tuple:
        return 4 if isinstance(value, str) and "," not in value else 2
    return 3


def _convert_to(hint: Any, value: Any) -> Any:
    """Convert a value to one type; raises TypeError, ValueError or OverflowError if it does not fit."""
    if get_origin(hint) is tuple:
        if isinstance(value, str):
            value = [part.strip() for part in value.split(",") if part.strip()]
        members = get_args(hint)
        inner = members[:1] * len(value) if members[-1] is Ellipsis else members
        return tuple(_convert_to(member, item) for member, item in zip(inner, value, strict=True))
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
    if isinstance(value, bool):  # bool is a subclass of int, but no number here
        raise ValueError
    if hint is str:
        return _require(value, isinstance(value, str))
    if hint is int:
        return int(value) if isinstance(value, str) else operator.index(value)
    if hint is float:
        return _require(float(value), math.isfinite(float(value)))
    return hint(value)


def _parse_mapping(value: Any) -> dict[Any, Any]:
    """Return a mapping as a dict, or parse a string "name=value; name=value"."""
    if not isinstance(value, str):
        return dict(value)
    pairs = [part.partition("=") for part in value.split(";") if part.strip()]
    _require(value, all(separator for _, separator, _ in pairs))
    return {name.strip(): text.strip() for name, _, text in pairs}


def _require(value: Any, condition: bool) -> Any:
    """Return the value if the condition holds, else raise ValueError."""
    if not condition:
        raise ValueError
    return value


def _describe_type(hint: Any) -> str:
    """Return a type as messages name it."""
    if hint is type(None):
        return "none"
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        first, *others = get_args(hint)
        count = "" if Ellipsis in others else f"{1 + len(others)} values, each "
        return f"a list of {count}{_describe_type(first)}"
    if get_origin(hint) is Mapping:
        return "name=value pairs separated by semicolons"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}.get(hint, str(hint))


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; a byte order mark is ignored."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error


def to_toml(values: Mapping[str, Any]) -> str:
    """Return the values as TOML. TOML has no null: entries that are None are dropped.

    >>> print(to_toml({"model": "hmm", "encoder": None, "settings": {"seed": 1}}), end="")
    model = "hmm"
    <BLANKLINE>
    [settings]
    seed = 1
    """
    try:
        return tomli_w.dumps(_drop_none(values))
    except TypeError as error:
        raise ConfigError(f"TOML cannot represent a value: {error}") from error


def _drop_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _drop_none(value) if isinstance(value, Mapping) else value
        for key, value in values.items()
        if value is not None
    }
