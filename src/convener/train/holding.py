"""What is held out of training, to judge by."""

from __future__ import annotations

from typing import TypeVar

from convener.sentences import SentenceIndexed

S = TypeVar("S", bound=SentenceIndexed)
HELD_OUT_FRACTION = 0.1
"""Share of train that decides when to stop, where there is no valid."""


def hold_out(train: S, valid: S | None, seed: int) -> tuple[S, S]:
    """What to train on, and what to judge by: valid, or else a tenth of train."""
    return train.split(1 - HELD_OUT_FRACTION, seed=seed) if valid is None else (train, valid)
