"""How the lines of a CoNLL file are made."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

from convener.errors import DataError, unknown_name_message
from convener.io.facts import Metadata
from convener.io.json_stream import parse_json
from convener.io.messages import short_repr
from convener.io.options import ReadOptions

HEADER_PREFIX = b"# convener = "
DOC_ID_PREFIX = b"# doc_id = "
EMPTY_SENTENCE = b"# empty"
DOCSTART = b"-DOCSTART-"
ABSTAIN_TAG = "-"
SOURCE_PREFIX = "source:"
COLUMN_NAMES = ("token", "gold", "label", "score", "_")


@dataclass(frozen=True)
class Layout:
    """What the columns are, what separates them, and what the file says of itself."""

    columns: tuple[str, ...]
    tab_separated: bool
    is_native: bool
    metadata: Metadata
    scheme: str = ""

    @classmethod
    def from_header(cls, line: bytes, options: ReadOptions, where: str) -> Layout:
        """The layout that our own first line states."""
        values = parse_json(decode_field(line.removeprefix(HEADER_PREFIX), where), where)
        columns = values.get("columns") if isinstance(values, dict) else None
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise DataError(f"{where}: expected 'columns' in the header, got {short_repr(values)}")
        checked_columns = _check_columns(options.columns or columns, where)
        return cls(
            checked_columns,
            True,
            True,
            Metadata.from_dict(values, where),
            str(values.get("scheme")),
        )

    @classmethod
    def from_line(cls, line: bytes, options: ReadOptions, where: str) -> Layout:
        """The layout of a foreign file, seen from its first line with a token."""
        tab_separated = b"\t" in line
        num_columns = len(line.split(b"\t") if tab_separated else line.split())
        columns = options.columns
        if columns is None:
            columns = ("token", *("_",) * (num_columns - 2), "gold") if num_columns > 1 else ("token",)
        return cls(_check_columns(columns, where), tab_separated, False, Metadata())

    def split_line(self, line: bytes) -> list[bytes]:
        """The columns of a line."""
        return line.split(b"\t") if self.tab_separated else line.split()

    @property
    def sources(self) -> list[str]:
        """The sources that have a column."""
        return [name.removeprefix(SOURCE_PREFIX) for name in self.columns if name.startswith(SOURCE_PREFIX)]


def _check_columns(columns: Sequence[str], where: str) -> tuple[str, ...]:
    for name in columns:
        if name not in COLUMN_NAMES and (not name.startswith(SOURCE_PREFIX) or name == SOURCE_PREFIX):
            allowed = (*COLUMN_NAMES, f"{SOURCE_PREFIX}NAME")
            raise DataError(f"{where}: {unknown_name_message('column', name, allowed)}")
        if name != "_" and list(columns).count(name) > 1:
            raise DataError(f"{where}: two columns are called {name!r}")
    if "token" not in columns:
        raise DataError(f"{where}: expected a column 'token', got {', '.join(columns) or 'none'}")
    return tuple(columns)


def decode_field(raw: bytes, where: str) -> str:
    """The text of some bytes of a line."""
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 text (byte {raw[error.start]:#04x})") from None


def detect_layout(file: BinaryIO, path: str, options: ReadOptions) -> Layout:
    """The layout of a file, which is left at its first line, or behind our header."""
    layout: Layout | None = None
    is_empty, bom_length = True, 0
    for line_number, line in enumerate(file, 1):
        where = f"{path}:{line_number}"
        if line_number == 1 and line.startswith(codecs.BOM_UTF8):
            line, bom_length = line.removeprefix(codecs.BOM_UTF8), len(codecs.BOM_UTF8)
        if line_number == 1 and line.startswith(HEADER_PREFIX):
            file.seek(bom_length + len(line))
            return Layout.from_header(line, options, where)
        stripped = line.strip(b" \t\r\n")
        is_empty = is_empty and not stripped
        if not stripped or stripped.split()[0] == DOCSTART:
            continue
        if line.startswith(b"# ") or stripped == b"#":  # a comment, or a token that looks like one
            layout = layout or Layout.from_line(stripped, options, where)
            continue
        line = line.rstrip(b"\r\n")
        layout = Layout.from_line(line if b"\t" in line else stripped, options, where)
        break
    if is_empty:
        raise DataError(f"{path}: is empty: expected lines of a token and its tags")
    file.seek(bom_length)
    return layout or Layout(("token",), True, False, Metadata())
