"""Progress of long work: a bar on a terminal, silence elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Advance(Protocol):
    """Moves the bar on by one step; `said` stands behind it."""

    def __call__(self, said: str = "") -> None: ...


@contextmanager
def bar(title: str, total: int) -> Iterator[Advance]:
    """A bar with steps done, time taken and time left, on standard error."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as on:
        task = on.add_task(title, total=total, said="")

        def advance(said: str = "") -> None:
            on.update(task, advance=1, said=said)

        yield advance
