"""Words and their places in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import regex
from numpy.typing import NDArray

from convener.errors import DataError

UNSEGMENTED_SCRIPTS = "".join(
    rf"\p{{Script={name}}}" for name in ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
)
"""Scripts written without spaces, for the inside of a character class: there a character is a
word."""
_WORD_CHARACTERS = rf"(?:(?![{UNSEGMENTED_SCRIPTS}])[\w\p{{M}}])+"
WORD = regex.compile(rf"[{UNSEGMENTED_SCRIPTS}]\p{{M}}*|{_WORD_CHARACTERS}(?:-{_WORD_CHARACTERS})*|[^\w\s]")
_ASCII_WORD = re.compile(r"\w+(?:-\w+)*|[^\w\s]")  # the same there, four times as fast


def word_spans(text: str) -> NDArray[np.int32]:
    """Start and end of each word: letters and digits, joined by inner hyphens, or one sign.

    >>> [text for a, b in word_spans("O'Brien's e-mail.") for text in ["O'Brien's e-mail."[a:b]]]
    ['O', "'", 'Brien', "'", 's', 'e-mail', '.']
    """
    pattern = _ASCII_WORD if text.isascii() else WORD
    return np.array([match.span() for match in pattern.finditer(text)], np.int32).reshape(-1, 2)


def find_token_offsets(tokens: Iterable[str], text: str) -> NDArray[np.int32]:
    """Start and end of tokens that came without, looked for from left to right.

    >>> find_token_offsets(["a", "b"], "a  b").tolist()
    [[0, 1], [3, 4]]
    """
    offsets, position = [], 0
    for token in tokens:
        start = text.find(token, position)
        if start < 0:
            raise DataError(f"token {token!r} is not in the text after character {position}")
        position = start + len(token)
        offsets.append((start, position))
    return np.array(offsets, np.int32).reshape(-1, 2)
