"""Messages that name their place and show what came."""

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
    """One decision: what happened, where, to which source, and what was done."""

    kind: str
    where: str
    source: str
    detail: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind} ({self.source}): {self.detail}"


@dataclass
class Issues:
    """All cases of one reading.

    >>> report = Issues()
    >>> report.add("overlap", "a.jsonl:3", "names", "kept 0-4 PER, dropped 2-4 LOC")
    >>> print(report.summary())
    1 overlap; first: a.jsonl:3: overlap (names): kept 0-4 PER, dropped 2-4 LOC
    """

    items: list[Issue] = field(default_factory=list)

    def add(self, kind: str, where: str, source: str, detail: str) -> None:
        """Note one case."""
        self.items.append(Issue(kind, where, source, detail))

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Issue]:
        return iter(self.items)

    def counts(self) -> dict[str, int]:
        """How often each kind occurred."""
        return dict(Counter(issue.kind for issue in self.items))

    def summary(self) -> str:
        """One line: the counts and the first case."""
        counts_text = ", ".join(f"{count} {kind}" for kind, count in self.counts().items())
        return f"{counts_text}; first: {self.items[0]}" if self.items else "nothing to report"

    def warn(self) -> None:
        """Say it as one warning, if there is anything to say."""
        if self.items:
            warnings.warn(self.summary(), ConvenerWarning, stacklevel=3)


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
