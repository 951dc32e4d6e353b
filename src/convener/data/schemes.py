"""Tagging schemes: conversion between BIO label ids and tags in BIO, IO, IOBES, BILUO and variants.

In every scheme a prefix states one of five positions: outside, begin, inside, end, single. Tags can therefore be read
without naming the scheme; only writing needs its name.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError

Scheme = Literal["bio", "io", "iobes", "biluo"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
RepairPolicy = Literal["start", "drop", "error"]
REPAIR_POLICIES: tuple[RepairPolicy, ...] = get_args(RepairPolicy)


class ChunkPosition(IntEnum):
    """Position of a token in its span, or abstain."""

    ABSTAIN = -1
    OUTSIDE = 0
    BEGIN = 1
    INSIDE = 2
    END = 3
    SINGLE = 4


POSITION_BY_PREFIX = {
    "B": ChunkPosition.BEGIN,
    "I": ChunkPosition.INSIDE,
    "M": ChunkPosition.INSIDE,
    "E": ChunkPosition.END,
    "L": ChunkPosition.END,
    "S": ChunkPosition.SINGLE,
    "U": ChunkPosition.SINGLE,
    "W": ChunkPosition.SINGLE,
}
# Prefixes by position (OUTSIDE is always "O").
PREFIXES_BY_SCHEME: dict[Scheme, str] = {
    "bio": "OBIIB",
    "io": "OIIII",
    "iobes": "OBIES",
    "biluo": "OBILU",
}


def parse_tag(tag: str) -> tuple[ChunkPosition, str]:
    """Position and entity type of a tag; the type of O is "".

    >>> parse_tag("S-PER"), parse_tag("O")
    ((<ChunkPosition.SINGLE: 4>, 'PER'), (<ChunkPosition.OUTSIDE: 0>, ''))
    >>> parse_tag("NNP")
    Traceback (most recent call last):
    convener.errors.DataError: 'NNP' is not a chunk tag: expected O, or a prefix such as ...
    """
    if tag == "O":
        return ChunkPosition.OUTSIDE, ""
    if len(tag) > 2 and tag[1] in "-_" and tag[0] in POSITION_BY_PREFIX:
        return POSITION_BY_PREFIX[tag[0]], tag[2:]
    raise DataError(
        f"{tag!r} is not a chunk tag: expected O, or a prefix such as B- or I- before an entity "
        "type; labels without spans (parts of speech, say) are not what convener aggregates"
    )


def is_sentence_start(num_tokens: int, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True at the first token of every sentence.  -> (N,)"""
    first = np.zeros(num_tokens + 1, bool)
    first[offsets - offsets[0]] = True
    return first[:num_tokens]


def to_bio(
    position: NDArray[np.int8],
    type_index: NDArray[np.int16],
    offsets: NDArray[np.int64],
    repair: RepairPolicy = "start",
) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """BIO label ids of tokens with known positions and types, and the indices of illegal tokens.

    position (N,), type_index (N,) (ignored where position is OUTSIDE), offsets (M+1,).
    With `repair="start"` an illegal continuation starts a span, as in conlleval and by default in seqeval; with "drop"
    its complete span is removed, as in strict readers; "error" raises. Abstain stays -1.

    A span that is not closed is illegal only if END or SINGLE occurs in the array, which shows that the scheme closes
    spans. Pass all tags of a column in one call: a slice may be interpreted differently.
    -> labels (N,), indices of illegal tokens
    """
    num_tokens = len(position)
    is_first = is_sentence_start(num_tokens, offsets)
    starts = (position == ChunkPosition.BEGIN) | (position == ChunkPosition.SINGLE)
    continues = (position == ChunkPosition.INSIDE) | (position == ChunkPosition.END)
    is_open = (position == ChunkPosition.BEGIN) | (position == ChunkPosition.INSIDE)
    continues_span = np.zeros(num_tokens, bool)
    continues_span[1:] = continues[1:] & is_open[:-1] & (type_index[1:] == type_index[:-1])
    continues_span &= ~is_first
    is_illegal = continues & ~continues_span
    if (position >= ChunkPosition.END).any():  # only schemes that close spans can leave one open
        closed = np.zeros(num_tokens, bool)
        closed[:-1] = continues_span[1:]
        is_illegal |= is_open & ~closed
    illegal = np.flatnonzero(is_illegal)
    if len(illegal) and repair == "error":
        raise DataError(f"illegal tag sequence at token {illegal[0]} ({len(illegal)} illegal tags in total)")
    labels = np.where(continues_span, 2 * type_index + 2, 2 * type_index + 1).astype(np.int16)
    labels[~(starts | continues)] = 0
    if repair == "drop" and len(illegal):
        span_id = np.cumsum(~continues_span)
        has_illegal = np.zeros(int(span_id[-1]) + 1, bool)
        has_illegal[span_id[illegal]] = True
        labels[has_illegal[span_id]] = 0
    labels[position == ChunkPosition.ABSTAIN] = -1
    return labels, illegal


