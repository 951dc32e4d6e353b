"""Issues: problems found and resolved while reading or labeling; and helpers for error messages."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from reprlib import Repr

from convener.errors import ConvenerError, ConvenerWarning, DataError, first_line


@dataclass(frozen=True)
class Issue:
    """One problem: its kind, location and source, and how it was resolved."""

    kind: str
    where: str
    source: str
    detail: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind} ({self.source}): {self.detail}"


@dataclass
class Issues:
    """A log of issues.

    >>> issues = Issues()
    >>> issues.add("overlap", "a.jsonl:3", "names", "kept 0-4 PER, dropped 2-4 LOC")
    >>> print(issues.summary())
    1 overlap; first: a.jsonl:3: overlap (names): kept 0-4 PER, dropped 2-4 LOC
    """

    items: list[Issue] = field(default_factory=list)

    def add(self, kind: str, where: str, source: str, detail: str) -> None:
        """Add one issue."""
        self.items.append(Issue(kind, where, source, detail))

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Issue]:
        return iter(self.items)

    def counts(self) -> dict[str, int]:
        """Number of issues of each kind."""
        return dict(Counter(issue.kind for issue in self.items))

    def summary(self) -> str:
        """One line: the counts and the first issue."""
        counts_text = ", ".join(f"{count} {kind}" for kind, count in self.counts().items())
        return f"{counts_text}; first: {self.items[0]}" if self.items else "no issues"

    def warn(self) -> None:
        """Issue the summary as one warning, if there are issues."""
        if self.items:
            warnings.warn(self.summary(), ConvenerWarning, stacklevel=3)


_truncated_repr = Repr()
_truncated_repr.maxstring = _truncated_repr.maxother = 60


def short_repr(value: object) -> str:
    """The repr of a value, truncated for messages."""
    return _truncated_repr.repr(value)


@contextmanager
def error_location(where: str) -> Iterator[None]:
    """Prefix the messages of data errors with a location, unless they start with it."""
    try:
        yield
    except DataError as error:
        if str(error).startswith(where):
            raise
        raise type(error)(f"{where}: {error}") from error


@contextmanager
def wrap_errors(where: str, file_kind: str) -> Iterator[None]:
    """Convert any exception to a data error: the file at `where` is not a readable `file_kind`.

    Libraries raise exceptions of many kinds for malformed files, so all are caught.
    """
    try:
        yield
    except (ConvenerError, MemoryError):
        raise
    except Exception as error:
        raise DataError(f"{where}: not a readable {file_kind}: {first_line(error)}") from error
