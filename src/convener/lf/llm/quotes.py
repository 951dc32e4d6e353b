"""Alignment of quotes with the tokens of the text.

Language models copy text reliably but count poorly, so they are asked for quotes, not offsets. A
quote is located here: first exactly, then regardless of case, white space, Unicode composition and
the kind of quotation marks and dashes. It must start and end at token boundaries.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

TokenRange = tuple[int, int]
"""First token and last token (exclusive)."""

_PUNCTUATION = str.maketrans(dict.fromkeys("‘’‚‛`´′‹›", "'") | dict.fromkeys("“”„‟«»″", '"') | {"−": "-", "⁄": "/"})


class Quote(NamedTuple):
    """A quote of a model and its entity type."""

    text: str
    type: str


class AlignedQuotes(NamedTuple):
    """Spans of the quotes, and the quotes without a span."""

    spans: list[tuple[int, int, str]]
    """In tokens, in text order, without overlaps."""
    not_in_text: list[Quote]
    """Quotes that do not occur at token boundaries, or less often than quoted."""
    overlapped: list[Quote]
    """Quotes whose tokens all belong to a longer quote, or to an earlier one of the same length."""


class QuoteFinder:
    """Finds quotes in the tokens of a text.

    >>> finder = QuoteFinder("Smith's  “New York", [(0, 5), (5, 7), (9, 10), (10, 13), (14, 18)])
    >>> finder.find("New York"), finder.find('smith’s "new')
    ([(3, 5)], [(0, 4)])
    >>> finder.find("York Smith"), finder.find("Yor")
    ([], [])
    """

    def __init__(self, text: str, token_offsets: Sequence[tuple[int, int]]) -> None:
        """token_offsets: start and end of each token in the text."""
        self._exact = _Haystack(text, token_offsets)
        normalized = [normalize(text[start:end]) for start, end in token_offsets]
        ends = accumulate(map(len, normalized), initial=0)
        self._normalized = _Haystack("".join(normalized), list(pairwise(ends)))

    def find(self, quote: str) -> list[TokenRange]:
        """Return all occurrences of a quote in text order: exact ones or else normalized ones."""
        return list(self._exact.find(quote.strip())) or list(self._normalized.find(normalize(quote)))


class _Haystack:
    """A string with the positions of its token boundaries."""

    def __init__(self, text: str, token_offsets: Sequence[tuple[int, int]]) -> None:
        self.text = text
        self.token_starts: dict[int, int] = {}
        self.token_ends: dict[int, int] = {}
        for number, (start, end) in enumerate(token_offsets):
            # Tokens that normalize to nothing neither start nor end a quote.
            self.token_starts[start] = number
            self.token_ends.setdefault(end, number + 1)

    def find(self, needle: str) -> Iterator[TokenRange]:
        """Yield the non-overlapping occurrences that start and end at token boundaries."""
        position = self.text.find(needle) if needle else -1
        while position >= 0:
            first, last, step = self.token_starts.get(position), self.token_ends.get(position + len(needle)), 1
            if first is not None and last is not None:
                yield first, last
                step = len(needle)
            position = self.text.find(needle, position + step)


def align_quotes(finder: QuoteFinder, quotes: Iterable[Quote]) -> AlignedQuotes:
    """Return the spans of quotes, and the quotes that cannot be aligned.

    A quote with one type marks every occurrence, because models often list repeated mentions once.
    A quote with several types (a Washington who lives in Washington) is aligned in order: its
    first type with the first occurrence, and so on. Of overlapping occurrences the longer quote
    wins, then the one quoted first.

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
            assigned = [(match, types[0]) for match in free]
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
    """Return the types of each quoted text in order of mention; longer texts first."""
    types: dict[str, list[str]] = {}
    for quote in quotes:
        types.setdefault(quote.text, []).append(quote.type)
    order = sorted(types, key=lambda text: -len(normalize(text)))  # stable: texts of equal length stay in order
    return {text: types[text] for text in order}


def normalize(text: str) -> str:
    r"""Normalize what a copy may change: case, white space, Unicode composition, quotation marks, dashes.

    >>> normalize("Ｔhe\u00a0 “naïve” CO‑OP") == normalize("the ''nai\u0308ve'' co-op")
    True
    """
    decomposed = unicodedata.normalize("NFKD", text.translate(_PUNCTUATION))
    # Once more: case folding may produce characters that decompose.
    casefolded = unicodedata.normalize("NFKD", decomposed.casefold())
    return "".join(_normalize_char(char) for char in casefolded).replace("''", '"')


def _normalize_char(char: str) -> str:
    """Return the character, "" for white space and invisible characters, "-" for any dash."""
    if char.isspace():
        return ""
    category = unicodedata.category(char)
    return "" if category in ("Cf", "Cc") else "-" if category == "Pd" else char
