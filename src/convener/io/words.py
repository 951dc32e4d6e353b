"""Words of a text that came without tokens."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

WORD = re.compile(r"\w+(?:-\w+)*|[^\w\s]")


def word_spans(text: str) -> NDArray[np.int32]:
    """Start and end of each word: letters and digits, joined by inner hyphens, or one sign.

    >>> [text for a, b in word_spans("O'Brien's e-mail.") for text in ["O'Brien's e-mail."[a:b]]]
    ['O', "'", 'Brien', "'", 's', 'e-mail', '.']
    """
    return np.array([match.span() for match in WORD.finditer(text)], np.int32).reshape(-1, 2)
