"""What a long table says of its documents or sentences: text, tokens and their place."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from convener.data import Text
from convener.errors import DataError
from convener.io.facts import Facts
from convener.io.words import word_spans
from convener.packed import Strings, offsets_of
from convener.schemes import sentence_starts


@dataclass(frozen=True, eq=False, kw_only=True)
class Units:
    """The documents or sentences of a table (M of them), by first appearance.

    stated     (M,) whether a row without a source speaks of the unit
    text       (M,) "" where none is known; has_text (M,) says where it is
    tokens     of all units; lengths (M,) of each, -1 where it has none; None without the column
    chars      (N, 2) start and end of tokens; char_lengths (M,) likewise
    starts     (M,) where the text begins in its document, 0 where nothing is said
    probabilities (N, L), probability_lengths (M,) likewise
    """

    documents: Strings
    sentences: Strings | None
    stated: NDArray[np.bool_]
    text: Strings | None = None
    has_text: NDArray[np.bool_] | None = None
    tokens: Strings | None = None
    lengths: NDArray[np.int64] | None = None
    chars: NDArray[np.int32] | None = None
    char_lengths: NDArray[np.int64] | None = None
    starts: NDArray[np.int64] | None = None
    probabilities: NDArray[np.float32] | None = None
    probability_lengths: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.documents)

    def name(self, unit: int) -> str:
        """What messages call a unit."""
        if self.sentences is None:
            return f"document {self.documents[int(unit)]!r}"
        return f"sentence {self.sentences[int(unit)]!r} of document {self.documents[int(unit)]!r}"


def sentences(
    units: Units, path: str, facts: Facts | None
) -> tuple[Strings, NDArray[np.int64], Text | None]:
    """Tokens, offsets, and the text where it is known."""
    if facts is None:
        with_text = units.text is not None
        if not len(units):
            raise DataError(f"{path}: no rows")
        if not with_text and units.tokens is None:
            raise DataError(
                f"{path}: neither text nor tokens: add a column 'text' (the text of each document, "
                "in one of its rows) or 'tokens' (its words, as a list)"
            )
    else:
        with_text = "text" in facts.holds
    if not with_text:
        return *_given_tokens(units, path, np.zeros(len(units), bool)), None
    text = units.text if units.text is not None else Strings.of([""] * len(units))
    has_text = np.zeros(len(units), bool) if units.has_text is None else units.has_text
    lengths = np.zeros(len(units), np.int64) if units.lengths is None else units.lengths
    # A row that speaks of its unit and has an empty cell for the text says that it is empty.
    lacks = ~has_text & ~(units.stated & ((lengths <= 0) | (facts is not None)))
    if lacks.any():
        raise DataError(f"{path}: {units.name(int(np.flatnonzero(lacks)[0]))} has no text")
    starts = np.zeros(len(units), np.int64) if units.starts is None else units.starts
    if units.tokens is None:
        tokens, offsets, chars = _words(text)
    else:
        tokens, offsets = _given_tokens(units, path, text.lengths == 0)
        chars = _places(units, tokens, offsets, text, path)
        if facts is None or facts.more.get("offsets") != "tokens":
            _check_order(units, chars, offsets, text, path)
    return tokens, offsets, Text(text, chars, starts)


def _given_tokens(
    units: Units, path: str, may_lack: NDArray[np.bool_]
) -> tuple[Strings, NDArray[np.int64]]:
    lengths = np.full(len(units), -1) if units.lengths is None else units.lengths
    lacks = (lengths < 0) & ~may_lack
    if lacks.any():
        raise DataError(f"{path}: {units.name(int(np.flatnonzero(lacks)[0]))} has no tokens")
    return units.tokens or Strings.of([]), offsets_of(np.maximum(lengths, 0))


def _words(text: Strings) -> tuple[Strings, NDArray[np.int64], NDArray[np.int32]]:
    """The words of texts that came without tokens."""
    texts = text.to_list()
    spans = [word_spans(one) for one in texts]
    words = [one[a:b] for one, found in zip(texts, spans, strict=True) for a, b in found.tolist()]
    chars = np.concatenate([np.zeros((0, 2), np.int32), *spans])
    return Strings.of(words), offsets_of(len(found) for found in spans), chars


def _places(
    units: Units, tokens: Strings, offsets: NDArray[np.int64], text: Strings, path: str
) -> NDArray[np.int32]:
    """Start and end of each token: as the table says, or where the text has it next."""
    if units.chars is not None and units.char_lengths is not None:
        wrong = np.maximum(units.char_lengths, 0) != np.diff(offsets)
        if wrong.any():
            name = units.name(int(np.flatnonzero(wrong)[0]))
            raise DataError(f"{path}: {name} needs chars [start, end] for each of its tokens")
        return units.chars
    words, found = tokens.to_list(), []
    for unit, (first, last) in enumerate(pairwise(offsets.tolist())):
        whole, at = text[unit], 0
        for word in words[first:last]:
            start = whole.find(word, at)
            if start < 0:
                raise DataError(f"{path}: {units.name(unit)}: its text has no token {word!r}")
            at = start + len(word)
            found.append((start, at))
    return np.array(found, np.int32).reshape(-1, 2)


def _check_order(
    units: Units, chars: NDArray[np.int32], offsets: NDArray[np.int64], text: Strings, path: str
) -> None:
    """Refuse tokens that are empty, overlap, or lie outside their text."""
    wrong = disordered(chars, offsets, text)
    if wrong.any():
        token = int(np.flatnonzero(wrong)[0])
        unit = int(np.searchsorted(offsets, token, side="right")) - 1
        start, end = chars[token].tolist()
        raise DataError(
            f"{path}: {units.name(unit)}: token {token - offsets[unit]} at {start}-{end} does not "
            "follow the one before it inside the text"
        )


def text_lengths(text: Strings) -> NDArray[np.int64]:
    """Characters of each text, counted a block at a time: counting takes room.  -> (M,)"""
    blocks = range(0, len(text), 4096)
    counted = [text[first : first + 4096].character_lengths() for first in blocks]
    return np.concatenate([np.zeros(0, np.int64), *counted])


def disordered(
    chars: NDArray[np.int32], offsets: NDArray[np.int64], text: Strings
) -> NDArray[np.bool_]:
    """Which tokens are empty, overlap the one before, or lie outside their text.  -> (N,)"""
    follows = ~sentence_starts(len(chars), offsets)
    before = np.zeros(len(chars), np.int32)
    before[1:][follows[1:]] = chars[:-1, 1][follows[1:]]
    limit = np.repeat(text_lengths(text), np.diff(offsets))
    wrong: NDArray[np.bool_] = (
        (chars[:, 0] < before) | (chars[:, 1] <= chars[:, 0]) | (chars[:, 1] > limit)
    )
    return wrong
