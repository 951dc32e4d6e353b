"""Time and memory: alternating measurements, optimizer steps of a fit, calls in a fresh process."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

ROOT = Path(__file__).parents[2]
WINDOW = 0.1
"""Seconds that a measurement lasts at least: over less, the clock can miss the time of a library's
own threads (one step of dynamax was measured as 0.14 ms of CPU in 1.5 ms of wall time)."""


def median_times(steps: Mapping[str, Callable[[], object]], rounds: int, *, window: float = WINDOW) -> dict[str, float]:
    """Median CPU milliseconds of each step; the steps alternate, so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    repeats = {}
    for name, step in steps.items():
        step()  # compiles, allocates
        begin = time.perf_counter()
        step()
        repeats[name] = max(1, math.ceil(window / (time.perf_counter() - begin)))
    for _ in range(rounds):
        for name, step in steps.items():
            begin = time.process_time()
            for _ in range(repeats[name]):
                step()
            times[name].append(1e3 * (time.process_time() - begin) / repeats[name])
    return {name: statistics.median(values) for name, values in times.items()}


class StepClock:
    """Records the CPU time at the end of every optimizer step while it is active.

    Each training stage has an optimizer of its own; `stages` lists their times in order. Uses
    torch's global optimizer hooks, so the code that trains needs no change.
    """

    def __init__(self) -> None:
        self._optimizers: list[Any] = []
        self.stages: list[list[float]] = []

    def __enter__(self) -> Self:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        self._handle = register_optimizer_step_post_hook(self._record)
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._handle.remove()

    def _record(self, optimizer: Any, *_: Any) -> None:
        if not self._optimizers or optimizer is not self._optimizers[-1]:
            self._optimizers.append(optimizer)
            self.stages.append([])
        self.stages[-1].append(time.process_time())


def epoch_costs(times: list[float], epochs: int) -> dict[str, float | None]:
    """CPU seconds of an epoch's training and of the validation after it, medians over epochs.

    times: ends of all optimizer steps of a stage. The validation lies between the last step of an
    epoch and the first of the next; the rest of that interval is one step of average length.
    None where epochs have a single step, which cannot be told from the validation.
    """
    steps = len(times) // epochs if epochs and len(times) % epochs == 0 else 0
    if steps < 2:
        return {"cpu_per_epoch": None, "cpu_validation": None}
    ends = np.array(times).reshape(epochs, steps)
    step = (ends[:, -1] - ends[:, 0]) / (steps - 1)
    between = ends[1:, 0] - ends[:-1, -1] - step[:-1]
    return {
        "cpu_per_epoch": round(float(np.median(step * steps)), 4),
        "cpu_validation": round(float(np.median(between)), 4) if len(between) else None,
    }


def call_in_process(function: str, *arguments: Any) -> Any:
    """Call "module:function" in a new process; arguments and result pass as JSON."""
    module, _, name = function.partition(":")
    code = f"import json, sys; from {module} import {name}; print(json.dumps({name}(*json.loads(sys.argv[1]))))"
    command = [sys.executable, "-c", code, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(f"{function} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def is_installed(package: str) -> bool:
    """Whether a package that is compared with is installed; named on standard error where not."""
    found = find_spec(package) is not None
    if not found:
        print(f"{package}: not installed; skipped", file=sys.stderr)
    return found


def peak_memory() -> int:
    """Peak resident memory of this process in bytes, without that of the process it was forked from."""
    return _memory("VmHWM")


def resident_memory() -> int:
    """Resident memory of this process in bytes."""
    return _memory("VmRSS")


def _memory(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(field))
    return 1024 * int(line.split()[1])


def reset_peak_memory() -> None:
    """Measure peak memory from here on."""
    Path("/proc/self/clear_refs").write_text("5")
