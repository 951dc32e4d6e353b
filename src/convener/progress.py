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
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class Advance(Protocol):
    """Moves the bar on; `said` stands behind it."""

    def __call__(self, message: str = "", by: int = 1) -> None: ...


class _SpeedColumn(ProgressColumn):
    """How many units a second, as lately seen."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        super().__init__()

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {self.unit}/s")


@contextmanager
def progress_bar(title: str, total: int, *, unit: str = "", completed: int = 0) -> Iterator[Advance]:
    """A bar with what is done, time taken and time left, on standard error.

    With a unit, such as tokens, also the speed; `done` was there before the start.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *([_SpeedColumn(unit)] if unit else []),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}"),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total, said="", completed=completed)

        def advance(message: str = "", by: int = 1) -> None:
            progress.update(task, advance=by, said=message)

        yield advance
