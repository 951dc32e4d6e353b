"""Exceptions and warnings of Convener.

::

    ConvenerError                 base of all errors that users can handle; printed as one line by the command line
    ├── DataError                 a file or an array has unexpected content
    │   └── FormatError           the format is unknown, or cannot represent the content
    ├── ConfigError               a setting is unknown or out of range
    ├── UnknownNameError          no model, split or source has the name
    ├── NotFittedError            a model was used before it was fitted
    ├── MismatchError             data and model differ in labels, sources or sizes
    └── MissingDependencyError    an optional dependency is not installed

    ConvenerWarning               the result is usable, but the user should know about a problem
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class ConvenerError(Exception):
    """Base of all errors that users can handle."""


class DataError(ConvenerError, ValueError):
    """A file or an array has unexpected content."""


class FormatError(DataError):
    """The format is unknown, or cannot represent the content."""


class ConfigError(ConvenerError, ValueError):
    """A setting is unknown or out of range."""


class UnknownNameError(ConvenerError, LookupError):
    """No model, split or source has the name."""


class NotFittedError(ConvenerError, RuntimeError):
    """A model was used before it was fitted."""


class MismatchError(ConvenerError, ValueError):
    """Data and model differ in labels, sources or sizes."""


class MissingDependencyError(ConvenerError, ImportError):
    """An optional dependency is not installed."""


class ConvenerWarning(UserWarning):
    """The result is usable, but the user should know about a problem."""


def unknown_name_message(kind: str, name: str, available: Iterable[str]) -> str:
    """Message for an unknown name, with the closest known name or a list of all.

    >>> unknown_name_message("label model", "majorty-vote", ["best-consensus", "majority-vote"])
    "no label model 'majorty-vote'; did you mean 'majority-vote'?"
    >>> unknown_name_message("split", "dev", ["train", "test"])
    "no split 'dev'; available: train, test"
    """
    names = list(available)
    closest = difflib.get_close_matches(str(name), names, n=1)
    if closest:
        return f"no {kind} {name!r}; did you mean {closest[0]!r}?"
    return f"no {kind} {name!r}; available: {', '.join(names) or 'none'}"


def check_known(kind: str, names: Iterable[str], available: Iterable[str]) -> None:
    """Raise a configuration error for the first unknown name."""
    known = list(available)
    for name in names:
        if name not in known:
            raise ConfigError(unknown_name_message(kind, name, known))


def first_line(error: BaseException) -> str:
    r"""First line of the message of an error; the name of its class if the message is empty.

    >>> first_line(ValueError("no such\nthing")), first_line(KeyError())
    ('no such', 'KeyError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency; if it is missing, the error names the extra that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose} needs {module.split('.')[0]}: pip install 'convener[{extra}]'"
        ) from error
