"""What can go wrong, by name.

::

    ConvenerError                 all that is raised on purpose; one line on the command line
    ├── DataError                 a file or an array does not hold what it should
    │   ├── FormatError           the format is unknown, or cannot carry the content
    │   └── NoTypesError          a file neither names entity types nor shows any
    ├── ConfigError               a setting is unknown or out of range
    ├── UnknownNameError          no model, split or source of that name
    ├── NotFittedError            a model was asked before it was fitted
    ├── MismatchError             data and model disagree about labels, sources or sizes
    └── MissingDependencyError    an optional dependency is not installed

    ConvenerWarning               a result that is usable, with a reservation
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from types import ModuleType


class ConvenerError(Exception):
    """Base of every error raised on purpose."""


class DataError(ConvenerError, ValueError):
    """A file or an array does not hold what it should."""


class FormatError(DataError):
    """A format is unknown, or cannot carry what it was given."""


class NoTypesError(DataError):
    """A file neither names entity types nor shows any."""


class ConfigError(ConvenerError, ValueError):
    """A setting is unknown or out of range."""


class UnknownNameError(ConvenerError, LookupError):
    """No model, split or source has that name."""


class NotFittedError(ConvenerError, RuntimeError):
    """A model was asked for results before it was fitted."""


class MismatchError(ConvenerError, ValueError):
    """Data and model disagree about labels, sources or sizes."""


class MissingDependencyError(ConvenerError, ImportError):
    """An optional dependency is not installed."""


class ConvenerWarning(UserWarning):
    """A result that is usable, with a reservation."""


def unknown_name_message(kind: str, name: str, available: Iterable[str]) -> str:
    """A sentence for a name that does not exist, with the nearest one that does.

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
    """Refuse names that do not exist, as settings."""
    known = list(available)
    for name in names:
        if name not in known:
            raise ConfigError(unknown_name_message(kind, name, known))


def first_line(error: BaseException) -> str:
    r"""What an error says, in one line; its kind where it says nothing.

    >>> first_line(ValueError("no such\nthing")), first_line(KeyError())
    ('no such', 'KeyError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependencyError(
            f"{purpose} needs {module.split('.')[0]}: pip install 'convener[{extra}]'"
        ) from error
