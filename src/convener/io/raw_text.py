"""Raw text, split into sentences and tokens by rules or by spaCy.

In a file with blank lines, documents are the blocks between them; otherwise every line is a document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.schemes import parse_tag
from convener.data.tokenize import sentence_spans, word_spans
from convener.encodings import open_text, recognize_wide_encoding
from convener.errors import ConfigError, DataError, FormatError, require
from convener.io.builder import DatasetBuilder
from convener.io.formats import FileContent, Format, LabeledData, ReadOptions, WriteOptions
from convener.storage import decode_utf8

DEFAULT_TYPES = ("ENT",)
"""Types of a dataset without annotations; labeling functions add their own."""
SAMPLE_BYTES = 1 << 16
"""Number of bytes read to tell raw text from CoNLL columns."""
_BLANK_LINES = re.compile(r"\n[ \t\r]*\n\s*")
TextInput = str | Iterable[str] | Mapping[str, str]
TokenizedSentence = tuple[int, int, NDArray[np.int32]]
"""Start and end of a sentence in its text, and of its tokens in the sentence (T, 2)."""


def tokenize(texts: TextInput, *, types: Sequence[str] = DEFAULT_TYPES, spacy_pipeline: str | None = None) -> Dataset:
    """Return the sentences and tokens of raw texts, with offsets; every text is a document.

    texts           one text, several texts, or texts by document id
    types           entity types, if known; labeling functions add their own
    spacy_pipeline  split with a spaCy pipeline ("en_core_web_sm") or the rules of a language ("en")

    >>> data = tokenize("Dr. Ray left Oslo. He flew to Lima.")
    >>> [sentence.tokens for sentence in data]
    [('Dr', '.', 'Ray', 'left', 'Oslo', '.'), ('He', 'flew', 'to', 'Lima', '.')]
    >>> data.text.sentences[1], data.text.doc_offsets.tolist()
    ('He flew to Lima.', [0, 19])
    """
    if isinstance(texts, str):
        texts = [texts]
    texts_by_id = texts if isinstance(texts, Mapping) else {str(number): text for number, text in enumerate(texts)}
    builder = DatasetBuilder(ReadOptions(), Issues())
    _add_texts(builder, texts_by_id, spacy_pipeline=spacy_pipeline)
    content = builder.build(types=tuple(types))
    return content.data if isinstance(content, Predictions) else content


def recognizes(path: Path) -> bool:
    """Whether a .txt file is raw text rather than CoNLL columns, even malformed ones.

    A file has columns if at least half of its lines end in a chunk tag, or if all lines have the same number of words
    and most of the last words are upper case.
    """
    if path.suffix.lower() != ".txt" or not path.is_file():
        return False
    with path.open("rb") as file:
        raw = file.read(SAMPLE_BYTES)
    sample = raw.decode(recognize_wide_encoding(raw) or "utf-8", "replace")
    lines = [line.split() for line in sample.splitlines() if line.strip()]
    if not lines or lines[0][0].startswith(("#", "-DOCSTART-")):
        return False
    last_words = [words[-1] for words in lines if len(words) > 1]
    if 2 * sum(map(_is_tag, last_words)) >= len(lines):
        return False
    same_width = len(lines) > 1 and len({len(words) for words in lines}) == 1
    mostly_uppercase = 2 * sum(word == word.upper() for word in last_words) >= len(last_words)
    return not (same_width and mostly_uppercase)


def read(path: Path, options: ReadOptions, issues: Issues) -> FileContent:
    """Read the sentences of all documents; the dataset has no sources."""
    with open_text(path, options.encoding) as file:
        text = decode_utf8(file.read(), str(path))
    blocks = [block for block in _BLANK_LINES.split(text) if block.strip()]
    if len(blocks) < 2:
        blocks = [line for line in text.splitlines() if line.strip()]
    return read_texts({f"{path.stem}-{number}": block for number, block in enumerate(blocks, start=1)}, options, issues)


def read_texts(texts: Mapping[str, str], options: ReadOptions, issues: Issues) -> FileContent:
    """Read the sentences of texts, given by document id; the dataset has no sources."""
    builder = DatasetBuilder(options, issues)
    _add_texts(builder, texts, spacy_pipeline=options.spacy_pipeline)
    return FileContent(builder.build(types=options.types or options.default_types or DEFAULT_TYPES))


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Raise FormatError: raw text cannot store votes or labels."""
    raise FormatError(f"{path}: format 'raw' is read-only")


def _add_texts(builder: DatasetBuilder, texts: Mapping[str, str], *, spacy_pipeline: str | None) -> None:
    """Split texts, given by document id, and add their sentences."""
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


def _split_by_rules(text: str) -> Iterator[TokenizedSentence]:
    for start, end in sentence_spans(text):
        yield start, end, word_spans(text[start:end])


class _SpacySplitter:
    """Splits text with spaCy."""

    def __init__(self, name: str) -> None:
        library: Any = require("spacy", extra="spacy", purpose="splitting text with spaCy")
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


def _is_tag(word: str) -> bool:
    try:
        parse_tag(word)
    except DataError:
        return False
    return True


FORMAT = Format(
    name="raw",
    summary="raw text: one document per line or per block between blank lines; read-only",
    suffixes=(),
    capabilities=frozenset(),
    read=read,
    write=write,
    recognizes=recognizes,
)
