"""Exception classes, suggestions for unknown names, and optional dependencies."""

from __future__ import annotations

import json

import pytest

from convener import errors
from convener.errors import ConvenerError, MissingDependencyError, require, unknown_name_message


def test_all_errors_are_convener_errors() -> None:
    raised = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, Exception)
        if not issubclass(value, Warning)
    ]
    assert len(raised) >= 8
    assert all(issubclass(error, ConvenerError) for error in raised)
    assert all(f" {error.__name__} " in (errors.__doc__ or "") for error in raised)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.DataError, ValueError),
        (errors.FormatError, errors.DataError),
        (errors.ConfigError, ValueError),
        (errors.UnknownNameError, LookupError),
        (errors.NotFittedError, RuntimeError),
        (errors.MismatchError, ValueError),
        (errors.MissingDependencyError, ImportError),
        (errors.ConvenerWarning, UserWarning),
    ],
)
def test_errors_derive_from_python_errors(error: type, builtin: type) -> None:
    assert issubclass(error, builtin)


def test_the_closest_name_is_suggested() -> None:
    assert unknown_name_message("x", "hm", ["hmm", "chmm"]) == "no x 'hm'; did you mean 'hmm'?"
    assert unknown_name_message("x", "zzz", ["hmm", "ds"]) == "no x 'zzz'; available: hmm, ds"
    assert unknown_name_message("x", "zzz", iter([])) == "no x 'zzz'; available: none"


def test_a_missing_dependency_names_its_extra() -> None:
    assert require("json", extra="x", purpose="reading") is json
    with pytest.raises(MissingDependencyError, match=r"reading needs no_such: pip install 'convener\[x"):
        require("no_such.part", extra="x", purpose="reading")