def is_io_or_iob1(position: NDArray[np.int8], type_index: NDArray[np.int16], offsets: NDArray[np.int64]) -> bool:
    """Whether a column of tags is IO or IOB1, in which I- may begin a span.

    IO uses only I-. IOB1 uses B- only between adjacent spans of the same type, so a B- elsewhere, or a tag that closes
    a span, shows another scheme.
    position (N,), type_index (N,) and offsets (M+1,) as in `to_bio`, of all tags of the column.

    >>> one = np.array([0, 4])
    >>> x, y = np.array([0, 0, 0, 0], np.int16), np.array([0, 0, 1, 1], np.int16)
    >>> is_io_or_iob1(np.array([0, 2, 2, 1], np.int8), x, one)  # O I-x I-x B-x
    True
    >>> is_io_or_iob1(np.array([0, 2, 1, 2], np.int8), y, one)  # O I-x B-y I-y
    False
    """
    begins = np.flatnonzero(position == ChunkPosition.BEGIN)
    if (position >= ChunkPosition.END).any() or (begins == 0).any():
        return False
    separates = (position[begins - 1] > ChunkPosition.OUTSIDE) & (type_index[begins - 1] == type_index[begins])
    return bool((separates & ~is_sentence_start(len(position), offsets)[begins]).all())


def from_bio(labels: NDArray[np.int16]) -> tuple[NDArray[np.int8], NDArray[np.int16]]:
    """Positions (N,) and type indices (N,) of BIO label ids: the inverse of `to_bio`."""
    position = np.where(labels > 0, 2 - labels % 2, labels).astype(np.int8)
    return position, ((labels - 1) // 2).astype(np.int16)


def scheme_codes(
    labels: NDArray[np.int16], offsets: NDArray[np.int64], types: tuple[str, ...], scheme: Scheme
) -> tuple[NDArray[np.int64], list[str]]:
    """Tags of legal BIO labels in a scheme, as codes and the tag of each code.

    The last tag stands for abstain and is empty.  -> codes (N,), tags
    """
    position, type_index = from_bio(labels)
    closes = np.ones(len(labels), bool)
    continues = (position[1:] == ChunkPosition.INSIDE) & ~is_sentence_start(len(labels), offsets)[1:]
    closes[:-1] = ~continues
    position[closes & (position == ChunkPosition.INSIDE)] = ChunkPosition.END
    position[closes & (position == ChunkPosition.BEGIN)] = ChunkPosition.SINGLE
    codes = np.where(position > 0, 4 * type_index.astype(np.int64) + position, 0)
    prefixes = PREFIXES_BY_SCHEME[scheme]
    names = ["O", *(f"{prefixes[p]}-{name}" for name in types for p in range(1, 5)), ""]
    codes[position == ChunkPosition.ABSTAIN] = len(names) - 1
    return codes, names
