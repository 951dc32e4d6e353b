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
from itertools import groupby
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
        self.jobs: deque[Job] = deque()

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

    def overdue(self, seconds: float) -> bool:
        """Whether it has been busy with one text, or one batch, for too long."""
        late = time.monotonic() - self.since.value > seconds
        return bool(late and not self.connection.poll())

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class _Queue:
    """Jobs about the same texts stay together: who has seen the texts does the next of them.

    At the end, who has nothing left to do helps with the longest list.
    """

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._waiting = deque(deque(some) for _, some in groupby(jobs, lambda job: job[1:3]))
        self._begun: list[deque[Job]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting) or any(self._begun)

    def next_for(self, member: _Member) -> Job | None:
        """The job that a member does next, if there is one."""
        if not member.jobs:
            if self._waiting:
                self._begun = [some for some in self._begun if some] + [self._waiting.popleft()]
                member.jobs = self._begun[-1]
            else:
                member.jobs = max(self._begun, key=len, default=member.jobs)
        return member.jobs.popleft() if member.jobs else None

    def put_back(self, jobs: list[Job]) -> None:
        """These are done before all others."""
        if jobs:
            self._waiting.appendleft(deque(jobs))


def pieces(
    worker: Worker, jobs: Iterable[Job], *, workers: int, seconds: float | None
) -> Iterator[Piece]:
    """What the functions say, in the order in which it is ready.

    jobs: those about the same texts next to each other. seconds: how long a function may take for
    one text. A batch that takes longer is given up and its texts are done one by one, so that
    nothing is lost but time.
    """
    queue = _Queue(jobs)
    members: list[_Member] = []
    try:
        while queue or any(member.job for member in members):
            while queue and len(members) < workers:
                members.append(_Member(worker))
            for member in members:
                if member.job is None and (job := queue.next_for(member)):
                    member.begin(job)
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
                elif seconds is not None and member.overdue(seconds):
                    lost = TIMEOUT
                if lost:
                    members.remove(member)
                    member.end()
                    yield from _given_up(member, job, lost, seconds, queue)
    finally:
        for member in members:
            member.end()


def _given_up(
    member: _Member, job: Job, kind: str, seconds: float | None, queue: _Queue
) -> Iterator[Piece]:
    """Put back what a process that was lost had still to do, without the text it stuck at."""
    text = int(member.text.value)
    if text == BATCH and not job.singly and job.stop - job.start > 1:
        queue.put_back([job._replace(singly=True)])
        return
    text = job.start if text == BATCH else text
    code = member.process.exitcode
    said = f"more than {seconds:g} s" if kind == TIMEOUT else f"the process ended ({code})"
    yield job.given_up(text, kind, said)
    queue.put_back(job.around(text))
