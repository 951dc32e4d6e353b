"""How the lines of a CoNLL file are made."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from convener.errors import DataError, unknown_name
from convener.io.facts import Facts
from convener.io.json_stream import parsed
from convener.io.messages import shown
from convener.io.options import ReadOptions

HEADER = b"# convener = "
DOCUMENT = b"# doc_id = "
EMPTY = b"# empty"
DOCSTART = b"-DOCSTART-"
SILENT_TAG = "-"
SOURCE = "source:"
NAMES = ("token", "gold", "label", "score", "_")


@dataclass(frozen=True)
class Layout:
    """What the columns are, what separates them, and what the file says of itself."""

    columns: tuple[str, ...]
    tabs: bool
    own: bool
    facts: Facts
    scheme: str = ""

    @classmethod
    def of_header(cls, line: bytes, options: ReadOptions, where: str) -> Layout:
        """The layout that our own first line states."""
        values = parsed(text_of(line.removeprefix(HEADER), where), where)
        columns = values.get("columns") if isinstance(values, dict) else None
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise DataError(f"{where}: expected 'columns' in the header, got {shown(values)}")
        named = _checked(options.columns or columns, where)
        return cls(named, True, True, Facts.of_values(values, where), str(values.get("scheme")))

    @classmethod
    def of_line(cls, line: bytes, options: ReadOptions, where: str) -> Layout:
        """The layout of a foreign file, seen from its first line with a token."""
        tabs = b"\t" in line
        width = len(line.split(b"\t") if tabs else line.split())
        columns = options.columns
        if columns is None:
            columns = ("token", *("_",) * (width - 2), "gold") if width > 1 else ("token",)
        return cls(_checked(columns, where), tabs, False, Facts())

    def fields(self, line: bytes) -> list[bytes]:
        """The columns of a line."""
        return line.split(b"\t") if self.tabs else line.split()

    @property
    def sources(self) -> list[str]:
        """The sources that have a column."""
        return [name.removeprefix(SOURCE) for name in self.columns if name.startswith(SOURCE)]


def _checked(columns: Sequence[str], where: str) -> tuple[str, ...]:
    for name in columns:
        if name not in NAMES and (not name.startswith(SOURCE) or name == SOURCE):
            known = (*NAMES, f"{SOURCE}NAME")
            raise DataError(f"{where}: {unknown_name('column', name, known)}")
        if name != "_" and list(columns).count(name) > 1:
            raise DataError(f"{where}: two columns are called {name!r}")
    if "token" not in columns:
        raise DataError(f"{where}: expected a column 'token', got {', '.join(columns) or 'none'}")
    return tuple(columns)


def text_of(raw: bytes, where: str) -> str:
    """The text of some bytes of a line."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 text (byte {raw[error.start]:#04x})") from None


def layout_of(file: BinaryIO, path: str, options: ReadOptions) -> Layout:
    """The layout of a file, which is left at its first line, or behind our header."""
    maybe: Layout | None = None
    empty, begin = True, 0
    for position, line in enumerate(file, 1):
        where = f"{path}:{position}"
        if position == 1 and line.startswith(codecs.BOM_UTF8):
            line, begin = line.removeprefix(codecs.BOM_UTF8), len(codecs.BOM_UTF8)
        if position == 1 and line.startswith(HEADER):
            file.seek(begin + len(line))
            return Layout.of_header(line, options, where)
        bare = line.strip(b" \t\r\n")
        empty = empty and not bare
        if not bare or bare.split()[0] == DOCSTART:
            continue
        if line.startswith(b"# ") or bare == b"#":  # a comment, or a token that looks like one
            maybe = maybe or Layout.of_line(bare, options, where)
            continue
        line = line.rstrip(b"\r\n")
        maybe = Layout.of_line(line if b"\t" in line else bare, options, where)
        break
    if empty:
        raise DataError(f"{path}: is empty: expected lines of a token and its tags")
    file.seek(begin)
    return maybe or Layout(("token",), True, False, Facts())
