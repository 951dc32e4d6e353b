"""Raw text: sentences and words are found by rules, or by spaCy.

Where a file has empty lines, what stands between them is a document; else every line is one.
"""

from __future__ import annotations

import re
from pathlib import Path

from convener.errors import DataError, FormatError
from convener.io.assemble import DatasetBuilder
from convener.io.files import decode_utf8
from convener.io.formats import Format, LabeledData
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Issues
from convener.io.splitting import DEFAULT_TYPES, add_texts
from convener.schemes import parse_tag

SAMPLE_BYTES = 1 << 16
"""So many bytes are enough to tell raw text from columns."""
_BLANK_LINES = re.compile(r"\n[ \t\r]*\n\s*")


def recognizes(path: Path) -> bool:
    """Whether a .txt file is raw text rather than columns, even broken ones.

    Columns: half of the lines end in chunk tags, or all have the same number of words, of which
    the last is in capitals, as other tags are.
    """
    if path.suffix.lower() != ".txt" or not path.is_file():
        return False
    with path.open("rb") as file:
        sample = file.read(SAMPLE_BYTES).decode("utf-8", "replace")
    lines = [line.split() for line in sample.splitlines() if line.strip()]
    if not lines or lines[0][0].startswith(("#", "-DOCSTART-")):
        return False
    last_words = [words[-1] for words in lines if len(words) > 1]
    if 2 * sum(map(_is_tag, last_words)) >= len(lines):
        return False
    same_width = len(lines) > 1 and len({len(words) for words in lines}) == 1
    mostly_uppercase = 2 * sum(word == word.upper() for word in last_words) >= len(last_words)
    return not (same_width and mostly_uppercase)


def _is_tag(word: str) -> bool:
    try:
        parse_tag(word)
    except DataError:
        return False
    return True


def read(path: Path, options: ReadOptions, issues: Issues) -> LabeledData:
    """The sentences of all documents; nobody has marked anything in them."""
    text = decode_utf8(path.read_bytes(), str(path))
    blocks = [block for block in _BLANK_LINES.split(text) if block.strip()]
    if len(blocks) < 2:
        blocks = [line for line in text.splitlines() if line.strip()]
    builder = DatasetBuilder(options, issues)
    texts_by_id = {f"{path.stem}-{number}": block for number, block in enumerate(blocks, start=1)}
    add_texts(builder, texts_by_id, spacy_pipeline=options.spacy)
    return builder.build(types=options.types or DEFAULT_TYPES)


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Raw text cannot hold votes or labels."""
    raise FormatError(f"{path}: raw text can only be read")


FORMAT = Format(
    name="raw",
    summary="raw text: a document per line, or between empty lines",
    suffixes=(),
    capabilities=frozenset(),
    read=read,
    write=write,
    recognizes=recognizes,
)
