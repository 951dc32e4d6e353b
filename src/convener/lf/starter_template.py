"""My labeling functions: each knows a little, is often silent and sometimes wrong.

Try them, look at the matches, change them, try again:

    convener lf try my_lfs.py DATA -n 20
    convener apply --lfs my_lfs.py DATA -o voted.jsonl
    convener analyze voted.jsonl

Every labeling function in this file becomes a source, except those whose names begin with an
underscore. Only functions that were edited run again.
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
# normalize="english" (plurals), max_edits=1 (slips of the pen).
cities = gazetteer(["Oslo", "Porto", "Lisbon", "New York", "London"], "LOC", name="cities")
# A regular expression over the text; match="tokens" matches whole words joined by one space.
company = pattern(r"(?:\p{Lu}\w+ )+(?:Ltd|Inc|Group|Bank)", "ORG", match="tokens", name="company")


# Anything you can write: it sees one sentence, a sequence of words that knows its text
# (doc.text), and yields (start, end, label), end exclusive, counted in words.
@labeling_function(["PER"])
def after_title(doc: Doc) -> Iterator[Span]:
    """The capitalised words after a title."""
    for i, word in enumerate(doc):
        if word in {"Mr", "Mrs", "Ms", "Dr", "Professor"}:
            start = i + 2 if doc[i + 1 : i + 2] == ["."] else i + 1
            end = start
            while end < len(doc) and doc[end][:1].isupper():
                end += 1
            if end > start:
                yield start, end, "PER"


# offsets="chars" counts characters of doc.text instead. `return ABSTAIN` says "I cannot tell
# here", which is not the same as finding nothing.
@labeling_function(["ORG"], offsets="chars")
def acronym(doc: Doc) -> list[Span] | int:
    """Words in capitals, unless the whole text is."""
    if doc.text.isupper():
        return tags.ABSTAIN
    return [
        (start, end, "ORG")
        for (start, end), word in zip(doc.token_offsets, doc, strict=True)
        if 2 <= len(word) <= 5 and word.isupper() and word.isalpha()
    ]


# Functions of functions: union, intersection, difference, keep_labels, map_labels, only_if.
_not_places = gazetteer(["London Group", "Bank of Lisbon"], "ORG", name="not places")
safe_cities = difference(cities, _not_places, name="safe_cities")
# Who was named with a title once is found everywhere in the document.
titled_everywhere = propagate(after_title, name="titled_everywhere")
