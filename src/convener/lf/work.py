"""One function at work on some texts: nothing it does can cost more than its own votes there."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.lf.function import LabelingFunction, Scope, Span
from convener.lf.texts import Texts
from convener.lf.view import View

ERROR, TIMEOUT, CRASH = "error", "timeout", "crash"
FAILURES = (ERROR, TIMEOUT, CRASH)
BATCH = -1
"""In place of a text's number: the function is busy with all of them."""
Watch = Callable[[int], None]
"""Is told which text a function turns to next."""


class Event(NamedTuple):
    """Something to report of a text: its number, what kind of thing, and what happened."""

    text: int
    kind: str
    detail: str


class Piece(NamedTuple):
    """What one function says of some consecutive texts.

    spans (S, 4): text, start, end, number of the label; abstains: texts, by number.
    """

    function: int
    start: int
    stop: int
    spans: NDArray[np.int64]
    abstains: NDArray[np.int64]
    events: tuple[Event, ...]
    seconds: float


class Job(NamedTuple):
    """A function, by number, and the texts it is to look at, perhaps one by one."""

    function: int
    start: int
    stop: int
    singly: bool = False

    def around(self, text: int) -> list[Job]:
        """What remains to be done when one text is given up."""
        parts = [(self.start, text), (text + 1, self.stop)]
        return [self._replace(start=a, stop=b) for a, b in parts if a < b]

    def given_up(self, text: int, kind: str, detail: str) -> Piece:
        """What is said of a text that cannot be looked at: nothing, and why."""
        nothing = np.zeros((0, 4), np.int64)
        event = Event(text, kind, detail)
        return Piece(self.function, text, text + 1, nothing, np.array([text]), (event,), 0.0)


class Worker:
    """Does jobs one after the other; the views of the last texts are kept for the next job."""

    def __init__(self, functions: Sequence[LabelingFunction], texts: Mapping[Scope, Texts]) -> None:
        self._functions, self._texts = functions, texts
        self._seen: tuple[tuple[str, int, int], list[View]] | None = None

    def done(self, job: Job, watch: Watch = lambda _: None) -> Piece:
        """What a function says of the texts; where it fails it abstains, and that is noted."""
        began = time.perf_counter()
        function = self._functions[job.function]
        views = self._views(function.scope, job)
        answers: list[list[Span] | None] | None = None
        events: list[Event] = []
        if function.find_all is not None and not job.singly:
            watch(BATCH)
            try:
                answers = function.answers(views)
            except (Exception, SystemExit):  # which text it was is found out one by one
                views = self._views(function.scope, job)
        if answers is None:
            answers = []
            for number, view in enumerate(views, start=job.start):
                watch(number)
                try:
                    answers.append(function.spans(view))
                except (Exception, SystemExit) as error:
                    answers.append(None)
                    events.append(Event(number, ERROR, described(error)))
        events += [
            Event(number, *note)
            for number, view in enumerate(views, start=job.start)
            for note in view.notes
        ]
        return _packed(job, function, answers, events, time.perf_counter() - began)

    def _views(self, scope: Scope, job: Job) -> list[View]:
        key = (scope, job.start, job.stop)
        if self._seen is None or self._seen[0] != key:
            self._seen = key, self._texts[scope].views(job.start, job.stop)
        for view in self._seen[1]:
            view.notes.clear()
        return self._seen[1]


def _packed(
    job: Job,
    function: LabelingFunction,
    answers: list[list[Span] | None],
    events: list[Event],
    seconds: float,
) -> Piece:
    numbers = {label: number for number, label in enumerate(function.labels)}
    rows = [
        (text, start, end, numbers[label])
        for text, spans in enumerate(answers, start=job.start)
        for start, end, label in spans or ()
    ]
    abstains = [text for text, spans in enumerate(answers, start=job.start) if spans is None]
    return Piece(
        job.function,
        job.start,
        job.stop,
        np.fromiter(chain.from_iterable(rows), np.int64, 4 * len(rows)).reshape(-1, 4),
        np.array(abstains, np.int64),
        tuple(sorted(events)),
        seconds,
    )


def described(error: BaseException) -> str:
    """An error in one line, with the place where it was raised."""
    lines = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    return f"{said} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else said
