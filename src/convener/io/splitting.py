"""Raw text becomes sentences and words, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import ConfigError, DataError, require
from convener.io.assemble import Assembler
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.io.words import word_spans
from convener.predictions import Predictions

# Where a sentence may end: a mark with what closes after it and space; the marks of scripts
# without space; an empty line. Looking back keeps long runs of marks linear.
_MARK = re.compile(
    r"""(?<![.!?…])(?P<mark>[.!?…]+["'”’»)\]]*)\s+"""
    r"""|(?<![。！？])[。！？]+["'”’」』）]*\s*"""
    r"""|(?<!\n)\n\s*\n\s*"""
)
_EMPTY_LINE = re.compile(r"\n\s*\n")
_OPENING = "\"'“‘«(["
_LONGEST = 8
"""No abbreviation has more letters."""
_ABBREVIATIONS = frozenset(
    {"dr", "mr", "mrs", "ms", "prof", "st", "sr", "jr", "rev", "hon", "gov", "sen", "rep", "gen"}
    | {"col", "lt", "sgt", "vs", "etc", "e.g", "i.e", "cf", "al", "fig", "figs", "no", "vol", "pp"}
    | {"approx", "ca", "inc", "ltd", "co", "corp", "u.s", "u.k", "ph.d", "m.d", "jan", "feb"}
    | {"apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "z.b", "usw", "bzw", "nr"}
)
PLACEHOLDER = ("ENT",)
"""The types of text that nobody has marked; labeling functions bring their own."""
Texts = str | Iterable[str] | Mapping[str, str]


def split_text(
    texts: Texts, *, types: Sequence[str] = PLACEHOLDER, spacy: str | None = None
) -> Dataset:
    """Sentences and words of raw texts, with their places; every text is a document.

    texts  one, several, or several by name
    types  entity types, where they are known; labeling functions that are applied bring theirs
    spacy  cut with a spaCy pipeline ("en_core_web_sm") or the rules of a language ("en")

    >>> data = split_text("Dr. Ray left Oslo. He flew to Lima.")
    >>> [sentence.tokens for sentence in data]
    [['Dr', '.', 'Ray', 'left', 'Oslo', '.'], ['He', 'flew', 'to', 'Lima', '.']]
    >>> data.text.text[1], data.text.starts.tolist()
    ('He flew to Lima.', [0, 19])
    """
    if isinstance(texts, str):
        texts = [texts]
    named = texts if isinstance(texts, Mapping) else {str(n): t for n, t in enumerate(texts)}
    assembler = Assembler(ReadOptions(), Report())
    add_texts(assembler, named, spacy=spacy)
    built = assembler.build(types=tuple(types))
    return built.data if isinstance(built, Predictions) else built


def add_texts(assembler: Assembler, texts: Mapping[str, str], *, spacy: str | None) -> None:
    """Add the sentences of texts, by the names of the documents."""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise DataError(f"text {name}: expected a string, got {type(text).__name__}")
    cut = _cut_by_rules if spacy is None else _Pipeline(spacy)
    for (name, text), sentences in zip(texts.items(), map(cut, texts.values()), strict=True):
        for start, end, words in sentences:
            plain = text[start:end]
            assembler.sentence(
                [plain[a:b] for a, b in words.tolist()],
                where=f"{name}:{start}",
                text=plain,
                chars=words,
                document=name,
                start=start,
            )


Cut = tuple[int, int, NDArray[np.int32]]
"""Start and end of a sentence, and of its words in it."""


def _cut_by_rules(text: str) -> Iterator[Cut]:
    for start, end in sentence_spans(text):
        yield start, end, word_spans(text[start:end])


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, without the space around it.

    >>> text = "He met J. Doe, e.g. at 3 p.m. today! (Or so he says.) Really?"
    >>> [text[a:b] for a, b in sentence_spans(text)]
    ['He met J. Doe, e.g. at 3 p.m. today!', '(Or so he says.)', 'Really?']
    """
    edges = [0, *(match.end() for match in _MARK.finditer(text) if _ends(match)), len(text)]
    found = []
    for first, last in pairwise(edges):
        piece = text[first:last]
        if words := piece.strip():
            start = first + len(piece) - len(piece.lstrip())
            found.append((start, start + len(words)))
    return found


def _ends(match: re.Match[str]) -> bool:
    """Whether a mark ends a sentence, rather than an abbreviation, an initial, or nothing."""
    mark, text = match["mark"], match.string
    if mark is None or _EMPTY_LINE.search(match[0]):
        return True
    behind = text[match.end() : match.end() + _LONGEST].lstrip(_OPENING)
    if behind[:1].islower():
        return False
    before = text[max(0, match.start() - _LONGEST) : match.start()].split()
    word = before[-1].lstrip(_OPENING) if before else ""
    abbreviated = word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isalpha())
    return mark != "." or not abbreviated


class _Pipeline:
    """Cuts as spaCy does."""

    def __init__(self, name: str) -> None:
        library: Any = require("spacy", extra="spacy", purpose="splitting with spaCy")
        try:
            if len(name) <= 3:
                self._nlp = library.blank(name)
                self._nlp.add_pipe("sentencizer")
            else:
                self._nlp = library.load(name)
        except (ImportError, OSError) as error:
            raise ConfigError(f"no spaCy pipeline or language {name!r}: {error}") from error

    def __call__(self, text: str) -> Iterator[Cut]:
        for sentence in self._nlp(text).sents:
            words = [
                (token.idx, token.idx + len(token)) for token in sentence if not token.is_space
            ]
            if words:
                start, end = words[0][0], words[-1][1]
                yield start, end, np.array(words, np.int32) - np.int32(start)
