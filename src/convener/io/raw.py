"""Raw text: sentences and words are found by rules, or by spaCy.

Where a file has empty lines, what stands between them is a document; else every line is one.
"""

from __future__ import annotations

import re
from pathlib import Path

from convener.errors import DataError, FormatError
from convener.io.assemble import Assembler
from convener.io.files import decoded
from convener.io.formats import Content, Format
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Report
from convener.io.splitting import PLACEHOLDER, add_texts
from convener.schemes import parse_tag

LOOKED_AT = 1 << 16
"""So many bytes are enough to tell raw text from columns."""
_EMPTY = re.compile(r"\n[ \t\r]*\n\s*")


def recognises(path: Path) -> bool:
    """Whether a .txt file is raw text rather than columns, even broken ones.

    Columns: half of the lines end in chunk tags, or all have the same number of words, of which
    the last is in capitals, as other tags are.
    """
    if path.suffix.lower() != ".txt" or not path.is_file():
        return False
    with path.open("rb") as file:
        sample = file.read(LOOKED_AT).decode("utf-8", "replace")
    lines = [line.split() for line in sample.splitlines() if line.strip()]
    if not lines or lines[0][0].startswith(("#", "-DOCSTART-")):
        return False
    ends = [words[-1] for words in lines if len(words) > 1]
    if 2 * sum(map(_is_tag, ends)) >= len(lines):
        return False
    even = len(lines) > 1 and len({len(words) for words in lines}) == 1
    labels = 2 * sum(word == word.upper() for word in ends) >= len(ends)
    return not (even and labels)


def _is_tag(word: str) -> bool:
    try:
        parse_tag(word)
    except DataError:
        return False
    return True


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """The sentences of all documents; nobody has marked anything in them."""
    text = decoded(path.read_bytes(), str(path))
    blocks = [block for block in _EMPTY.split(text) if block.strip()]
    if len(blocks) < 2:
        blocks = [line for line in text.splitlines() if line.strip()]
    assembler = Assembler(options, report)
    named = {f"{path.stem}-{number}": block for number, block in enumerate(blocks, start=1)}
    add_texts(assembler, named, spacy=options.spacy)
    return assembler.build(types=options.types or PLACEHOLDER)


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """Raw text cannot hold votes or labels."""
    raise FormatError(f"{path}: raw text can only be read")


FORMAT = Format(
    name="raw",
    summary="raw text: a document per line, or between empty lines",
    suffixes=(),
    carries=frozenset(),
    read=read,
    write=write,
    recognises=recognises,
)
