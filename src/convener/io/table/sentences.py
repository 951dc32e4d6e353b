"""The sentences of a long table: tokens as it gives them, or the words of its texts."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from convener.data import Text
from convener.errors import DataError
from convener.io.align import misordered_tokens
from convener.io.facts import Metadata
from convener.io.messages import error_location
from convener.io.table.rows import TextUnits
from convener.io.words import find_token_offsets, word_spans
from convener.packed import StringArray, lengths_to_offsets, row_at


def tokenize_units(units: TextUnits, metadata: Metadata | None) -> tuple[StringArray, NDArray[np.int64], Text | None]:
    """Tokens, offsets, and the text where it is known."""
    if metadata is None:
        has_text = units.text is not None
        if not len(units):
            raise DataError("no rows")
        if not has_text and units.tokens is None:
            raise DataError(
                "neither text nor tokens: add a column 'text' (the text of each document, "
                "in one of its rows) or 'tokens' (its words, as a list)"
            )
    else:
        has_text = "text" in metadata.contents
    if not has_text:
        return *_tokens_from_table(units, np.zeros(len(units), bool)), None
    text = _texts(units, is_native=metadata is not None)
    doc_offsets = np.zeros(len(units), np.int64) if units.doc_offsets is None else units.doc_offsets
    if units.tokens is None:
        tokens, offsets, token_offsets = _tokenize_texts(text)
        return tokens, offsets, Text(text, token_offsets, doc_offsets)
    tokens, offsets = _tokens_from_table(units, text.lengths == 0)
    aligned_text = Text(text, _token_offsets(units, tokens, offsets, text), doc_offsets)
    if metadata is None or metadata.extra.get("offsets") != "tokens":
        _check_order(units, aligned_text, offsets)
    return tokens, offsets, aligned_text


def _texts(units: TextUnits, *, is_native: bool) -> StringArray:
    """The text of each unit, which must have one."""
    count = len(units)
    has_text = np.zeros(count, bool) if units.has_text is None else units.has_text
    lengths = np.zeros(count, np.int64) if units.tokens is None else units.tokens.lengths
    # A row that speaks of its unit and has an empty cell for the text says that it is empty.
    units.raise_if_any(~has_text & ~(units.has_text_row & ((lengths <= 0) | is_native)), "has no text")
    return StringArray.from_list([""] * count) if units.text is None else units.text


def _tokens_from_table(units: TextUnits, tokens_optional: NDArray[np.bool_]) -> tuple[StringArray, NDArray[np.int64]]:
    if units.tokens is None:
        units.raise_if_any(~tokens_optional, "has no tokens")
        return StringArray.from_list([]), np.zeros(len(units) + 1, np.int64)
    units.raise_if_any((units.tokens.lengths < 0) & ~tokens_optional, "has no tokens")
    return units.tokens.values, lengths_to_offsets(np.maximum(units.tokens.lengths, 0))


def _tokenize_texts(text: StringArray) -> tuple[StringArray, NDArray[np.int64], NDArray[np.int32]]:
    """The words of texts that came without tokens."""
    texts = text.to_list()
    spans = [word_spans(document) for document in texts]
    words = [
        document[a:b] for document, word_offsets in zip(texts, spans, strict=True) for a, b in word_offsets.tolist()
    ]
    token_offsets = np.concatenate([np.zeros((0, 2), np.int32), *spans])
    return (
        StringArray.from_list(words),
        lengths_to_offsets(len(word_offsets) for word_offsets in spans),
        token_offsets,
    )


def _token_offsets(
    units: TextUnits, tokens: StringArray, offsets: NDArray[np.int64], text: StringArray
) -> NDArray[np.int32]:
    """Start and end of each token: as the table says, or where the text has it next."""
    if units.token_offsets is not None:
        mismatched = np.maximum(units.token_offsets.lengths, 0) != np.diff(offsets)
        units.raise_if_any(mismatched, "needs chars [start, end] for each of its tokens")
        table_offsets: NDArray[np.int32] = units.token_offsets.values
        return table_offsets
    words, located = tokens.to_list(), [np.zeros((0, 2), np.int32)]
    for unit, (first, last) in enumerate(pairwise(offsets.tolist())):
        with error_location(units.describe(unit)):
            located.append(find_token_offsets(words[first:last], text[unit]))
    return np.concatenate(located)


def _check_order(units: TextUnits, text: Text, offsets: NDArray[np.int64]) -> None:
    """Refuse tokens that are empty, overlap, or lie outside their text."""
    misordered = misordered_tokens(text, offsets)
    if misordered.any():
        token = int(np.flatnonzero(misordered)[0])
        unit = row_at(offsets, token)
        start, end = text.token_offsets[token].tolist()
        raise DataError(
            f"{units.describe(unit)}: token {token - offsets[unit]} at {start}-{end} does not "
            "follow the one before it inside the text"
        )
