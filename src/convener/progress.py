"""Progress bars on terminals; no output elsewhere, and none if the user asked for quiet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
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

_QUIET = ContextVar("quiet", default=False)


def set_quiet(quiet: bool) -> None:
    """Show no progress bars from now on, or show them again."""
    _QUIET.set(quiet)


def is_quiet() -> bool:
    """Whether progress and remarks are not to be shown."""
    return _QUIET.get()


class Advance(Protocol):
    """Advances a progress bar; the message is shown after it."""

    def __call__(self, message: str = "", by: int = 1) -> None: ...


class _SpeedColumn(ProgressColumn):
    """Recent speed in units per second."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        super().__init__()

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} {self.unit}/s")


@contextmanager
def progress_bar(title: str, total: int, *, unit: str = "", completed: int = 0) -> Iterator[Advance]:
    """A progress bar on standard error: completed steps, elapsed and remaining time.

    With a unit, such as tokens, it also shows the speed. `completed` steps were done before the start.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *([_SpeedColumn(unit)] if unit else []),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[message]}"),
    )
    console = Console(stderr=True)
    disable = is_quiet() or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disable) as progress:
        task = progress.add_task(title, total=total, message="", completed=completed)

        def advance(message: str = "", by: int = 1) -> None:
            progress.update(task, advance=by, message=message)

        yield advance
