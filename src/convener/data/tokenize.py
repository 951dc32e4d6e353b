"""Rule-based tokenization: tokens and sentences of raw text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import regex
from numpy.typing import NDArray

from convener.errors import DataError

UNSEGMENTED_SCRIPTS = "".join(
    rf"\p{{Script={name}}}" for name in ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
)
"""Scripts written without spaces, as part of a regex character class: every character is a token."""
_WORD_CHARACTERS = rf"(?:(?![{UNSEGMENTED_SCRIPTS}])[\w\p{{M}}])+"
WORD = regex.compile(rf"[{UNSEGMENTED_SCRIPTS}]\p{{M}}*|{_WORD_CHARACTERS}(?:-{_WORD_CHARACTERS})*|[^\w\s]")
_ASCII_WORD = re.compile(r"\w+(?:-\w+)*|[^\w\s]")  # WORD for ASCII text, four times as fast


def word_spans(text: str) -> NDArray[np.int32]:
    """Start and end of each token: letters and digits, joined by inner hyphens, or one punctuation mark.  -> (N, 2)

    >>> [text for a, b in word_spans("O'Brien's e-mail.") for text in ["O'Brien's e-mail."[a:b]]]
    ['O', "'", 'Brien', "'", 's', 'e-mail', '.']
    """
    pattern = _ASCII_WORD if text.isascii() else WORD
    return np.array([match.span() for match in pattern.finditer(text)], np.int32).reshape(-1, 2)


def find_token_offsets(tokens: Iterable[str], text: str) -> NDArray[np.int32]:
    """Start and end of the given tokens in a text, searched from left to right.  -> (N, 2)

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


# Candidates for a sentence end: a mark, closing punctuation and space; the marks of scripts without spaces; a blank
# line. The lookbehinds keep matching of long runs of marks linear.
_SENTENCE_END = re.compile(
    r"""(?<![.!?…])(?P<mark>[.!?…]+["'”’»)\]]*)\s+"""
    r"""|(?<![。！？])[。！？]+["'”’」』）]*\s*"""
    r"""|(?<!\n)\n\s*\n\s*"""
)
_BLANK_LINE = re.compile(r"\n\s*\n")
_OPENING_PUNCTUATION = "\"'“‘«(["
_MAX_ABBREVIATION_LENGTH = 8
"""Upper bound of the length of abbreviations, in characters."""
_ABBREVIATIONS = frozenset(
    {"dr", "mr", "mrs", "ms", "prof", "st", "sr", "jr", "rev", "hon", "gov", "sen", "rep", "gen"}
    | {"col", "lt", "sgt", "vs", "etc", "e.g", "i.e", "cf", "al", "fig", "figs", "no", "vol", "pp"}
    | {"approx", "ca", "inc", "ltd", "co", "corp", "u.s", "u.k", "ph.d", "m.d", "jan", "feb"}
    | {"apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "z.b", "usw", "bzw", "nr"}
)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, without surrounding space.

    >>> text = "He met J. Doe, e.g. at 3 p.m. today! (Or so he says.) Really?"
    >>> [text[a:b] for a, b in sentence_spans(text)]
    ['He met J. Doe, e.g. at 3 p.m. today!', '(Or so he says.)', 'Really?']
    """
    boundaries = [
        0,
        *(match.end() for match in _SENTENCE_END.finditer(text) if _is_sentence_end(match)),
        len(text),
    ]
    spans = []
    for first, last in pairwise(boundaries):
        piece = text[first:last]
        if stripped := piece.strip():
            start = first + len(piece) - len(piece.lstrip())
            spans.append((start, start + len(stripped)))
    return spans


def _is_sentence_end(match: re.Match[str]) -> bool:
    """Whether a candidate ends a sentence; False after abbreviations and initials, and before lower case."""
    punctuation, text = match["mark"], match.string
    if punctuation is None or _BLANK_LINE.search(match[0]):
        return True
    following = text[match.end() : match.end() + _MAX_ABBREVIATION_LENGTH].lstrip(_OPENING_PUNCTUATION)
    if following[:1].islower():
        return False
    preceding = text[max(0, match.start() - _MAX_ABBREVIATION_LENGTH) : match.start()].split()
    word = preceding[-1].lstrip(_OPENING_PUNCTUATION) if preceding else ""
    is_abbreviation = word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isalpha())
    return punctuation != "." or not is_abbreviation


def to_spacy_word(word: str) -> str:
    """A token that spaCy accepts: not empty, without lone surrogates."""
    if not word:
        return " "
    return word if word.isascii() else word.encode("utf-8", "replace").decode("utf-8")
