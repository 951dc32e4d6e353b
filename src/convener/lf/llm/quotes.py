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

TokenRange = tuple[int, int]
"""First word, and the one after the last."""

_PUNCTUATION = str.maketrans(dict.fromkeys("‘’‚‛`´′‹›", "'") | dict.fromkeys("“”„‟«»″", '"') | {"−": "-", "⁄": "/"})


class Quote(NamedTuple):
    """What a model quoted, and the entity type it gave."""

    text: str
    type: str


class AlignedQuotes(NamedTuple):
    """Where the quotes stand."""

    spans: list[tuple[int, int, str]]
    """Of words, in the order of the text; none overlaps another."""
    not_in_text: list[Quote]
    """Not in the text as whole words, or not as often as quoted."""
    overlapped: list[Quote]
    """Only in words that a longer quote has taken, or an earlier one as long."""


class QuoteFinder:
    """The words of a text, to be searched for quotes.

    >>> words = QuoteFinder("Smith's  “New York", [(0, 5), (5, 7), (9, 10), (10, 13), (14, 18)])
    >>> words.find("New York"), words.find('smith’s "new')
    ([(3, 5)], [(0, 4)])
    >>> words.find("York Smith"), words.find("Yor")
    ([], [])
    """

    def __init__(self, text: str, token_offsets: Sequence[tuple[int, int]]) -> None:
        """`chars`: where each word begins and ends in the text."""
        self._exact = _Haystack(text, token_offsets)
        normalized = [normalize(text[start:end]) for start, end in token_offsets]
        ends = accumulate(map(len, normalized), initial=0)
        self._normalized = _Haystack("".join(normalized), list(pairwise(ends)))

    def find(self, quote: str) -> list[TokenRange]:
        """All places of a quote, from left to right; looked for loosely where it is not exact."""
        return list(self._exact.find(quote.strip())) or list(self._normalized.find(normalize(quote)))


class _Haystack:
    """A string of which some places begin a word and some end one."""

    def __init__(self, text: str, token_offsets: Sequence[tuple[int, int]]) -> None:
        self.text = text
        self.token_starts: dict[int, int] = {}
        self.token_ends: dict[int, int] = {}
        for number, (start, end) in enumerate(token_offsets):
            # Of words that fold to nothing, neither the first nor the last belongs to a quote.
            self.token_starts[start] = number
            self.token_ends.setdefault(end, number + 1)

    def find(self, needle: str) -> Iterator[TokenRange]:
        """Where the needle begins and ends with words; places do not overlap."""
        position = self.text.find(needle) if needle else -1
        while position >= 0:
            first, last, step = (
                self.token_starts.get(position),
                self.token_ends.get(position + len(needle)),
                1,
            )
            if first is not None and last is not None:
                yield first, last
                step = len(needle)
            position = self.text.find(needle, position + step)


def align_quotes(finder: QuoteFinder, quotes: Iterable[Quote]) -> AlignedQuotes:
    """The spans that quotes stand for, and the quotes that stand for none.

    A quote that is always given one type stands for every place where its text occurs: models
    name what occurs twice only once. A quote given several types (a Washington who lives in
    Washington) is read in order of mention: the first for its first place, and so on. Where
    places overlap the longer quote has the words, of two as long the one quoted first.

    >>> text = "Jordan flew from Jordan to Aqaba in Jordan"
    >>> chars = [(0, 6), (7, 11), (12, 16), (17, 23), (24, 26), (27, 32), (33, 35), (36, 42)]
    >>> quotes = [Quote("Jordan", "PER"), Quote("Jordan", "LOC"), Quote("aqaba", "LOC")]
    >>> align_quotes(QuoteFinder(text, chars), [*quotes, Quote("Amman", "LOC")])
    AlignedQuotes(spans=[(0, 1, 'PER'), (3, 4, 'LOC'), (5, 6, 'LOC')], \
not_in_text=[Quote(text='Amman', type='LOC')], overlapped=[])
    """
    result = AlignedQuotes([], [], [])
    taken: set[int] = set()
    for text, types in _longest_first(quotes).items():
        matches = finder.find(text)
        free = [match for match in matches if taken.isdisjoint(range(*match))]
        if len(set(types)) == 1:
            assigned = [(place, types[0]) for place in free]
            rest = [] if assigned else types
        else:
            assigned = list(zip(free, types, strict=False))
            rest = types[len(assigned) :]
        for (start, end), kind in assigned:
            result.spans.append((start, end, kind))
            taken.update(range(start, end))
        rejected = result.overlapped if len(matches) > len(free) else result.not_in_text
        rejected += [Quote(text, kind) for kind in rest]
    result.spans.sort()
    return result


def _longest_first(quotes: Iterable[Quote]) -> Mapping[str, list[str]]:
    """The types each text was given, in order of mention; long texts before short ones."""
    types: dict[str, list[str]] = {}
    for quote in quotes:
        types.setdefault(quote.text, []).append(quote.type)
    order = sorted(types, key=lambda text: -len(normalize(text)))  # stable: of one length, as quoted
    return {text: types[text] for text in order}


def normalize(text: str) -> str:
    r"""A text without what a copy may change: case, spaces, spelling of characters, kinds of marks.

    >>> normalize("Ｔhe\u00a0 “naïve” CO‑OP") == normalize("the ''nai\u0308ve'' co-op")
    True
    """
    decomposed = unicodedata.normalize("NFKD", text.translate(_PUNCTUATION))
    # Once more: folding of case may give characters that decompose.
    casefolded = unicodedata.normalize("NFKD", decomposed.casefold())
    return "".join(_normalize_char(char) for char in casefolded).replace("''", '"')


def _normalize_char(char: str) -> str:
    """A character, or nothing for a space or what no one sees; a dash of any kind as "-"."""
    if char.isspace():
        return ""
    category = unicodedata.category(char)
    return "" if category in ("Cf", "Cc") else "-" if category == "Pd" else char
