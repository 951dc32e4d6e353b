"""How chunk tags spell spans: BIO, IO, IOBES, BILUO and their kin, read as one language.

Every scheme says of a token one of five things: outside, begins, is inside, ends, is alone.
Reading therefore needs no name of a scheme; only writing does.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError

Scheme = Literal["bio", "io", "iobes", "biluo"]
SCHEMES: tuple[Scheme, ...] = get_args(Scheme)
Repair = Literal["begin", "drop", "error"]
REPAIRS: tuple[Repair, ...] = get_args(Repair)


class Place(IntEnum):
    """What a tag's prefix says of its token."""

    ABSTAIN = -1
    OUTSIDE = 0
    BEGIN = 1
    INSIDE = 2
    END = 3
    SINGLE = 4


PREFIXES = {
    "B": Place.BEGIN,
    "I": Place.INSIDE,
    "M": Place.INSIDE,
    "E": Place.END,
    "L": Place.END,
    "S": Place.SINGLE,
    "U": Place.SINGLE,
    "W": Place.SINGLE,
}
# Written prefixes, by place (OUTSIDE is always "O").
WRITTEN: dict[Scheme, str] = {"bio": "OBIIB", "io": "OIIII", "iobes": "OBIES", "biluo": "OBILU"}


def parse_tag(tag: str) -> tuple[Place, str]:
    """Place and entity type of a tag; the type of O is "".

    >>> parse_tag("S-PER"), parse_tag("O")
    ((<Place.SINGLE: 4>, 'PER'), (<Place.OUTSIDE: 0>, ''))
    >>> parse_tag("NNP")
    Traceback (most recent call last):
    convener.errors.DataError: 'NNP' is not a chunk tag: expected O, or a prefix such as ...
    """
    if tag == "O":
        return Place.OUTSIDE, ""
    if len(tag) > 2 and tag[1] in "-_" and tag[0] in PREFIXES:
        return PREFIXES[tag[0]], tag[2:]
    raise DataError(
        f"{tag!r} is not a chunk tag: expected O, or a prefix such as B- or I- before an entity "
        "type; labels without spans (parts of speech, say) are not what convener aggregates"
    )


def sentence_starts(size: int, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True at the first token of every sentence.  -> (N,)"""
    first = np.zeros(size + 1, bool)
    first[offsets - offsets[0]] = True
    return first[:size]


def bio_labels(
    place: NDArray[np.int8],
    kind: NDArray[np.int16],
    offsets: NDArray[np.int64],
    repair: Repair = "begin",
) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
    """BIO label ids of tokens whose places and types are known, and where the tags were illegal.

    place (N,), kind (N,) the number of the entity type (any value outside), offsets (M+1,).
    `begin` lets an illegal continuation begin a span, as conlleval and seqeval's default do;
    `drop` removes what it belongs to, as strict readers do. Abstain stays -1.

    A span left open is illegal only where tags can close: where END or SINGLE occurs anywhere in
    the array. What one scheme spells belongs into one call; a slice of it may be judged otherwise.
    -> labels (N,), positions of the illegal tokens
    """
    size = len(place)
    first = sentence_starts(size, offsets)
    starts = (place == Place.BEGIN) | (place == Place.SINGLE)
    goes_on = (place == Place.INSIDE) | (place == Place.END)
    is_open = (place == Place.BEGIN) | (place == Place.INSIDE)
    follows = np.zeros(size, bool)
    follows[1:] = goes_on[1:] & is_open[:-1] & (kind[1:] == kind[:-1])
    follows &= ~first
    wrong = goes_on & ~follows
    if (place >= Place.END).any():  # only schemes that close spans can leave one open
        closed = np.zeros(size, bool)
        closed[:-1] = follows[1:]
        wrong |= is_open & ~closed
    illegal = np.flatnonzero(wrong)
    if len(illegal) and repair == "error":
        raise DataError(f"illegal tag sequence at token {illegal[0]} ({len(illegal)} in all)")
    labels = np.where(follows, 2 * kind + 2, 2 * kind + 1).astype(np.int16)
    labels[~(starts | goes_on)] = 0
    if repair == "drop" and len(illegal):
        piece = np.cumsum(~follows)
        spoilt = np.zeros(int(piece[-1]) + 1, bool)
        spoilt[piece[illegal]] = True
        labels[spoilt[piece]] = 0
    labels[place == Place.ABSTAIN] = -1
    return labels, illegal


def inside_may_begin(
    place: NDArray[np.int8], kind: NDArray[np.int16], offsets: NDArray[np.int64]
) -> bool:
    """Whether tags are those of IO or IOB1, in which I- may begin a span.

    IO says only I-. IOB1 says B- only to part a span from one of its type just before it, so a
    B- elsewhere, or a tag that closes a span, tells another scheme.
    place (N,), kind (N,) and offsets (M+1,) as in `bio_labels`, of a whole column of tags.

    >>> one = np.array([0, 4])
    >>> x, y = np.array([0, 0, 0, 0], np.int16), np.array([0, 0, 1, 1], np.int16)
    >>> inside_may_begin(np.array([0, 2, 2, 1], np.int8), x, one)  # O I-x I-x B-x
    True
    >>> inside_may_begin(np.array([0, 2, 1, 2], np.int8), y, one)  # O I-x B-y I-y
    False
    """
    parts = np.flatnonzero(place == Place.BEGIN)
    if (place >= Place.END).any() or (parts == 0).any():
        return False
    parted = (place[parts - 1] > Place.OUTSIDE) & (kind[parts - 1] == kind[parts])
    return bool((parted & ~sentence_starts(len(place), offsets)[parts]).all())


def places(labels: NDArray[np.int16]) -> tuple[NDArray[np.int8], NDArray[np.int16]]:
    """Places and types that BIO label ids spell: the reverse of `bio_labels`."""
    place = np.where(labels > 0, 2 - labels % 2, labels).astype(np.int8)
    return place, ((labels - 1) // 2).astype(np.int16)


def scheme_codes(
    labels: NDArray[np.int16], offsets: NDArray[np.int64], types: tuple[str, ...], scheme: Scheme
) -> tuple[NDArray[np.int64], list[str]]:
    """Tags of legal BIO labels in a scheme, as numbers and the tag each number stands for.

    The last name is for abstain and is empty.  -> (N,), names
    """
    place, kind = places(labels)
    closes = np.ones(len(labels), bool)
    goes_on = (place[1:] == Place.INSIDE) & ~sentence_starts(len(labels), offsets)[1:]
    closes[:-1] = ~goes_on
    place[closes & (place == Place.INSIDE)] = Place.END
    place[closes & (place == Place.BEGIN)] = Place.SINGLE
    codes = np.where(place > 0, 4 * kind.astype(np.int64) + place, 0)
    prefixes = WRITTEN[scheme]
    names = ["O", *(f"{prefixes[p]}-{name}" for name in types for p in range(1, 5)), ""]
    codes[place == Place.ABSTAIN] = len(names) - 1
    return codes, names
