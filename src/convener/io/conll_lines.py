"""The column layout and the line parser of CoNLL files.

The ending of a line, everything after its token, is one of few distinct strings in most files. Each distinct ending is
parsed once and cached, so that a further line costs one dictionary look-up.
"""

from __future__ import annotations

import codecs
import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from convener.data.issues import short_repr
from convener.data.ragged import StringArray, concat_ranges, lengths_to_offsets, locate
from convener.errors import DataError, unknown_name_message
from convener.io.formats import ReadOptions
from convener.io.json_records import parse_finite_float
from convener.io.metadata import Metadata
from convener.io.tag_columns import TagRowIndex
from convener.storage import decode_line, parse_json

HEADER_PREFIX = b"# convener = "
DOC_ID_PREFIX = b"# doc_id = "
EMPTY_SENTENCE, VERSION_1_EMPTY_SENTENCE = b"# empty_sentence", b"# empty"
DOCSTART = b"-DOCSTART-"
ABSTAIN_TAG = "-"
SOURCE_PREFIX = "source:"
COLUMN_NAMES = ("token", "gold", "prediction", "score", "_")
VERSION_1_COLUMNS = {"label": "prediction"}
"""Columns of native files of version 1, and their names since version 2."""
CHUNK_BYTES = 1 << 19
"""Number of bytes read at a time."""
MAX_CACHED_ENDINGS = 1 << 16
"""Maximum number of cached line endings."""
BLANK_LINES = (b"\n", b"\r\n")
TAG_PATTERN = re.compile(rb"O|[BIMELSUW][-_].+", re.DOTALL)
OTHER_WHITESPACE = re.compile(rb"[\t\v\f\r]")


@dataclass(frozen=True)
class Layout:
    """Names and separator of the columns, and the metadata of the file."""

    columns: tuple[str, ...]
    tab_separated: bool
    is_native: bool
    """Whether convener wrote the file: its first line is a header."""
    metadata: Metadata
    scheme: str = ""
    """Tag scheme stated in the header."""

    @classmethod
    def from_header(cls, line: bytes, options: ReadOptions, where: str) -> Layout:
        """Return the layout stated in the header of a native file."""
        values = parse_json(decode_line(line.removeprefix(HEADER_PREFIX), where), where)
        columns = values.get("columns") if isinstance(values, dict) else None
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise DataError(f"{where}: expected 'columns' in the header, got {short_repr(values)}")
        metadata = Metadata.from_dict(values, where)
        if metadata.version == 1:
            columns = [VERSION_1_COLUMNS.get(name, name) for name in columns]
        columns = _check_columns(options.columns or columns, where)
        return cls(columns, tab_separated=True, is_native=True, metadata=metadata, scheme=str(values.get("scheme")))

    @classmethod
    def from_line(cls, line: bytes, options: ReadOptions, where: str) -> Layout:
        """Infer the layout of an external file from its first line with a token."""
        tab_separated = b"\t" in line
        num_columns = len(line.split(b"\t") if tab_separated else line.split())
        columns = options.columns
        if columns is None:
            columns = ("token", *("_",) * (num_columns - 2), "gold") if num_columns > 1 else ("token",)
        columns = _check_columns(columns, where)
        return cls(columns, tab_separated=tab_separated, is_native=False, metadata=Metadata())

    def split_line(self, line: bytes) -> list[bytes]:
        """Split a line into its columns."""
        return line.split(b"\t") if self.tab_separated else line.split()

    @property
    def sources(self) -> list[str]:
        """Sources that have a column."""
        return [name.removeprefix(SOURCE_PREFIX) for name in self.columns if name.startswith(SOURCE_PREFIX)]


def detect_layout(file: BinaryIO, path: str, options: ReadOptions) -> Layout:
    """Return the layout of a file; the file position is then the first line, or the line after the header."""
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
        raise DataError(f"{path}: the file is empty: expected lines of a token and its tags")
    file.seek(bom_length)
    return layout or Layout(("token",), tab_separated=True, is_native=False, metadata=Metadata())


