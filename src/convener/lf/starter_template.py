"""My labeling functions: simple rules, each of low coverage and limited accuracy.

Preview their matches, edit them, repeat:

    convener lf preview my_lfs.py DATA -n 20
    convener lf apply my_lfs.py DATA -o voted.jsonl
    convener analyze voted.jsonl

Every labeling function in this file becomes a source, except those whose names start with an
underscore. Votes are cached: only edited functions run again.
"""

from __future__ import annotations

from collections.abc import Iterator

from convener.data import tags
from convener.lf.combinators import difference, propagate
from convener.lf.doc import Doc
from convener.lf.function import labeling_function
from convener.lf.gazetteer import gazetteer
from convener.lf.pattern import pattern

Span = tuple[int, int, str]
# A list of phrases, here or in a file: gazetteer("cities.txt", "LOC"). Options: ignore_case=True,
# normalize="english" (plurals), max_edits=1 (typos).
cities = gazetteer(["Oslo", "Porto", "Lisbon", "New York", "London"], "LOC", name="cities")
# A regular expression; match="tokens" matches complete tokens, joined by spaces.
company = pattern(r"(?:\p{Lu}\w+ )+(?:Ltd|Inc|Group|Bank)", "ORG", match="tokens", name="company")


# Any Python code: it receives one sentence, a sequence of tokens with their text (doc.text),
# and yields (start, end, label), in tokens, end exclusive.
@labeling_function(["PER"])
def after_title(doc: Doc) -> Iterator[Span]:
    """Mark the capitalized words after a title."""
    for i, word in enumerate(doc):
        if word in {"Mr", "Mrs", "Ms", "Dr", "Professor"}:
            start = i + 2 if doc[i + 1 : i + 2] == ["."] else i + 1
            end = start
            while end < len(doc) and doc[end][:1].isupper():
                end += 1
            if end > start:
                yield start, end, "PER"


# With offsets="chars" spans are in characters of doc.text. `return ABSTAIN` means "no opinion
# on this text", which differs from finding nothing.
@labeling_function(["ORG"], offsets="chars")
def acronym(doc: Doc) -> list[Span] | int:
    """Mark words in capitals, unless the complete text is in capitals."""
    if doc.text.isupper():
        return tags.ABSTAIN
    return [
        (start, end, "ORG")
        for (start, end), word in zip(doc.token_offsets, doc, strict=True)
        if 2 <= len(word) <= 5 and word.isupper() and word.isalpha()
    ]


# Combinators: union, intersection, difference, keep_labels, map_labels, only_if.
_not_places = gazetteer(["London Group", "Bank of Lisbon"], "ORG", name="not places")
safe_cities = difference(cities, _not_places, name="safe_cities")
# Mark every mention in the document of a person named with a title once.
titled_everywhere = propagate(after_title, name="titled_everywhere")
