"""What is said of sources: their names, what their silence means, how precise they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError, MismatchError


def check(condition: bool, message: str) -> None:
    """Anything else; the message says all."""
    if not condition:
        raise DataError(message)


def check_shape(what: str, actual: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """An array of the expected shape."""
    check(actual == expected, f"{what} must have shape {expected}, got {actual}")


def check_labels(what: str, array: NDArray[Any], low: int, high: int) -> None:
    """Label ids: int16, from `low` to below `high`."""
    check(array.dtype == np.int16, f"{what} must be int16, got {array.dtype}")
    if array.size and not (low <= array.min() and array.max() < high):
        actual = f"{array.min()} to {array.max()}"
        raise DataError(f"{what} must be labels in [{low}, {high}), got {actual}")


def check_offsets(array: NDArray[Any], num_tokens: int) -> None:
    """Offsets of sentences with so many tokens in all."""
    check(array.ndim == 1 and len(array) > 0, f"offsets must hold M+1 numbers, got {array.shape}")
    ends = array[[0, -1]].tolist()
    check(ends == [0, num_tokens], f"offsets must run from 0 to the {num_tokens} tokens, got {ends}")
    decreases = np.flatnonzero(np.diff(array) < 0)
    check(not len(decreases), f"offsets must not decrease, got {array[decreases[:1]]} then less")


def check_unique(what: str, names: tuple[str, ...]) -> None:
    """No name twice."""
    duplicates = sorted({str(name) for name in names if names.count(name) > 1})
    check(not duplicates, f"{what} must have different names, got twice: {', '.join(duplicates)}")


def check_concat(parts: Sequence[Any], *, same: Sequence[str], optional: Sequence[str]) -> None:
    """Parts that are the same in some attributes, and have the others all or none."""
    first = parts[0]
    for part in parts[1:]:
        for name in same:
            expected, actual = getattr(first, name), getattr(part, name)
            if expected != actual:
                raise MismatchError(f"cannot concatenate: {name} differ, {expected} and {actual}")
        for name in optional:
            if (getattr(part, name) is None) != (getattr(first, name) is None):
                raise MismatchError(f"cannot concatenate: only some parts have {name}")


Silence = Literal["O", "abstain"]
SILENCES: tuple[Silence, ...] = get_args(Silence)


def check_sources(names: tuple[str, ...], silence: Sequence[str], prior_precision: Sequence[float | None]) -> None:
    """Different names, and for each of them what its silence means and its precision, if known."""
    count = len(names)
    check_unique("sources", names)
    check(all(names), "a source needs a name, got ''")
    check(
        len(silence) == count and set(silence) <= set(SILENCES),
        f"silence must be 'O' or 'abstain' for each of the {count} sources, got {silence}",
    )
    check(
        len(prior_precision) == count and all(value is None or 0 < value < 1 for value in prior_precision),
        f"precision must be in (0, 1), or None where it is not known, for each of the "
        f"{count} sources, got {prior_precision}",
    )
