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
from convener.io.assemble import DatasetBuilder
from convener.io.options import ReadOptions
from convener.io.report import Issues
from convener.io.words import word_spans
from convener.predictions import Predictions

# Where a sentence may end: a mark with what closes after it and space; the marks of scripts
# without space; an empty line. Looking back keeps long runs of marks linear.
_SENTENCE_END = re.compile(
    r"""(?<![.!?…])(?P<mark>[.!?…]+["'”’»)\]]*)\s+"""
    r"""|(?<![。！？])[。！？]+["'”’」』）]*\s*"""
    r"""|(?<!\n)\n\s*\n\s*"""
)
_BLANK_LINE = re.compile(r"\n\s*\n")
_OPENING_PUNCTUATION = "\"'“‘«(["
_MAX_ABBREVIATION_LENGTH = 8
"""No abbreviation has more letters."""
_ABBREVIATIONS = frozenset(
    {"dr", "mr", "mrs", "ms", "prof", "st", "sr", "jr", "rev", "hon", "gov", "sen", "rep", "gen"}
    | {"col", "lt", "sgt", "vs", "etc", "e.g", "i.e", "cf", "al", "fig", "figs", "no", "vol", "pp"}
    | {"approx", "ca", "inc", "ltd", "co", "corp", "u.s", "u.k", "ph.d", "m.d", "jan", "feb"}
    | {"apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "z.b", "usw", "bzw", "nr"}
)
DEFAULT_TYPES = ("ENT",)
"""The types of text that nobody has marked; labeling functions bring their own."""
TextInput = str | Iterable[str] | Mapping[str, str]


def tokenize(texts: TextInput, *, types: Sequence[str] = DEFAULT_TYPES, spacy_pipeline: str | None = None) -> Dataset:
    """Sentences and words of raw texts, with their places; every text is a document.

    texts  one, several, or several by name
    types  entity types, where they are known; labeling functions that are applied bring theirs
    spacy  cut with a spaCy pipeline ("en_core_web_sm") or the rules of a language ("en")

    >>> data = tokenize("Dr. Ray left Oslo. He flew to Lima.")
    >>> [sentence.tokens for sentence in data]
    [['Dr', '.', 'Ray', 'left', 'Oslo', '.'], ['He', 'flew', 'to', 'Lima', '.']]
    >>> data.text.sentences[1], data.text.doc_offsets.tolist()
    ('He flew to Lima.', [0, 19])
    """
    if isinstance(texts, str):
        texts = [texts]
    texts_by_id = texts if isinstance(texts, Mapping) else {str(number): text for number, text in enumerate(texts)}
    builder = DatasetBuilder(ReadOptions(), Issues())
    add_texts(builder, texts_by_id, spacy_pipeline=spacy_pipeline)
    content = builder.build(types=tuple(types))
    return content.data if isinstance(content, Predictions) else content


def add_texts(builder: DatasetBuilder, texts: Mapping[str, str], *, spacy_pipeline: str | None) -> None:
    """Add the sentences of texts, by the names of the documents."""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise DataError(f"text {name}: expected a string, got {type(text).__name__}")
    split = _split_by_rules if spacy_pipeline is None else _SpacySplitter(spacy_pipeline)
    for (name, text), sentences in zip(texts.items(), map(split, texts.values()), strict=True):
        for start, end, token_offsets in sentences:
            sentence_text = text[start:end]
            builder.add_sentence(
                [sentence_text[a:b] for a, b in token_offsets.tolist()],
                where=f"{name}:{start}",
                text=sentence_text,
                token_offsets=token_offsets,
                doc_id=name,
                doc_offset=start,
            )


TokenizedSentence = tuple[int, int, NDArray[np.int32]]
"""Start and end of a sentence, and of its words in it."""


def _split_by_rules(text: str) -> Iterator[TokenizedSentence]:
    for start, end in sentence_spans(text):
        yield start, end, word_spans(text[start:end])


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, without the space around it.

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
    """Whether a mark ends a sentence, rather than an abbreviation, an initial, or nothing."""
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


class _SpacySplitter:
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

    def __call__(self, text: str) -> Iterator[TokenizedSentence]:
        for sentence in self._nlp(text).sents:
            words = [(token.idx, token.idx + len(token)) for token in sentence if not token.is_space]
            if words:
                start, end = words[0][0], words[-1][1]
                yield start, end, np.array(words, np.int32) - np.int32(start)
