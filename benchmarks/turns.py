"""Times of contenders that take turns in one run."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping

WINDOW = 0.1


def measured(steps: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median CPU milliseconds of each step over the rounds, all contenders in turns.

    A turn lasts at least `WINDOW` seconds: over less, the clock can miss the time of a library's
    own threads (one step of dynamax on Laptop was seen as 0.14 ms of CPU in 1.5 ms of wall time).
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    repeats = {}
    for name, step in steps.items():
        step()  # compiles, allocates
        begin = time.perf_counter()
        step()
        repeats[name] = max(1, math.ceil(WINDOW / (time.perf_counter() - begin)))
    for _ in range(rounds):
        for name, step in steps.items():
            begin = time.process_time()
            for _ in range(repeats[name]):
                step()
            times[name].append(1e3 * (time.process_time() - begin) / repeats[name])
    return {name: statistics.median(values) for name, values in times.items()}
