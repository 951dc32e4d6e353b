"""Worker processes: a function that hangs or kills its process loses one text, nobody else any.

Workers are forked, so that functions of any kind come along, those of a notebook too, and large
gazetteers are shared. They only run labeling functions: no array mathematics, no threads.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, groupby
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.lf.doc import Doc, Docs, Scope
from convener.lf.function import LabelingFunction
from convener.lf.validation import Span

ERROR, TIMEOUT, CRASH = "error", "timeout", "crash"
FAILURES = (ERROR, TIMEOUT, CRASH)
WHOLE_BATCH = -1
"""In place of a text's number: the function is busy with all of them."""
OnStart = Callable[[int], None]
"""Is told which text a function turns to next."""


class LocatedIssue(NamedTuple):
    """Something to report of a text: its number, what kind of thing, and what happened."""

    doc_index: int
    kind: str
    detail: str


class ChunkResult(NamedTuple):
    """What one function says of some consecutive texts.

    spans (S, 4): text, start, end, number of the label; abstains: texts, by number.
    """

    lf_index: int
    start: int
    stop: int
    spans: NDArray[np.int64]
    abstained: NDArray[np.int64]
    issues: tuple[LocatedIssue, ...]
    seconds: float


class Task(NamedTuple):
    """A function, by number, and the texts it is to look at, perhaps one by one."""

    lf_index: int
    start: int
    stop: int
    one_by_one: bool = False

    def without(self, doc_index: int) -> list[Task]:
        """What remains to be done when one text is given up."""
        ranges = [(self.start, doc_index), (doc_index + 1, self.stop)]
        return [self._replace(start=a, stop=b) for a, b in ranges if a < b]

    def failed_result(self, doc_index: int, kind: str, detail: str) -> ChunkResult:
        """What is said of a text that cannot be looked at: nothing, and why."""
        no_spans = np.zeros((0, 4), np.int64)
        issue = LocatedIssue(doc_index, kind, detail)
        return ChunkResult(self.lf_index, doc_index, doc_index + 1, no_spans, np.array([doc_index]), (issue,), 0.0)


class TaskRunner:
    """Does jobs one after the other; the views of the last texts are kept for the next job."""

    def __init__(self, functions: Sequence[LabelingFunction], docs_by_scope: Mapping[Scope, Docs]) -> None:
        self._functions, self._docs_by_scope = functions, docs_by_scope
        self._cached_docs: tuple[tuple[str, int, int], list[Doc]] | None = None

    def run(self, task: Task, on_start: OnStart = lambda _: None) -> ChunkResult:
        """What a function says of the texts; where it fails it abstains, and that is noted."""
        start_time = time.perf_counter()
        function = self._functions[task.lf_index]
        docs = self._docs(function.scope, task)
        results: list[list[Span] | None] | None = None
        issues: list[LocatedIssue] = []
        if function.batch_func is not None and not task.one_by_one:
            on_start(WHOLE_BATCH)
            try:
                results = function.label_batch(docs)
            except (Exception, SystemExit):  # which text it was is found out one by one
                docs = self._docs(function.scope, task)
        if results is None:
            results = []
            for number, doc in enumerate(docs, start=task.start):
                on_start(number)
                try:
                    results.append(function.label(doc))
                except (Exception, SystemExit) as error:
                    results.append(None)
                    issues.append(LocatedIssue(number, ERROR, describe_error(error)))
        issues += [
            LocatedIssue(number, *issue) for number, view in enumerate(docs, start=task.start) for issue in view.issues
        ]
        return _to_chunk_result(task, function, results, issues, time.perf_counter() - start_time)

    def _docs(self, scope: Scope, task: Task) -> list[Doc]:
        key = (scope, task.start, task.stop)
        if self._cached_docs is None or self._cached_docs[0] != key:
            self._cached_docs = key, self._docs_by_scope[scope].make_docs(task.start, task.stop)
        for doc in self._cached_docs[1]:
            doc.issues.clear()
        return self._cached_docs[1]


def _to_chunk_result(
    task: Task,
    function: LabelingFunction,
    results: list[list[Span] | None],
    issues: list[LocatedIssue],
    seconds: float,
) -> ChunkResult:
    label_indices = {label: number for number, label in enumerate(function.labels)}
    rows = [
        (doc_index, start, end, label_indices[label])
        for doc_index, spans in enumerate(results, start=task.start)
        for start, end, label in spans or ()
    ]
    abstained = [text for text, spans in enumerate(results, start=task.start) if spans is None]
    return ChunkResult(
        task.lf_index,
        task.start,
        task.stop,
        np.fromiter(chain.from_iterable(rows), np.int64, 4 * len(rows)).reshape(-1, 4),
        np.array(abstained, np.int64),
        tuple(sorted(issues)),
        seconds,
    )


def describe_error(error: BaseException) -> str:
    """An error in one line, with the place where it was raised."""
    lines = str(error).strip().splitlines()
    message = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    return f"{message} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else message


