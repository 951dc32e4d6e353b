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
from convener.lf.texts import Docs
from convener.lf.view import Doc

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
