"""Coarse labels: types that no truth has, and what each of them allows.

A source may know that something is an entity but not of which type, or that it is no person. Such
a label is a type like any other, at the end of a tag set's types, with a list of what it allows:
fine types, and "O" where it may be no entity at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError, unknown_name

Meaning = str | Sequence[str]
"""What a coarse label allows: "any", "not PER", "PER, LOC", or a list; "O" is no entity."""
OUTSIDE = "O"
ANY, NOT = "any", "not "


def meanings(coarse: Mapping[str, Meaning], types: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What each coarse label allows, spelled out: "O" first if it does, then types in their order.

    >>> meanings({"ENT": "any", "NOT-PER": "not PER"}, ["PER", "LOC", "ENT", "NOT-PER"])
    {'ENT': ('PER', 'LOC'), 'NOT-PER': ('O', 'LOC')}
    """
    fine = [name for name in types if name not in coarse]
    if coarse and OUTSIDE in types:
        raise DataError("beside coarse labels O is no entity, so no type may be called O")
    return {name: _meaning(name, meant, fine) for name, meant in coarse.items()}


def _meaning(name: str, meant: Meaning, fine: Sequence[str]) -> tuple[str, ...]:
    names = [OUTSIDE, *fine]
    if meant == ANY:
        chosen = set(fine)
    else:
        negated = isinstance(meant, str) and meant.startswith(NOT)
        listed = meant
        if isinstance(meant, str):
            listed = [part.strip() for part in meant.removeprefix(NOT).split(",")]
        for item in listed:
            if item not in names:
                known = unknown_name("entity type", str(item), names)
                raise DataError(f"coarse label {name!r}: {known}")
        chosen = set(names) - set(listed) if negated else set(listed)
    if not chosen:
        raise DataError(f"coarse label {name!r} allows nothing; expected types, or O")
    return tuple(item for item in names if item in chosen)


def fine_types(types: Sequence[str], coarse: Mapping[str, Meaning]) -> tuple[str, ...]:
    """The types that a truth may have.

    They come first; anything else is refused.
    """
    count = len(types) - len(coarse)
    if set(types[count:]) != set(coarse) or not count:
        raise DataError(
            f"coarse labels must be the last of the types, after at least one fine type; "
            f"got {', '.join(coarse)} with the types {', '.join(types)}"
        )
    return tuple(types[:count])


def allowed_labels(types: Sequence[str], coarse: Mapping[str, Sequence[str]]) -> NDArray[np.bool_]:
    """Which fine labels each label allows: itself if it is fine.  -> (S, L)

    S labels over all types, L over the fine ones. B- and I- of a coarse label allow B- and I- of
    its types; if it may be no entity, it tells nothing of boundaries, and both allow O, B- and I-.

    >>> allowed_labels(["PER", "LOC", "ENT"], {"ENT": ["PER", "LOC"]})[5:].astype(int).tolist()
    [[0, 1, 0, 1, 0], [0, 0, 1, 0, 1]]
    """
    fine = fine_types(types, coarse)
    size = 2 * len(fine) + 1
    allowed = np.zeros((2 * len(types) + 1, size), bool)
    allowed[np.arange(size), np.arange(size)] = True
    for number, name in enumerate(types[len(fine) :], start=len(fine)):
        begin, inside = allowed[2 * number + 1], allowed[2 * number + 2]
        kinds = np.array([fine.index(kind) for kind in coarse[name] if kind in fine], int)
        begin[2 * kinds + 1] = inside[2 * kinds + 2] = True
        if OUTSIDE in coarse[name]:
            begin[0] = True
            begin[2 * kinds + 2] = True
            inside[:] = begin
    return allowed
