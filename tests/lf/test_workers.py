"""Worker processes: timeouts, crashes, cleanup, scheduling."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from convener.data.dataset import Dataset
from convener.lf import workers
from convener.lf.doc import Doc, Docs
from convener.lf.function import labeling_function
from convener.lf.workers import CRASH, TIMEOUT, Task, TaskRunner

pytestmark = pytest.mark.slow


@labeling_function(["A"])
def slow(words: Doc) -> Any:
    time.sleep(0.05)
    return [(0, 1, "A")]


@labeling_function(["A"])
def stuck(words: Doc) -> Any:
    if words[0] in ("w3", "w4", "w9"):
        time.sleep(60)
    return [(0, 1, "A")]


@pytest.fixture
def texts() -> Docs:
    return Docs.from_dataset(Dataset.from_spans(["A"], [[f"w{n}"] for n in range(10)], {}), "sentence")


def children() -> int:
    return len(multiprocessing.active_children())


def test_closing_the_generator_ends_all_processes(texts: Docs) -> None:
    worker = TaskRunner([slow], {"sentence": texts})
    jobs = [Task(0, number, number + 1) for number in range(10)]
    before = children()
    found = workers.run_tasks(worker, jobs, num_workers=2, timeout=None)
    assert len(list(islice(found, 2))) == 2
    assert children() > before
    found.close()
    assert children() == before


def test_only_the_hanging_text_is_lost(texts: Docs) -> None:
    worker = TaskRunner([stuck], {"sentence": texts})
    pieces = list(workers.run_tasks(worker, [Task(0, 0, 10)], num_workers=2, timeout=0.2))
    pieces.sort(key=lambda piece: piece.start)
    assert [text for piece in pieces for text in range(piece.start, piece.stop)] == list(range(10))
    lost = [event.doc_index for piece in pieces for event in piece.issues]
    assert lost == [3, 4, 9]
    assert sum(len(piece.spans) for piece in pieces) == 7


def test_the_rest_of_a_task_without_one_text() -> None:
    job = Task(2, 5, 8, one_by_one=True)
    assert job.without(5) == [Task(2, 6, 8, True)]
    assert job.without(6) == [Task(2, 5, 6, True), Task(2, 7, 8, True)]
    assert Task(2, 5, 6).without(5) == []
    piece = job.failed_result(6, CRASH, "gone")
    assert (piece.start, piece.stop, piece.abstained.tolist()) == (6, 7, [6])
    assert piece.issues[0].kind == CRASH != TIMEOUT


def test_a_worker_that_dies_at_start_does_not_cause_an_endless_loop(
    texts: Docs, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = os.getpid()

    def docs(self: Docs, start: int, stop: int) -> Any:
        if os.getpid() != parent:
            os._exit(3)

    monkeypatch.setattr(Docs, "make_docs", docs)
    worker = TaskRunner([slow], {"sentence": texts})
    pieces = list(workers.run_tasks(worker, [Task(0, 0, 3)], num_workers=1, timeout=None))
    assert sorted(event.doc_index for piece in pieces for event in piece.issues) == [0, 1, 2]


SCRIPT = """
import os, time
import convener as cv
@cv.labeling_function(["A"])
def slow(words):
    open(f"{os.getpid()}.pid", "w").close()
    time.sleep(30)
data = cv.Dataset.from_spans(["A"], [["w"], ["w"]], {})
cv.apply_lfs([slow], data, num_workers=2, cache=False)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_parent_process(tmp_path: Path, how: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], cwd=tmp_path, stderr=subprocess.DEVNULL)
    _wait_until(lambda: list(tmp_path.glob("*.pid")))
    process.send_signal(how)
    process.wait(timeout=20)
    if how is signal.SIGINT:
        workers = [int(file.stem) for file in tmp_path.glob("*.pid")]
        _wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))
    else:  # nobody can end them; they end when their text does, for nobody listens
        for file in tmp_path.glob("*.pid"):
            os.kill(int(file.stem), signal.SIGKILL)


def _wait_until(holds: Any) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


class Member:
    """The part of a worker process that the queue uses."""

    def __init__(self) -> None:
        self.tasks: Any = []


def test_a_worker_keeps_the_tasks_of_its_texts() -> None:
    jobs = [Task(function, start, start + 1) for start in range(2) for function in range(3)]
    queue: Any = workers._TaskQueue(jobs)
    one, other = Member(), Member()
    taken = [queue.next_for(member) for member in (one, other, one, other)]
    assert [(job.lf_index, job.start) for job in taken] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert queue.next_for(one).start == 0
    assert queue.next_for(one) == Task(2, 1, 2)  # helps the other
    assert queue.next_for(other) is None
    assert not queue
    queue.put_back([])
    assert not queue
    queue.put_back([Task(5, 0, 1), Task(5, 3, 4)])
    assert queue
    assert [queue.next_for(other), queue.next_for(one)] == [Task(5, 0, 1), Task(5, 3, 4)]
    assert not queue
