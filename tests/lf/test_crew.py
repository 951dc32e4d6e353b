"""Processes: none is left behind, and none waits for another."""

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

from convener.data import Dataset
from convener.lf import View, crew, labeling_function
from convener.lf.texts import Texts
from convener.lf.work import CRASH, TIMEOUT, Job, Worker


@labeling_function(["A"])
def slow(words: View) -> Any:
    time.sleep(0.05)
    return [(0, 1, "A")]


@labeling_function(["A"])
def stuck(words: View) -> Any:
    if words[0] in ("w3", "w4", "w9"):
        time.sleep(60)
    return [(0, 1, "A")]


@pytest.fixture
def texts() -> Texts:
    return Texts.of(Dataset.from_spans(["A"], [[f"w{n}"] for n in range(10)], {}), "sentence")


def children() -> int:
    return len(multiprocessing.active_children())


def test_no_process_is_left_when_one_stops_listening(texts: Texts) -> None:
    worker = Worker([slow], {"sentence": texts})
    jobs = [Job(0, number, number + 1) for number in range(10)]
    before = children()
    found = crew.pieces(worker, jobs, workers=2, seconds=None)
    assert len(list(islice(found, 2))) == 2
    assert children() > before
    found.close()
    assert children() == before


def test_a_text_is_given_up_and_the_rest_is_done(texts: Texts) -> None:
    worker = Worker([stuck], {"sentence": texts})
    pieces = list(crew.pieces(worker, [Job(0, 0, 10)], workers=2, seconds=0.2))
    pieces.sort(key=lambda piece: piece.start)
    assert [text for piece in pieces for text in range(piece.start, piece.stop)] == list(range(10))
    lost = [event.text for piece in pieces for event in piece.events]
    assert lost == [3, 4, 9]
    assert sum(len(piece.spans) for piece in pieces) == 7


def test_what_remains_of_a_job() -> None:
    job = Job(2, 5, 8, singly=True)
    assert job.around(5) == [Job(2, 6, 8, True)]
    assert job.around(6) == [Job(2, 5, 6, True), Job(2, 7, 8, True)]
    assert Job(2, 5, 6).around(5) == []
    piece = job.given_up(6, CRASH, "gone")
    assert (piece.start, piece.stop, piece.abstains.tolist()) == (6, 7, [6])
    assert piece.events[0].kind == CRASH != TIMEOUT


def test_a_worker_that_dies_before_it_begins_does_not_go_round_in_circles(
    texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = os.getpid()

    def views(self: Texts, start: int, stop: int) -> Any:
        if os.getpid() != parent:
            os._exit(3)

    monkeypatch.setattr(Texts, "views", views)
    worker = Worker([slow], {"sentence": texts})
    pieces = list(crew.pieces(worker, [Job(0, 0, 3)], workers=1, seconds=None))
    assert sorted(event.text for piece in pieces for event in piece.events) == [0, 1, 2]


SCRIPT = """
import os, time
import convener as cv
@cv.labeling_function(["A"])
def slow(words):
    open(f"{os.getpid()}.pid", "w").close()
    time.sleep(30)
data = cv.Dataset.from_spans(["A"], [["w"], ["w"]], {})
cv.apply([slow], data, workers=2, cache=False)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_when_the_run_ends_its_workers_do(tmp_path: Path, how: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, stderr=subprocess.DEVNULL
    )
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
