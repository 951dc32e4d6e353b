"""Checks of the fields of datasets and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError, MismatchError

Unmarked = Literal["abstain", "outside"]
"""Meaning of a token that a source does not mark: "abstain" (almost no information: the source marks only what it
knows) or "outside" (a vote for O: the source read the text)."""
UNMARKED: tuple[Unmarked, ...] = get_args(Unmarked)


def check(condition: bool, message: str) -> None:
    """Raise a data error with this message unless the condition holds."""
    if not condition:
        raise DataError(message)


def check_shape(what: str, actual: tuple[int, ...], expected: tuple[int, ...]) -> None:
    """Check the shape of an array."""
    check(actual == expected, f"{what} must have shape {expected}, got {actual}")


def check_labels(what: str, array: NDArray[Any], low: int, high: int) -> None:
    """Check that label ids are int16 in [low, high)."""
    check(array.dtype == np.int16, f"{what} must be int16, got {array.dtype}")
    if array.size and not (low <= array.min() and array.max() < high):
        actual = f"{array.min()} to {array.max()}"
        raise DataError(f"{what} must be labels in [{low}, {high}), got {actual}")


def check_offsets(array: NDArray[Any], num_tokens: int) -> None:
    """Check the offsets of sentences with `num_tokens` tokens in total."""
    check(array.ndim == 1 and len(array) > 0, f"offsets must have shape (M+1,), got {array.shape}")
    ends = array[[0, -1]].tolist()
    check(ends == [0, num_tokens], f"offsets must run from 0 to the {num_tokens} tokens, got {ends}")
    decreases = np.flatnonzero(np.diff(array) < 0)
    check(not len(decreases), f"offsets must not decrease, but do after {array[decreases[:1]]}")


def check_unique(what: str, names: tuple[str, ...]) -> None:
    """Check that no name occurs twice."""
    duplicates = sorted({str(name) for name in names if names.count(name) > 1})
    check(not duplicates, f"{what} must have different names, got twice: {', '.join(duplicates)}")


def check_concat(parts: Sequence[Any], *, same: Sequence[str], optional: Sequence[str]) -> None:
    """Check that parts have equal `same` attributes, and each `optional` attribute all or none."""
    first = parts[0]
    for part in parts[1:]:
        for name in same:
            expected, actual = getattr(first, name), getattr(part, name)
            if expected != actual:
                raise MismatchError(f"cannot concatenate: {name} differ, {expected} and {actual}")
        for name in optional:
            if (getattr(part, name) is None) != (getattr(first, name) is None):
                raise MismatchError(f"cannot concatenate: only some parts have {name}")


def check_sources(names: tuple[str, ...], unmarked: Sequence[str], prior_precision: Sequence[float | None]) -> None:
    """Check that sources have different names, and each a meaning of unmarked tokens and a valid prior precision."""
    count = len(names)
    check_unique("sources", names)
    check(all(names), "names of sources must not be empty")
    check(
        len(unmarked) == count and set(unmarked) <= set(UNMARKED),
        f"unmarked must be 'abstain' or 'outside' for each of the {count} sources, got {unmarked}",
    )
    check(
        len(prior_precision) == count and all(value is None or 0 < value < 1 for value in prior_precision),
        f"prior_precision must be in (0, 1), or None if unknown, for each of the "
        f"{count} sources, got {prior_precision}",
    )
