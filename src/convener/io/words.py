"""Words and their places in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import regex
from numpy.typing import NDArray

from convener.errors import DataError

SPACELESS = "".join(
    rf"\p{{Script={name}}}"
    for name in ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
)
"""Scripts written without spaces, for the inside of a character class: there a character is a
word."""
_RUN = rf"(?:(?![{SPACELESS}])[\w\p{{M}}])+"
WORD = regex.compile(rf"[{SPACELESS}]\p{{M}}*|{_RUN}(?:-{_RUN})*|[^\w\s]")
_ASCII_WORD = re.compile(r"\w+(?:-\w+)*|[^\w\s]")  # the same there, four times as fast


def word_spans(text: str) -> NDArray[np.int32]:
    """Start and end of each word: letters and digits, joined by inner hyphens, or one sign.

    >>> [text for a, b in word_spans("O'Brien's e-mail.") for text in ["O'Brien's e-mail."[a:b]]]
    ['O', "'", 'Brien', "'", 's', 'e-mail', '.']
    """
    rule = _ASCII_WORD if text.isascii() else WORD
    return np.array([match.span() for match in rule.finditer(text)], np.int32).reshape(-1, 2)


def token_places(tokens: Iterable[str], text: str) -> NDArray[np.int32]:
    """Start and end of tokens that came without, looked for from left to right.

    >>> token_places(["a", "b"], "a  b").tolist()
    [[0, 1], [3, 4]]
    """
    found, at = [], 0
    for token in tokens:
        start = text.find(token, at)
        if start < 0:
            raise DataError(f"token {token!r} is not in the text after character {at}")
        at = start + len(token)
        found.append((start, at))
    return np.array(found, np.int32).reshape(-1, 2)
