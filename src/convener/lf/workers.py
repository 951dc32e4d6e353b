"""Worker processes that run labeling functions with a time limit per text.

A function that hangs or crashes its process loses one text; all other results are kept. Workers
are forked, so that functions need not be picklable (for example those of a notebook) and large
gazetteers are shared. They run only labeling functions: no numerical libraries, no threads.
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
POLL_INTERVAL = 0.05
"""Maximum time between two checks for timeouts, in seconds."""
WHOLE_BATCH = -1
"""Used instead of the index of a text while a function processes a batch."""
OnStart = Callable[[int], None]
"""Called with the index of the text that a function processes next."""


class LocatedIssue(NamedTuple):
    """An issue with the index of its text. Cached with the votes, so it names neither function nor location."""

    doc_index: int
    kind: str
    detail: str


class ChunkResult(NamedTuple):
    """Result of one function on the texts `start` to `stop`.

    spans (S, 4)   text, start, end, label index
    abstained (A,) indices of the texts on which the function abstained
    """

    lf_index: int
    start: int
    stop: int
    spans: NDArray[np.int64]
    abstained: NDArray[np.int64]
    issues: tuple[LocatedIssue, ...]
    seconds: float


class Task(NamedTuple):
    """A function, by index, and the texts `start` to `stop` to process, as a batch or one by one."""

    lf_index: int
    start: int
    stop: int
    one_by_one: bool = False

    def without(self, doc_index: int) -> list[Task]:
        """Return the remaining tasks if one text is skipped."""
        ranges = [(self.start, doc_index), (doc_index + 1, self.stop)]
        return [self._replace(start=a, stop=b) for a, b in ranges if a < b]

    def failed_result(self, doc_index: int, kind: str, detail: str) -> ChunkResult:
        """Return the result for a text that cannot be processed: an abstention and an issue."""
        no_spans = np.zeros((0, 4), np.int64)
        issue = LocatedIssue(doc_index, kind, detail)
        return ChunkResult(self.lf_index, doc_index, doc_index + 1, no_spans, np.array([doc_index]), (issue,), 0.0)


class TaskRunner:
    """Runs tasks one at a time; the documents of the last task are kept for the next."""

    def __init__(self, functions: Sequence[LabelingFunction], docs_by_scope: Mapping[Scope, Docs]) -> None:
        self._functions, self._docs_by_scope = functions, docs_by_scope
        self._cached_docs: tuple[tuple[str, int, int], list[Doc]] | None = None

    def run(self, task: Task, on_start: OnStart = lambda _: None) -> ChunkResult:
        """Run a function on the texts of a task; where it raises it abstains and an issue is recorded."""
        start_time = time.perf_counter()
        function = self._functions[task.lf_index]
        docs = self._docs(function.scope, task)
        results: list[list[Span] | None] | None = None
        issues: list[LocatedIssue] = []
        if function.batch_func is not None and not task.one_by_one:
            on_start(WHOLE_BATCH)
            try:
                results = function.label_batch(docs)
            except (Exception, SystemExit):  # the failing text is found by running one by one
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
            LocatedIssue(number, *issue) for number, doc in enumerate(docs, start=task.start) for issue in doc.issues
        ]
        return _to_chunk_result(task, function, results, issues, time.perf_counter() - start_time)

    def _docs(self, scope: Scope, task: Task) -> list[Doc]:
        key = (scope, task.start, task.stop)
        if self._cached_docs is None or self._cached_docs[0] != key:
            self._cached_docs = key, self._docs_by_scope[scope].make_docs(task.start, task.stop)
        for doc in self._cached_docs[1]:
            doc.issues.clear()
        return self._cached_docs[1]


def run_tasks(
    runner: TaskRunner, tasks: Iterable[Task], *, num_workers: int, timeout: float | None
) -> Iterator[ChunkResult]:
    """Run tasks in worker processes and yield results in order of completion.

    tasks    grouped: those of the same texts next to each other
    timeout  time limit per text in seconds. A batch that exceeds it is stopped and its texts are
             run one by one, so that only the slow text is lost
    """
    queue = _TaskQueue(tasks)
    workers: list[_WorkerProcess] = []
    try:
        while queue or any(worker.task for worker in workers):
            while queue and len(workers) < num_workers:
                workers.append(_WorkerProcess(runner))
            for worker in workers:
                if worker.task is None and (task := queue.next_for(worker)):
                    worker.start(task)
            busy = [worker.connection for worker in workers if worker.task is not None]
            ready = wait(busy, None if timeout is None else min(POLL_INTERVAL, timeout / 4))
            for worker in list(workers):
                task, failure = worker.task, None
                if task is None:
                    continue
                if worker.connection in ready:
                    try:
                        yield worker.connection.recv()
                        worker.task = None
                    except (EOFError, ConnectionError):
                        failure = CRASH
                elif timeout is not None and worker.is_overdue(timeout):
                    failure = TIMEOUT
                if failure:
                    workers.remove(worker)
                    worker.kill()
                    yield from _recover_tasks(worker, task, failure, timeout, queue)
    finally:
        for worker in workers:
            worker.kill()


def can_fork() -> bool:
    """Return whether this platform can fork processes."""
    return "fork" in multiprocessing.get_all_start_methods()


def describe_error(error: BaseException) -> str:
    """Describe an error in one line, with file and line where it was raised."""
    lines = str(error).strip().splitlines()
    message = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    return f"{message} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else message


class _WorkerProcess:
    """A worker process, its current task, and its progress in shared memory."""

    def __init__(self, runner: TaskRunner) -> None:
        context: Any = multiprocessing.get_context("fork")
        self.current_doc, self.started_at = context.RawValue("q", WHOLE_BATCH), context.RawValue("d", 0.0)
        self.connection, child_connection = context.Pipe()
        self.process = context.Process(target=self._serve, args=(runner, child_connection), daemon=True)
        self.process.start()
        child_connection.close()
        self.task: Task | None = None
        self.tasks: deque[Task] = deque()

    def _serve(self, runner: TaskRunner, connection: Connection) -> None:
        """Run tasks until the connection is closed; the main loop of the process."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles interrupts
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # not a redirection by a progress bar
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
        with suppress(BrokenPipeError):  # it died while idle; the next check detects this
            self.connection.send(task)

    def is_overdue(self, timeout: float) -> bool:
        """Return whether the current text or batch exceeds the time limit."""
        late = time.monotonic() - self.started_at.value > timeout
        return bool(late and not self.connection.poll())

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class _TaskQueue:
    """Task queue that keeps the tasks of the same texts on the same worker.

    An idle worker without tasks of its own takes some from the longest group.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._pending = deque(deque(group) for _, group in groupby(tasks, lambda task: task[1:3]))
        self._started: list[deque[Task]] = []

    def __bool__(self) -> bool:
        return bool(self._pending) or any(self._started)

    def next_for(self, worker: _WorkerProcess) -> Task | None:
        """Return the next task for a worker, or None."""
        if not worker.tasks:
            if self._pending:
                self._started = [group for group in self._started if group] + [self._pending.popleft()]
                worker.tasks = self._started[-1]
            else:
                worker.tasks = max(self._started, key=len, default=worker.tasks)
        return worker.tasks.popleft() if worker.tasks else None

    def put_back(self, tasks: list[Task]) -> None:
        """Put tasks at the front of the queue."""
        if tasks:
            self._pending.appendleft(deque(tasks))


def _recover_tasks(
    worker: _WorkerProcess, task: Task, kind: str, timeout: float | None, queue: _TaskQueue
) -> Iterator[ChunkResult]:
    """Requeue the remaining texts of a failed worker, and yield an abstention for the text that failed."""
    doc_index = int(worker.current_doc.value)
    if doc_index == WHOLE_BATCH and not task.one_by_one and task.stop - task.start > 1:
        queue.put_back([task._replace(one_by_one=True)])
        return
    doc_index = task.start if doc_index == WHOLE_BATCH else doc_index
    if kind == TIMEOUT:
        detail = f"timed out after {timeout:g} s"
    else:
        detail = f"worker process died (exit code {worker.process.exitcode})"
    yield task.failed_result(doc_index, kind, detail)
    queue.put_back(task.without(doc_index))


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
    abstained = [doc_index for doc_index, spans in enumerate(results, start=task.start) if spans is None]
    return ChunkResult(
        task.lf_index,
        task.start,
        task.stop,
        np.fromiter(chain.from_iterable(rows), np.int64, 4 * len(rows)).reshape(-1, 4),
        np.array(abstained, np.int64),
        tuple(sorted(issues)),
        seconds,
    )
