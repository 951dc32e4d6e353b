"""Messages that name their place and show what came."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from reprlib import Repr

from convener.errors import ConvenerError, DataError, first_line

_truncated_repr = Repr()
_truncated_repr.maxstring = _truncated_repr.maxother = 60


def short_repr(value: object) -> str:
    """A value as a message shows it: its repr, cut short."""
    return _truncated_repr.repr(value)


@contextmanager
def error_location(where: str) -> Iterator[None]:
    """Names the place in front of what a check says, unless it does itself."""
    try:
        yield
    except DataError as error:
        if str(error).startswith(where):
            raise
        raise type(error)(f"{where}: {error}") from error


@contextmanager
def wrap_errors(where: str, file_kind: str) -> Iterator[None]:
    """Says of any failure inside that the file is not what it should be.

    Libraries meet broken files with exceptions of every kind, so every kind is caught here.
    """
    try:
        yield
    except (ConvenerError, MemoryError):
        raise
    except Exception as error:
        raise DataError(f"{where}: not a readable {file_kind}: {first_line(error)}") from error
