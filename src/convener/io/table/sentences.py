"""The sentences of a long table: tokens as it gives them, or the words of its texts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from convener.data import Text
from convener.errors import DataError
from convener.io.align import disordered
from convener.io.facts import Facts
from convener.io.messages import placed
from convener.io.table.rows import Units
from convener.io.words import token_places, word_spans
from convener.packed import Strings, offsets_of, piece_at


def sentences(units: Units, facts: Facts | None) -> tuple[Strings, NDArray[np.int64], Text | None]:
    """Tokens, offsets, and the text where it is known."""
    if facts is None:
        with_text = units.text is not None
        if not len(units):
            raise DataError("no rows")
        if not with_text and units.tokens is None:
            raise DataError(
                "neither text nor tokens: add a column 'text' (the text of each document, "
                "in one of its rows) or 'tokens' (its words, as a list)"
            )
    else:
        with_text = "text" in facts.holds
    if not with_text:
        return *_given_tokens(units, np.zeros(len(units), bool)), None
    text = _texts(units, own=facts is not None)
    starts = np.zeros(len(units), np.int64) if units.starts is None else units.starts
    if units.tokens is None:
        tokens, offsets, chars = _words(text)
        return tokens, offsets, Text(text, chars, starts)
    tokens, offsets = _given_tokens(units, text.lengths == 0)
    whole = Text(text, _places(units, tokens, offsets, text), starts)
    if facts is None or facts.more.get("offsets") != "tokens":
        _check_order(units, whole, offsets)
    return tokens, offsets, whole


def _texts(units: Units, *, own: bool) -> Strings:
    """The text of each unit, which must have one."""
    count = len(units)
    has_text = np.zeros(count, bool) if units.has_text is None else units.has_text
    lengths = np.zeros(count, np.int64) if units.tokens is None else units.tokens.lengths
    # A row that speaks of its unit and has an empty cell for the text says that it is empty.
    units.refuse(~has_text & ~(units.stated & ((lengths <= 0) | own)), "has no text")
    return Strings.of([""] * count) if units.text is None else units.text


def _given_tokens(units: Units, may_lack: NDArray[np.bool_]) -> tuple[Strings, NDArray[np.int64]]:
    if units.tokens is None:
        units.refuse(~may_lack, "has no tokens")
        return Strings.of([]), np.zeros(len(units) + 1, np.int64)
    units.refuse((units.tokens.lengths < 0) & ~may_lack, "has no tokens")
    return units.tokens.values, offsets_of(np.maximum(units.tokens.lengths, 0))


def _words(text: Strings) -> tuple[Strings, NDArray[np.int64], NDArray[np.int32]]:
    """The words of texts that came without tokens."""
    texts = text.to_list()
    spans = [word_spans(one) for one in texts]
    words = [one[a:b] for one, found in zip(texts, spans, strict=True) for a, b in found.tolist()]
    chars = np.concatenate([np.zeros((0, 2), np.int32), *spans])
    return Strings.of(words), offsets_of(len(found) for found in spans), chars


def _places(
    units: Units, tokens: Strings, offsets: NDArray[np.int64], text: Strings
) -> NDArray[np.int32]:
    """Start and end of each token: as the table says, or where the text has it next."""
    if units.chars is not None:
        wrong = np.maximum(units.chars.lengths, 0) != np.diff(offsets)
        units.refuse(wrong, "needs chars [start, end] for each of its tokens")
        given: NDArray[np.int32] = units.chars.values
        return given
    words, found = tokens.to_list(), [np.zeros((0, 2), np.int32)]
    for unit, (first, last) in enumerate(pairwise(offsets.tolist())):
        with placed(units.name(unit)):
            found.append(token_places(words[first:last], text[unit]))
    return np.concatenate(found)


def _check_order(units: Units, text: Text, offsets: NDArray[np.int64]) -> None:
    """Refuse tokens that are empty, overlap, or lie outside their text."""
    wrong = disordered(text, offsets)
    if wrong.any():
        token = int(np.flatnonzero(wrong)[0])
        unit = piece_at(offsets, token)
        start, end = text.chars[token].tolist()
        raise DataError(
            f"{units.name(unit)}: token {token - offsets[unit]} at {start}-{end} does not "
            "follow the one before it inside the text"
        )
