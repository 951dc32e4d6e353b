"""What is held out of training, to judge by."""

from __future__ import annotations

from typing import TypeVar

from convener.sentences import BySentence

S = TypeVar("S", bound=BySentence)
HELD_OUT = 0.1
"""Share of train that decides when to stop, where there is no valid."""


def held_out(train: S, valid: S | None, seed: int) -> tuple[S, S]:
    """What to train on, and what to judge by: valid, or else a tenth of train."""
    return train.split(1 - HELD_OUT, seed=seed) if valid is None else (train, valid)
