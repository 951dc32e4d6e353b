"""Worker processes: a function that hangs or kills its process loses one text, nobody else any.

Workers are forked, so that functions of any kind come along, those of a notebook too, and large
gazetteers are shared. They only run labeling functions: no array mathematics, no threads.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from convener.lf.work import BATCH, CRASH, TIMEOUT, Job, Piece, Worker

TICK = 0.05
"""Longest time between two looks at the clock, in seconds."""


def can_fork() -> bool:
    """Whether this system has the kind of processes we need."""
    return "fork" in multiprocessing.get_all_start_methods()


class _Member:
    """One process, the job it does, and a place in shared memory where it tells how it goes."""

    def __init__(self, worker: Worker) -> None:
        context: Any = multiprocessing.get_context("fork")
        self.text, self.since = context.RawValue("q", BATCH), context.RawValue("d", 0.0)
        self.connection, inner = context.Pipe()
        self.process = context.Process(target=self._serve, args=(worker, inner), daemon=True)
        self.process.start()
        inner.close()
        self.job: Job | None = None

    def _serve(self, worker: Worker, connection: Connection) -> None:
        """What the process does until it is told to stop."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the calling process answers for all
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # not the drawer of a bar
        self.connection.close()

        def watch(text: int) -> None:
            self.text.value, self.since.value = text, time.monotonic()

        while True:
            try:
                job = connection.recv()
            except EOFError:
                return
            connection.send(worker.done(job, watch))

    def begin(self, job: Job) -> None:
        self.job = job
        self.text.value, self.since.value = BATCH, time.monotonic()
        with suppress(BrokenPipeError):  # it died idle; the next look at it tells
            self.connection.send(job)

    def overdue(self, job: Job, seconds: float) -> bool:
        """Whether it has been busy with one text for too long."""
        texts = job.stop - job.start if self.text.value == BATCH else 1
        late = time.monotonic() - self.since.value > seconds * texts
        return bool(late and not self.connection.poll())

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


def pieces(
    worker: Worker, jobs: Iterable[Job], *, workers: int, seconds: float | None
) -> Iterator[Piece]:
    """What the functions say, in the order in which it is ready.

    seconds: how long a function may take for one text; for all of a batch so long for each.
    """
    waiting = deque(jobs)
    members: list[_Member] = []
    try:
        while waiting or any(member.job for member in members):
            while waiting and len(members) < workers:
                members.append(_Member(worker))
            for member in members:
                if waiting and member.job is None:
                    member.begin(waiting.popleft())
            busy = [member.connection for member in members if member.job is not None]
            ready = wait(busy, None if seconds is None else min(TICK, seconds / 4))
            for member in list(members):
                job, lost = member.job, None
                if job is None:
                    continue
                if member.connection in ready:
                    try:
                        yield member.connection.recv()
                        member.job = None
                    except (EOFError, ConnectionError):
                        lost = CRASH
                elif seconds is not None and member.overdue(job, seconds):
                    lost = TIMEOUT
                if lost:
                    members.remove(member)
                    member.end()
                    yield from _given_up(member, job, lost, seconds, waiting)
    finally:
        for member in members:
            member.end()


def _given_up(
    member: _Member, job: Job, kind: str, seconds: float | None, waiting: deque[Job]
) -> Iterator[Piece]:
    """Put back what a process that was lost had still to do, without the text it stuck at."""
    text = int(member.text.value)
    if text == BATCH and not job.singly and job.stop - job.start > 1:
        waiting.appendleft(job._replace(singly=True))
        return
    text = job.start if text == BATCH else text
    code = member.process.exitcode
    said = f"more than {seconds:g} s" if kind == TIMEOUT else f"the process ended ({code})"
    yield job.given_up(text, kind, said)
    waiting.extendleft(reversed(job.around(text)))
