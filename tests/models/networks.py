"""What every chain with a network must do, of whatever kind it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import convener as cv
from tests.models.kills import killed_at

QUICK: dict[str, Any] = {"encoder": "hashing", "max_epochs": 2}


def assert_setting_matters(kind: type[cv.LabelModel], toy: cv.Dataset, setting: dict[str, Any]) -> None:
    """Another value gives other probabilities, and finite ones."""
    base = QUICK | {"batch_size": 8}
    usual = kind(**base).fit(toy, toy[:15]).predict(toy).probabilities
    other = kind(**(base | setting)).fit(toy, toy[:15]).predict(toy).probabilities
    assert usual is not None
    assert other is not None
    assert np.isfinite(other).all()
    assert not np.array_equal(usual, other)


def assert_gold_decides_only_if_allowed(
    kind: type[cv.LabelModel], toy: cv.Dataset, part: str, **settings: object
) -> None:
    """Of valid, when to stop; `part` names weights that show it."""
    how = {"encoder": "hashing", "max_epochs": 6, "learning_rate": 0.05, **settings}
    late = kind(**how).fit(toy, toy[:0]).predict(toy).labels  # nothing to stop by

    def weights(gold: np.ndarray, *, use_gold: bool) -> bytes:
        model = kind(**how).fit(toy, toy.with_gold(gold), use_valid_gold=use_gold)
        return model.fitted.params[part].tobytes()

    nothing = np.zeros_like(late)
    assert weights(late, use_gold=False) == weights(nothing, use_gold=False)
    assert weights(late, use_gold=True) != weights(nothing, use_gold=True)


def assert_second_fit_goes_on(kind: type[cv.LabelModel], toy: cv.Dataset, part: str) -> None:
    """Weights move from where the first fit left them, not from the start."""
    once = kind(**QUICK).fit(toy, toy)
    before = once.fitted.params[part].copy()
    after = once.fit(toy, toy).fitted.params[part]
    assert not np.array_equal(after, before)
    assert not np.array_equal(after, kind(**QUICK).fit(toy, toy).fitted.params[part])


def assert_killed_fit_goes_on(kind: type[cv.LabelModel], toy: cv.Dataset, folder: Path, step: int) -> None:
    """From its journal, to the same bytes; killed at a step of the optimizer, counted from 1."""
    how = QUICK | {"batch_size": 16}
    straight = kind(**how).fit(toy, toy).fitted.params
    with killed_at(step):
        kind(**how).fit(toy, toy, checkpoint_dir=folder)
    assert any(folder.iterdir())
    again = kind(**how).fit(toy, toy, checkpoint_dir=folder).fitted.params
    assert all(again[name].tobytes() == straight[name].tobytes() for name in straight)
    assert not any(folder.iterdir())
