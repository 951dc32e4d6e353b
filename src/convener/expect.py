"""What arrays must be, with errors that say what was expected and what came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError, MismatchError


def that(holds: bool, message: str) -> None:
    """Anything else; the message says all."""
    if not holds:
        raise DataError(message)


def shape(what: str, came: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """An array of the expected shape."""
    that(came == expected, f"{what} must have shape {expected}, got {came}")


def labels(what: str, array: NDArray[Any], low: int, high: int) -> None:
    """Label ids: int16, from `low` to below `high`."""
    that(array.dtype == np.int16, f"{what} must be int16, got {array.dtype}")
    if array.size and not (low <= array.min() and array.max() < high):
        came = f"{array.min()} to {array.max()}"
        raise DataError(f"{what} must be labels in [{low}, {high}), got {came}")


def offsets(array: NDArray[Any], count: int) -> None:
    """Offsets of sentences with so many tokens in all."""
    that(array.ndim == 1 and len(array) > 0, f"offsets must hold M+1 numbers, got {array.shape}")
    ends = array[[0, -1]].tolist()
    that(ends == [0, count], f"offsets must run from 0 to the {count} tokens, got {ends}")
    falls = np.flatnonzero(np.diff(array) < 0)
    that(not len(falls), f"offsets must not decrease, got {array[falls[:1]]} then less")


def distinct(what: str, names: tuple[str, ...]) -> None:
    """No name twice."""
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    that(not twice, f"{what} must have different names, got twice: {', '.join(twice)}")


def joinable(parts: Sequence[Any], *, same: Sequence[str], held: Sequence[str]) -> None:
    """Parts that are the same in some attributes, and have the others all or none."""
    head = parts[0]
    for part in parts[1:]:
        for name in same:
            ours, theirs = getattr(head, name), getattr(part, name)
            if ours != theirs:
                raise MismatchError(f"cannot concatenate: {name} differ, {ours} and {theirs}")
        for name in held:
            if (getattr(part, name) is None) != (getattr(head, name) is None):
                raise MismatchError(f"cannot concatenate: only some parts have {name}")
