"""Words as lists of phrases compare them: in pieces, with case, endings and slips left aside."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import regex

from convener.errors import ConfigError, require
from convener.io.words import UNSEGMENTED_SCRIPTS

WordNormalizer = Callable[[str], str]
# Elsewhere tokenizers part letters, digits and signs, but nothing smaller.
_SUBTOKEN = regex.compile(
    rf"[{UNSEGMENTED_SCRIPTS}]\p{{M}}*|(?:(?![{UNSEGMENTED_SCRIPTS}])[\p{{L}}\p{{M}}])+|\p{{N}}+|[^\s\x1c-\x1f]"
)
_ASCII_SUBTOKEN = re.compile(r"[A-Za-z]+|[0-9]+|\S")  # the same there, and faster
LETTERS_PER_EDIT = 4


def split_subtokens(words: str) -> list[str]:
    """Runs of letters, runs of digits, single signs: what no tokenizer takes apart.

    >>> split_subtokens("non-small U.S. B12 北京")
    ['non', '-', 'small', 'U', '.', 'S', '.', 'B', '12', '北', '京']
    """
    if words.isascii():
        return _ASCII_SUBTOKEN.findall(words)
    return _SUBTOKEN.findall(unicodedata.normalize("NFC", words))


def fold_case(word: str) -> str:
    """The word with its case left aside.

    >>> fold_case("STRASSE") == fold_case("Straße")
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


class NearestWord:
    """Finds the known word that an unknown one was probably meant to be.

    A word of n letters may have n / 4 slips (letters inserted, left out, changed, swapped), and
    no more than `slips`. Of equally near words the first in the alphabet is taken.

    >>> near = NearestWord(["aspirin", "codeine"], max_edits=1)
    >>> near("asprin"), near("codiene"), near("code")
    ('aspirin', 'codeine', None)
    """

    def __init__(self, vocabulary: Iterable[str], *, max_edits: int) -> None:
        self._extract: Any = require("rapidfuzz.process", extra="fuzzy", purpose="fuzzy=").extract
        self._distance: Any = require("rapidfuzz.distance.OSA", extra="fuzzy", purpose="").distance
        self._max_edits = max_edits
        self._by_length: dict[int, list[str]] = {}
        for word in sorted(vocabulary):
            self._by_length.setdefault(len(word), []).append(word)

    def __call__(self, word: str) -> str | None:
        """The nearest known word, or None."""
        max_edits = min(self._max_edits, len(word) // LETTERS_PER_EDIT)
        candidates: list[tuple[int, str]] = []
        for length in range(len(word) - max_edits, len(word) + max_edits + 1) if max_edits else ():
            matches = self._extract(
                word,
                self._by_length.get(length, ()),
                scorer=self._distance,
                score_cutoff=max_edits,
                limit=None,
            )
            candidates += [(int(distance), candidate) for candidate, distance, _ in matches]
        return min(candidates)[1] if candidates else None


def make_normalizer(*, ignore_case: bool, normalize: WordNormalizer | str | None) -> Callable[[str], Sequence[str]]:
    """A function from words to the pieces by which they are compared."""
    if isinstance(normalize, str):
        if normalize != "english":
            raise ConfigError(f"lemma must be 'english' or a function of a word, got {normalize!r}")
        normalize = singular
    steps: list[WordNormalizer] = [
        *([fold_case] if ignore_case else []),
        *([normalize] if normalize else []),
    ]

    def normalize_words(words: str) -> Sequence[str]:
        subtokens = split_subtokens(words)
        for step in steps:
            # A step may give more than one piece, or none: what it gives is cut again.
            subtokens = [part for subtoken in subtokens for part in split_subtokens(step(subtoken))]
        return subtokens

    return normalize_words
