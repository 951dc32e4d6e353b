"""Quoted text found again in the words it was quoted from.

A language model copies well and counts badly, so it is asked for quotes and their places are
found here: first as they stand, then without regard to case, white space, the way Unicode spells
a character and the kind of quotation mark or dash. A quote begins and ends with whole words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

Found = tuple[int, int]
"""First word, and the one after the last."""

_MARKS = str.maketrans(
    dict.fromkeys("‘’‚‛`´′‹›", "'") | dict.fromkeys("“”„‟«»″", '"') | {"−": "-", "⁄": "/"}
)


class Quote(NamedTuple):
    """What a model quoted, and the entity type it gave."""

    text: str
    type: str


class Aligned(NamedTuple):
    """Where the quotes stand."""

    spans: list[tuple[int, int, str]]
    """Of words, in the order of the text; none overlaps another."""
    missing: list[Quote]
    """Not in the text as whole words, or not as often as quoted."""
    inside: list[Quote]
    """Only in words that a longer quote has taken, or an earlier one as long."""


class Words:
    """The words of a text, to be searched for quotes.

    >>> words = Words("Smith's  “New York", [(0, 5), (5, 7), (9, 10), (10, 13), (14, 18)])
    >>> words.find("New York"), words.find('smith’s "new')
    ([(3, 5)], [(0, 4)])
    >>> words.find("York Smith"), words.find("Yor")
    ([], [])
    """

    def __init__(self, text: str, chars: Sequence[tuple[int, int]]) -> None:
        """`chars`: where each word begins and ends in the text."""
        self._exact = _Haystack(text, chars)
        folded = [fold(text[start:end]) for start, end in chars]
        ends = accumulate(map(len, folded), initial=0)
        self._folded = _Haystack("".join(folded), list(pairwise(ends)))

    def find(self, quote: str) -> list[Found]:
        """All places of a quote, from left to right; looked for loosely where it is not exact."""
        return list(self._exact.places(quote.strip())) or list(self._folded.places(fold(quote)))


class _Haystack:
    """A string of which some places begin a word and some end one."""

    def __init__(self, text: str, chars: Sequence[tuple[int, int]]) -> None:
        self.text = text
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        for number, (start, end) in enumerate(chars):
            # Of words that fold to nothing, neither the first nor the last belongs to a quote.
            self.first[start] = number
            self.last.setdefault(end, number + 1)

    def places(self, needle: str) -> Iterator[Found]:
        """Where the needle begins and ends with words; places do not overlap."""
        at = self.text.find(needle) if needle else -1
        while at >= 0:
            first, last, step = self.first.get(at), self.last.get(at + len(needle)), 1
            if first is not None and last is not None:
                yield first, last
                step = len(needle)
            at = self.text.find(needle, at + step)


def align(words: Words, quotes: Iterable[Quote]) -> Aligned:
    """The spans that quotes stand for, and the quotes that stand for none.

    A quote that is always given one type stands for every place where its text occurs: models
    name what occurs twice only once. A quote given several types (a Washington who lives in
    Washington) is read in order of mention: the first for its first place, and so on. Where
    places overlap the longer quote has the words, of two as long the one quoted first.

    >>> text = "Jordan flew from Jordan to Aqaba in Jordan"
    >>> chars = [(0, 6), (7, 11), (12, 16), (17, 23), (24, 26), (27, 32), (33, 35), (36, 42)]
    >>> quotes = [Quote("Jordan", "PER"), Quote("Jordan", "LOC"), Quote("aqaba", "LOC")]
    >>> align(Words(text, chars), [*quotes, Quote("Amman", "LOC")])
    Aligned(spans=[(0, 1, 'PER'), (3, 4, 'LOC'), (5, 6, 'LOC')], \
missing=[Quote(text='Amman', type='LOC')], inside=[])
    """
    found = Aligned([], [], [])
    taken: set[int] = set()
    for text, types in _longest_first(quotes).items():
        places = words.find(text)
        free = [place for place in places if taken.isdisjoint(range(*place))]
        if len(set(types)) == 1:
            marks = [(place, types[0]) for place in free]
            rest = [] if marks else types
        else:
            marks = list(zip(free, types, strict=False))
            rest = types[len(marks) :]
        for (start, end), kind in marks:
            found.spans.append((start, end, kind))
            taken.update(range(start, end))
        refused = found.inside if len(places) > len(free) else found.missing
        refused += [Quote(text, kind) for kind in rest]
    found.spans.sort()
    return found


def _longest_first(quotes: Iterable[Quote]) -> Mapping[str, list[str]]:
    """The types each text was given, in order of mention; long texts before short ones."""
    types: dict[str, list[str]] = {}
    for quote in quotes:
        types.setdefault(quote.text, []).append(quote.type)
    order = sorted(types, key=lambda text: -len(fold(text)))  # stable: of one length, as quoted
    return {text: types[text] for text in order}


def fold(text: str) -> str:
    r"""A text without what a copy may change: case, spaces, spelling of characters, kinds of marks.

    >>> fold("Ｔhe\u00a0 “naïve” CO‑OP") == fold("the ''nai\u0308ve'' co-op")
    True
    """
    decomposed = unicodedata.normalize("NFKD", text.translate(_MARKS))
    # Once more: folding of case may give characters that decompose.
    folded = unicodedata.normalize("NFKD", decomposed.casefold())
    return "".join(_kept(char) for char in folded).replace("''", '"')


def _kept(char: str) -> str:
    """A character, or nothing for a space or what no one sees; a dash of any kind as "-"."""
    if char.isspace():
        return ""
    kind = unicodedata.category(char)
    return "" if kind in ("Cf", "Cc") else "-" if kind == "Pd" else char
