"""Words as lists of phrases compare them: in pieces, with case, endings and slips left aside."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import regex

from convener.errors import ConfigError, require
from convener.io.words import SPACELESS

Lemma = Callable[[str], str]
# Elsewhere tokenizers part letters, digits and signs, but nothing smaller.
_PIECE = regex.compile(
    rf"[{SPACELESS}]\p{{M}}*|(?:(?![{SPACELESS}])[\p{{L}}\p{{M}}])+|\p{{N}}+|[^\s\x1c-\x1f]"
)
_ASCII_PIECE = re.compile(r"[A-Za-z]+|[0-9]+|\S")  # the same there, and faster
LETTERS_PER_SLIP = 4


def pieces(words: str) -> list[str]:
    """Runs of letters, runs of digits, single signs: what no tokenizer takes apart.

    >>> pieces("non-small U.S. B12 北京")
    ['non', '-', 'small', 'U', '.', 'S', '.', 'B', '12', '北', '京']
    """
    if words.isascii():
        return _ASCII_PIECE.findall(words)
    return _PIECE.findall(unicodedata.normalize("NFC", words))


def folded(word: str) -> str:
    """The word with its case left aside.

    >>> folded("STRASSE") == folded("Straße")
    True
    """
    return unicodedata.normalize("NFC", word.casefold())


def singular(word: str) -> str:
    """An English noun without the ending of its plural, by three rules (Harman's S stemmer).

    >>> [singular(word) for word in ("diseases", "allergies", "virus", "glass", "was", "CATS")]
    ['disease', 'allergy', 'virus', 'glass', 'was', 'CAT']
    """
    end = word.casefold()
    if len(end) < 4 or end.endswith(("us", "ss")):
        return word
    if end.endswith("ies") and not end.endswith(("eies", "aies")):
        return word[:-3] + ("Y" if word.isupper() else "y")
    if end.endswith("es") and not end.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word[:-1] if end.endswith("s") else word


class Nearest:
    """Finds the known word that an unknown one was probably meant to be.

    A word of n letters may have n / 4 slips (letters inserted, left out, changed, swapped), and
    no more than `slips`. Of equally near words the first in the alphabet is taken.

    >>> near = Nearest(["aspirin", "codeine"], slips=1)
    >>> near("asprin"), near("codiene"), near("code")
    ('aspirin', 'codeine', None)
    """

    def __init__(self, known: Iterable[str], *, slips: int) -> None:
        self._extract: Any = require("rapidfuzz.process", extra="fuzzy", purpose="fuzzy=").extract
        self._distance: Any = require("rapidfuzz.distance.OSA", extra="fuzzy", purpose="").distance
        self._slips = slips
        self._by_length: dict[int, list[str]] = {}
        for word in sorted(known):
            self._by_length.setdefault(len(word), []).append(word)

    def __call__(self, word: str) -> str | None:
        """The nearest known word, or None."""
        slips = min(self._slips, len(word) // LETTERS_PER_SLIP)
        found: list[tuple[int, str]] = []
        for length in range(len(word) - slips, len(word) + slips + 1) if slips else ():
            near = self._extract(
                word,
                self._by_length.get(length, ()),
                scorer=self._distance,
                score_cutoff=slips,
                limit=None,
            )
            found += [(int(distance), known) for known, distance, _ in near]
        return min(found)[1] if found else None


def normal_form(*, ignore_case: bool, lemma: Lemma | str | None) -> Callable[[str], Sequence[str]]:
    """A function from words to the pieces by which they are compared."""
    if isinstance(lemma, str):
        if lemma != "english":
            raise ConfigError(f"lemma must be 'english' or a function of a word, got {lemma!r}")
        lemma = singular
    steps: list[Lemma] = [*([folded] if ignore_case else []), *([lemma] if lemma else [])]

    def form(words: str) -> Sequence[str]:
        found = pieces(words)
        for step in steps:
            # A step may give more than one piece, or none: what it gives is cut again.
            found = [part for piece in found for part in pieces(step(piece))]
        return found

    return form