POLL_INTERVAL = 0.05
"""Longest time between two looks at the clock, in seconds."""


def can_fork() -> bool:
    """Whether this system has the kind of processes we need."""
    return "fork" in multiprocessing.get_all_start_methods()


class _WorkerProcess:
    """One process, the job it does, and a place in shared memory where it tells how it goes."""

    def __init__(self, runner: TaskRunner) -> None:
        context: Any = multiprocessing.get_context("fork")
        self.current_doc, self.started_at = (
            context.RawValue("q", WHOLE_BATCH),
            context.RawValue("d", 0.0),
        )
        self.connection, child_connection = context.Pipe()
        self.process = context.Process(target=self._serve, args=(runner, child_connection), daemon=True)
        self.process.start()
        child_connection.close()
        self.task: Task | None = None
        self.tasks: deque[Task] = deque()

    def _serve(self, runner: TaskRunner, connection: Connection) -> None:
        """What the process does until it is told to stop."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the calling process answers for all
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # not the drawer of a bar
        self.connection.close()

        def on_start(doc_index: int) -> None:
            self.current_doc.value, self.started_at.value = doc_index, time.monotonic()

        while True:
            try:
                task = connection.recv()
            except EOFError:
                return
            connection.send(runner.run(task, on_start))

    def start(self, task: Task) -> None:
        self.task = task
        self.current_doc.value, self.started_at.value = WHOLE_BATCH, time.monotonic()
        with suppress(BrokenPipeError):  # it died idle; the next look at it tells
            self.connection.send(task)

    def is_overdue(self, timeout: float) -> bool:
        """Whether it has been busy with one text, or one batch, for too long."""
        late = time.monotonic() - self.started_at.value > timeout
        return bool(late and not self.connection.poll())

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class _TaskQueue:
    """Jobs about the same texts stay together: who has seen the texts does the next of them.

    At the end, who has nothing left to do helps with the longest list.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._pending = deque(deque(group) for _, group in groupby(tasks, lambda task: task[1:3]))
        self._started: list[deque[Task]] = []

    def __bool__(self) -> bool:
        return bool(self._pending) or any(self._started)

    def next_for(self, process: _WorkerProcess) -> Task | None:
        """The job that a member does next, if there is one."""
        if not process.tasks:
            if self._pending:
                self._started = [group for group in self._started if group] + [self._pending.popleft()]
                process.tasks = self._started[-1]
            else:
                process.tasks = max(self._started, key=len, default=process.tasks)
        return process.tasks.popleft() if process.tasks else None

    def put_back(self, tasks: list[Task]) -> None:
        """These are done before all others."""
        if tasks:
            self._pending.appendleft(deque(tasks))


def run_tasks(
    runner: TaskRunner, tasks: Iterable[Task], *, num_workers: int, timeout: float | None
) -> Iterator[ChunkResult]:
    """What the functions say, in the order in which it is ready.

    jobs: those about the same texts next to each other. seconds: how long a function may take for
    one text. A batch that takes longer is given up and its texts are done one by one, so that
    nothing is lost but time.
    """
    queue = _TaskQueue(tasks)
    processes: list[_WorkerProcess] = []
    try:
        while queue or any(process.task for process in processes):
            while queue and len(processes) < num_workers:
                processes.append(_WorkerProcess(runner))
            for member in processes:
                if member.task is None and (task := queue.next_for(member)):
                    member.start(task)
            busy = [member.connection for member in processes if member.task is not None]
            ready = wait(busy, None if timeout is None else min(POLL_INTERVAL, timeout / 4))
            for member in list(processes):
                task, failure = member.task, None
                if task is None:
                    continue
                if member.connection in ready:
                    try:
                        yield member.connection.recv()
                        member.task = None
                    except (EOFError, ConnectionError):
                        failure = CRASH
                elif timeout is not None and member.is_overdue(timeout):
                    failure = TIMEOUT
                if failure:
                    processes.remove(member)
                    member.kill()
                    yield from _recover_tasks(member, task, failure, timeout, queue)
    finally:
        for member in processes:
            member.kill()


def _recover_tasks(
    process: _WorkerProcess, task: Task, kind: str, timeout: float | None, queue: _TaskQueue
) -> Iterator[ChunkResult]:
    """Put back what a process that was lost had still to do, without the text it stuck at."""
    doc_index = int(process.current_doc.value)
    if doc_index == WHOLE_BATCH and not task.one_by_one and task.stop - task.start > 1:
        queue.put_back([task._replace(one_by_one=True)])
        return
    doc_index = task.start if doc_index == WHOLE_BATCH else doc_index
    exit_code = process.process.exitcode
    detail = f"more than {timeout:g} s" if kind == TIMEOUT else f"the process ended ({exit_code})"
    yield task.failed_result(doc_index, kind, detail)
    queue.put_back(task.without(doc_index))
