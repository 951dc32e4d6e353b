"""Checks that hold for all network models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import convener as cv
from tests.models.kills import killed_at

QUICK: dict[str, Any] = {"encoder": "hashing", "max_epochs": 2}


def assert_setting_matters(kind: type[cv.LabelModel], toy: cv.Dataset, setting: dict[str, Any]) -> None:
    """Another value of the setting gives other finite probabilities."""
    base = QUICK | {"batch_size": 8}
    usual = kind(**base).fit(toy, toy[:15]).predict(toy).probabilities
    other = kind(**(base | setting)).fit(toy, toy[:15]).predict(toy).probabilities
    assert usual is not None
    assert other is not None
    assert np.isfinite(other).all()
    assert not np.array_equal(usual, other)


def assert_valid_gold_is_used_only_if_allowed(
    kind: type[cv.LabelModel], toy: cv.Dataset, part: str, **settings: object
) -> None:
    """Gold of valid decides when to stop only if `use_valid_gold`; the weights `part` are compared."""
    how = {"encoder": "hashing", "max_epochs": 6, "learning_rate": 0.05, **settings}
    late = kind(**how).fit(toy, toy[:0]).predict(toy).labels  # no validation data

    def weights(gold: np.ndarray, *, use_gold: bool) -> bytes:
        model = kind(**how).fit(toy, toy.with_gold(gold), use_valid_gold=use_gold)
        return model.fitted.params[part].tobytes()

    nothing = np.zeros_like(late)
    assert weights(late, use_gold=False) == weights(nothing, use_gold=False)
    assert weights(late, use_gold=True) != weights(nothing, use_gold=True)


def assert_second_fit_continues(kind: type[cv.LabelModel], toy: cv.Dataset, part: str) -> None:
    """A second fit starts from the weights of the first, not from the initial ones."""
    once = kind(**QUICK).fit(toy, toy)
    before = once.fitted.params[part].copy()
    after = once.fit(toy, toy).fitted.params[part]
    assert not np.array_equal(after, before)
    assert not np.array_equal(after, kind(**QUICK).fit(toy, toy).fitted.params[part])


def assert_killed_fit_resumes(kind: type[cv.LabelModel], toy: cv.Dataset, folder: Path, step: int) -> None:
    """A fit killed at an optimizer step, counted from 1, resumes from its checkpoint and ends in the same bytes."""
    how = QUICK | {"batch_size": 16}
    straight = kind(**how).fit(toy, toy).fitted.params
    with killed_at(step):
        kind(**how).fit(toy, toy, checkpoint_dir=folder)
    assert any(folder.iterdir())
    again = kind(**how).fit(toy, toy, checkpoint_dir=folder).fitted.params
    assert all(again[name].tobytes() == straight[name].tobytes() for name in straight)
    assert not any(folder.iterdir())