class LineParser:
    """Parses lines into tokens, sentences and documents.

    `tag_rows` numbers the rows of tags found in the columns `tag_columns`. After `read`, `ending_ids` (N,) is the line
    ending of each token; `ending_rows` and `ending_scores` give the row of tags and the score of each ending.
    """

    def __init__(self, path: str, layout: Layout, tag_rows: TagRowIndex, tag_columns: list[int]) -> None:
        self._path, self._layout = path, layout
        self._tag_rows, self._tag_columns = tag_rows, tag_columns
        self._token_column = layout.columns.index("token")
        self._score_column = layout.columns.index("score") if "score" in layout.columns else -1
        self._ending_cache: dict[bytes, int] = {}
        self._token_bytes: list[NDArray[np.uint8]] = []
        self._token_lengths: list[NDArray[np.int64]] = []
        self._ending_ids: list[NDArray[np.int32]] = []
        self.ending_rows, self.ending_scores = array("i"), array("f")
        self.lengths, self._num_tokens, self._sentence_start = array("q"), 0, 0
        # For each line without a token, such as the header: the number of tokens before it.
        self._skipped_lines = array("q", [0] * layout.is_native)
        self._doc_indices, self._doc_names, self._num_docs = array("q"), [""], 0

    def read(self, file: BinaryIO) -> None:
        """Parse all lines from the current position of the file."""
        rest = b""
        while chunk := file.read(CHUNK_BYTES):
            complete = (rest + chunk).rpartition(b"\n")
            rest = complete[2]
            self._read_chunk(complete[0] + complete[1])
        self._read_chunk(rest)
        self._end_sentence()

    def _read_chunk(self, raw: bytes) -> None:
        """Parse complete lines; only lines whose ending is not cached are parsed one by one."""
        buffer = np.frombuffer(raw, np.uint8)
        line_ends = np.flatnonzero(buffer == ord("\n")) + 1
        if raw and not raw.endswith(b"\n"):
            line_ends = np.append(line_ends, len(raw))
        token_starts = np.concatenate([np.zeros(1, np.int64), line_ends])[:-1]
        separators = np.flatnonzero(buffer == ord("\t" if self._layout.tab_separated else " "))
        token_ends = np.append(separators, len(raw))[np.searchsorted(separators, token_starts)]
        token_ends = np.minimum(token_ends, line_ends)
        lookup = self._ending_cache.get
        bounds = zip(token_ends.tolist(), line_ends.tolist(), strict=True)
        ending_ids = np.array([lookup(raw[token_end:line_end], -1) for token_end, line_end in bounds], np.int32)
        unusual = (ending_ids < 0) | (token_ends == token_starts)
        if not self._layout.is_native:
            candidates = np.flatnonzero(token_ends - token_starts == len(DOCSTART)).tolist()
            unusual[[line for line in candidates if raw.startswith(DOCSTART, token_starts[line])]] = True
        lines_before = self._num_tokens + len(self._skipped_lines)
        for line in np.flatnonzero(unusual).tolist():
            self._num_tokens = lines_before + line - len(self._skipped_lines)
            start, token_end, line_end = (
                int(token_starts[line]),
                int(token_ends[line]),
                int(line_ends[line]),
            )
            token, ending_ids[line] = self._parse_line(raw[start:token_end], raw[token_end:line_end])
            token_starts[line] = raw.index(token, start)  # the token may be in any column
            token_ends[line] = token_starts[line] + len(token)
            if ending_ids[line] < 0:
                self._skipped_lines.append(self._num_tokens)
        self._num_tokens = lines_before + len(line_ends) - len(self._skipped_lines)
        is_token = ending_ids >= 0
        token_lengths = (token_ends - token_starts)[is_token]
        self._ending_ids.append(ending_ids[is_token])
        self._token_lengths.append(token_lengths)
        self._token_bytes.append(buffer[concat_ranges(token_starts[is_token], token_lengths)])

    def _parse_line(self, token: bytes, rest: bytes) -> tuple[bytes, int]:
        """Return token and ending id of a line; the id is -1 if the line has no token."""
        if not rest and token in BLANK_LINES:
            self._end_sentence()
            return b"", -1
        if token and token != DOCSTART and (cached_id := self._ending_cache.get(rest)) is not None:
            return token, cached_id
        parsed_token, ending_id = self._split_line(token + rest, self.location(self._num_tokens))
        is_cacheable = ending_id >= 0 and rest and not self._token_column and token == parsed_token
        if is_cacheable and len(self._ending_cache) < MAX_CACHED_ENDINGS:
            self._ending_cache[rest] = ending_id
        return parsed_token, ending_id

    def _split_line(self, line: bytes, where: str) -> tuple[bytes, int]:
        """Parse a line without the cache; returns the same as `_parse_line`."""
        layout = self._layout
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if not line.strip(b" \t"):
            self._end_sentence()
            return b"", -1
        if not layout.is_native and line.split(None, 1)[:1] == [DOCSTART]:
            self._end_sentence()
            self._num_docs += 1 if self._num_docs or not self.lengths else 2
            return b"", -1
        fields = layout.split_line(line)
        if (line.startswith(b"# ") or line == b"#") and not self._is_token_line(fields):
            self._parse_comment(line, where)
            return b"", -1
        if len(fields) != len(layout.columns):
            raise DataError(
                f"{where}: expected {len(layout.columns)} columns, got {len(fields)}: "
                f"{short_repr(decode_line(line, where))}"
            )
        if not fields[self._token_column]:
            raise DataError(f"{where}: expected a token, got {short_repr(decode_line(line, where))}")
        tags = decode_line(b"\0".join([fields[column] for column in self._tag_columns]), where)
        try:
            self.ending_rows.append(self._tag_rows[tags])
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        if self._score_column >= 0:
            self.ending_scores.append(_parse_score(fields[self._score_column], where))
        return fields[self._token_column], len(self.ending_rows) - 1

    def _is_token_line(self, fields: list[bytes]) -> bool:
        """Whether a line that starts like a comment has a token and tags instead."""
        if len(fields) != len(self._layout.columns):
            return False
        if len(fields) == 1 or self._layout.is_native:
            return True
        tags = [fields[column] for column in self._tag_columns]
        return bool(tags) and all(tag == b"-" or TAG_PATTERN.fullmatch(tag) for tag in tags)

    def _parse_comment(self, line: bytes, where: str) -> None:
        """Apply a comment of a native file: a document id or an empty sentence."""
        if not self._layout.is_native:
            return
        if line.startswith(DOC_ID_PREFIX):
            self._end_sentence()
            name = parse_json(decode_line(line.removeprefix(DOC_ID_PREFIX), where), where)
            if not isinstance(name, str):
                raise DataError(f"{where}: 'doc_id' must be a string, got {short_repr(name)}")
            if not self._num_docs and self.lengths:
                raise DataError(f"{where}: 'doc_id' must be given for every sentence or for none")
            self._num_docs = 1
            if name != self._doc_names[-1]:
                self._doc_names.append(name)
        elif line in (EMPTY_SENTENCE, VERSION_1_EMPTY_SENTENCE):
            self._end_sentence()
            self._add_sentence(0)

    def _end_sentence(self) -> None:
        """End the current sentence, if it has tokens."""
        if self._num_tokens > self._sentence_start:
            self._add_sentence(self._num_tokens - self._sentence_start)
            self._sentence_start = self._num_tokens

    def _add_sentence(self, length: int) -> None:
        self.lengths.append(length)
        self._doc_indices.append(len(self._doc_names) - 1 if self._layout.is_native else self._num_docs)

    def location(self, token: int) -> str:
        """Return file and line of a token, for messages."""
        return f"{self._path}:{token + 1 + bisect_right(self._skipped_lines, token)}"

    @property
    def ending_ids(self) -> NDArray[np.int32]:
        """Ending id of each token.  -> (N,)"""
        return np.concatenate([np.zeros(0, np.int32), *self._ending_ids])

    def doc_ids(self) -> StringArray | None:
        """Return the document id of each sentence; None if the file does not separate documents."""
        if not self._num_docs:
            return None
        if self._layout.is_native:
            return StringArray.from_list(self._doc_names[number] for number in self._doc_indices)
        return StringArray.from_list(f"doc-{max(number - 1, 0)}" for number in self._doc_indices)

    def tokens(self) -> StringArray:
        """Return all tokens; DataError if one is not UTF-8 or contains white space of another kind."""
        data = np.concatenate([np.zeros(0, np.uint8), *self._token_bytes])
        offsets = lengths_to_offsets(np.concatenate([np.zeros(0, np.int64), *self._token_lengths]))
        tokens, raw = StringArray(data, offsets), data.tobytes()
        invalid = np.flatnonzero(data[offsets[:-1]] & 0xC0 == 0x80)[:1].tolist()  # starts inside a character
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            invalid.append(locate(offsets, error.start)[0])
        if invalid:
            token = min(invalid)
            decode_line(raw[offsets[token] : offsets[token + 1]], self.location(token))
        match = None if self._layout.tab_separated else OTHER_WHITESPACE.search(raw)
        if match is not None:
            token = locate(offsets, match.start())[0]
            raise DataError(f"{self.location(token)}: expected spaces between columns, got {tokens[token]!r}")
        return tokens


def _check_columns(columns: Sequence[str], where: str) -> tuple[str, ...]:
    """Return the column names; DataError if one is unknown or duplicate, or if there is no token column."""
    for name in columns:
        if name not in COLUMN_NAMES and (not name.startswith(SOURCE_PREFIX) or name == SOURCE_PREFIX):
            allowed = (*COLUMN_NAMES, f"{SOURCE_PREFIX}NAME")
            raise DataError(f"{where}: {unknown_name_message('column', name, allowed)}")
        if name != "_" and list(columns).count(name) > 1:
            raise DataError(f"{where}: duplicate column {name!r}")
    if "token" not in columns:
        raise DataError(f"{where}: expected a column 'token', got {', '.join(columns) or 'none'}")
    return tuple(columns)


def _parse_score(field: bytes, where: str) -> float:
    """Return the score in a field, NaN for "-"."""
    if field == b"-":
        return float("nan")
    try:
        return parse_finite_float(float(field), where)
    except ValueError:
        problem = f"expected a score or '-', got {short_repr(decode_line(field, where))}"
        raise DataError(f"{where}: {problem}") from None
