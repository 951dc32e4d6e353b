"""What happens inside a fit: its epochs with their CPU seconds, and one line on how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from convener import progress
from convener.neural import training


class Clock:
    """A score that notes when it was asked for and when it had answered, in CPU seconds."""

    def __init__(self, score: Callable[[], float]) -> None:
        self.score, self.asked, self.answered = score, list[float](), list[float]()

    def __call__(self) -> float:
        self.asked.append(time.process_time())
        value = self.score()
        self.answered.append(time.process_time())
        return value


@contextmanager
def epochs() -> Iterator[list[dict[str, Any]]]:
    """The stages that are trained inside, filled in when they have been."""
    seen: list[dict[str, Any]] = []

    def watched(net: Any, stages: Sequence[training.Stage], schedule: training.TrainingRun) -> Any:
        clock = None if schedule.validation_score is None else Clock(schedule.validation_score)
        history = training.train_network(net, stages, replace(schedule, validation_score=clock))
        seen.extend(_stage(stage, history, clock) for stage in stages)
        return history

    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            if name.startswith("convener.models.") and getattr(module, "run", None) is training.train_network:
                stack.enter_context(patch.object(module, "run", watched))
        yield seen


def _stage(stage: training.Stage, history: Sequence[training.EpochRecord], clock: Clock | None) -> dict[str, Any]:
    """How long one stage was trained, when it was best, and what an epoch cost."""
    places = [n for n, item in enumerate(history) if item.stage == stage.name]
    facts: dict[str, Any] = {"stage": stage.name, "epochs": len(places) - 1}
    if clock is None or not places:
        return facts
    scores = [history[n].score for n in places]
    recent = (scores[max(0, n + 1 - stage.score_window) : n + 1] for n in range(len(scores)))
    smoothed = [float(np.mean(part)) for part in recent]
    trained = [clock.asked[n] - clock.answered[n - 1] for n in places[1:]]
    judged = [clock.answered[n] - clock.asked[n] for n in places]
    return facts | {
        "best_epoch": int(np.argmax(smoothed)),
        "best_score": round(max(smoothed), 6),
        "cpu_per_epoch": round(float(np.median(trained)), 4) if trained else None,
        "cpu_judging": round(float(np.median(judged)), 4),
    }


@contextmanager
def one_bar(say: Callable[[str], None]) -> Iterator[None]:
    """Inside, the library's own bars become lines to `say`: two bars do not fit one terminal."""

    @contextmanager
    def bar(title: str, total: int, *, unit: str = "", done: int = 0) -> Iterator[Any]:
        count = done

        def advance(said: str = "", by: int = 1) -> None:
            nonlocal count
            count += by
            say(f"{title} {count:,}/{total:,} {said}")

        yield advance

    with patch.object(progress, "bar", bar):
        yield
