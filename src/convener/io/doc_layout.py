"""The tokens of a spaCy Doc whose text is the text of a sentence, character by character."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class DocLayout(NamedTuple):
    """The tokens of a Doc.

    words, spaces  text of each token, and whether a space follows it
    positions      index in the Doc of each token of the dataset
    gaps           indices of the other tokens, which stand for the characters between tokens
    """

    words: list[str]
    spaces: list[bool]
    positions: Sequence[int]
    gaps: Sequence[int]


def joined_layout(words: list[str]) -> DocLayout:
    """Return words joined by single spaces."""
    return DocLayout(words, [True] * (len(words) - 1) + [False] * bool(words), range(len(words)), ())


def exact_layout(text: str, token_offsets: NDArray[np.int32]) -> DocLayout | None:
    """Return tokens that make up the text, with white space as in spaCy's tokenizer.

    None if tokens of the dataset are empty, overlap or are out of order.
    """
    positions: list[int] = []
    gaps: list[int] = []
    layout, position = DocLayout([], [], positions, gaps), 0
    for start, end in [*token_offsets.tolist(), (len(text), len(text))]:
        is_token = len(positions) < len(token_offsets)
        if start < position or end > len(text) or (is_token and start >= end):
            return None
        gap = text[position:start]
        if gap.startswith(" ") and layout.words:
            layout.spaces[-1], gap = True, gap[1:]
        if gap:
            ends_in_space = len(gap) > 1 and gap.endswith(" ") and not gap.isspace()
            gaps.append(len(layout.words))
            layout.words.append(gap[:-1] if ends_in_space else gap)
            layout.spaces.append(ends_in_space)
        if is_token:
            positions.append(len(layout.words))
            layout.words.append(text[start:end])
            layout.spaces.append(False)
        position = end
    return layout
