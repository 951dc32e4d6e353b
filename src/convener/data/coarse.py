"""Coarse labels: labels of sources that allow several fine types.

A source may know that something is an entity but not its type, or that it is not a person. Such a label is a type of
the tag set, after all fine types, with a list of the fine types it allows, and "O" if it may be no entity at all. Gold
labels and predictions are never coarse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError, unknown_name_message

CoarseSpec = str | Sequence[str]
"""Types that a coarse label allows: "any", "not PER", "PER, LOC", or a list; "O" stands for no entity."""
OUTSIDE = "O"
ANY, NOT = "any", "not "


def resolve_coarse_labels(coarse: Mapping[str, CoarseSpec], types: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The types that each coarse label allows: "O" first if allowed, then fine types in their order.

    >>> resolve_coarse_labels({"ENT": "any", "NOT-PER": "not PER"}, ["PER", "LOC", "ENT", "NOT-PER"])
    {'ENT': ('PER', 'LOC'), 'NOT-PER': ('O', 'LOC')}
    """
    fine = [name for name in types if name not in coarse]
    if coarse and OUTSIDE in types:
        raise DataError("entity type 'O' cannot be combined with coarse labels, where O stands for no entity")
    return {name: _resolve_coarse_label(name, spec, fine) for name, spec in coarse.items()}


def _resolve_coarse_label(name: str, spec: CoarseSpec, fine: Sequence[str]) -> tuple[str, ...]:
    choices = [OUTSIDE, *fine]
    if spec == ANY:
        allowed = set(fine)
    else:
        negated = isinstance(spec, str) and spec.startswith(NOT)
        type_names = spec
        if isinstance(spec, str):
            type_names = [part.strip() for part in spec.removeprefix(NOT).split(",")]
        for item in type_names:
            if item not in choices:
                message = unknown_name_message("entity type", str(item), choices)
                raise DataError(f"coarse label {name!r}: {message}")
        allowed = set(choices) - set(type_names) if negated else set(type_names)
    if not allowed:
        raise DataError(f"coarse label {name!r} allows nothing; expected entity types or O")
    return tuple(item for item in choices if item in allowed)


def fine_types(types: Sequence[str], coarse: Mapping[str, CoarseSpec]) -> tuple[str, ...]:
    """The types that are not coarse; an error unless they come before all coarse labels."""
    count = len(types) - len(coarse)
    if set(types[count:]) != set(coarse) or not count:
        raise DataError(
            f"coarse labels must be the last of the types, after at least one fine type; "
            f"got {', '.join(coarse)} with the types {', '.join(types)}"
        )
    return tuple(types[:count])


def allowed_labels(types: Sequence[str], coarse: Mapping[str, Sequence[str]]) -> NDArray[np.bool_]:
    """Which fine labels each label allows; a fine label allows only itself.  -> (S, L)

    S labels over all types, L over the fine ones. B- and I- of a coarse label allow B- and I- of its types. If it
    allows O, it does not determine boundaries: both allow O, and B- and I- of its types.

    >>> allowed_labels(["PER", "LOC", "ENT"], {"ENT": ["PER", "LOC"]})[5:].astype(int).tolist()
    [[0, 1, 0, 1, 0], [0, 0, 1, 0, 1]]
    """
    fine = fine_types(types, coarse)
    size = 2 * len(fine) + 1
    allowed = np.zeros((2 * len(types) + 1, size), bool)
    allowed[np.arange(size), np.arange(size)] = True
    for index, name in enumerate(types[len(fine) :], start=len(fine)):
        begin, inside = allowed[2 * index + 1], allowed[2 * index + 2]
        type_indices = np.array([fine.index(type_name) for type_name in coarse[name] if type_name in fine], int)
        begin[2 * type_indices + 1] = inside[2 * type_indices + 2] = True
        if OUTSIDE in coarse[name]:
            begin[0] = True
            begin[2 * type_indices + 2] = True
            inside[:] = begin
    return allowed
