"""The lines of a CoNLL file, collected: tokens as bytes, and what stands behind each.

The end of a line, all that follows its token, repeats heavily. Each different end is taken apart
once; after that a line costs one look-up.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.io.conll.layout import DOCSTART, DOCUMENT, EMPTY, Layout, text_of
from convener.io.json_stream import parsed
from convener.io.json_values import finite
from convener.io.messages import shown
from convener.io.tag_rows import TagRows
from convener.packed import Strings, offsets_of, piece_at, ranges

CHUNK = 1 << 19
"""So many bytes are read at a time."""
KEPT = 1 << 16
"""So many different ends of lines are remembered."""
BLANK_LINES = (b"\n", b"\r\n")
TAG = re.compile(rb"O|[BIMELSUW][-_].+", re.DOTALL)
BLANK = re.compile(rb"[\t\v\f\r]")


class Lines:
    """Collects tokens, sentences and documents.

    `rows` numbers the rows of tags, which stand in the columns `picked`. Afterwards `ends` (N,)
    is the number of each token's end, whose row of tags is in `end_rows`.
    """

    def __init__(self, path: str, layout: Layout, rows: TagRows, picked: list[int]) -> None:
        self._path, self._layout, self._rows, self._picked = path, layout, rows, picked
        self._token = layout.columns.index("token")
        self._score = layout.columns.index("score") if "score" in layout.columns else -1
        self._known: dict[bytes, int] = {}
        self._bytes: list[NDArray[np.uint8]] = []
        self._sizes: list[NDArray[np.int64]] = []
        self._ends: list[NDArray[np.int32]] = []
        self.end_rows, self.end_scores = array("i"), array("f")
        self.lengths, self._count, self._closed = array("q"), 0, 0
        # For each line without a token, such as our header, how many tokens came before.
        self._skipped = array("q", [0] * layout.own)
        self._documents, self._names, self._starts = array("q"), [""], 0

    def take(self, file: BinaryIO) -> None:
        """Read all lines."""
        rest = b""
        while chunk := file.read(CHUNK):
            whole = (rest + chunk).rpartition(b"\n")
            rest = whole[2]
            self._take(whole[0] + whole[1])
        self._take(rest)
        self._close()

    def _take(self, raw: bytes) -> None:
        """Read some lines; only those whose end was not seen before are looked at one by one."""
        buffer = np.frombuffer(raw, np.uint8)
        stops = np.flatnonzero(buffer == ord("\n")) + 1
        if raw and not raw.endswith(b"\n"):
            stops = np.append(stops, len(raw))
        starts = np.concatenate([np.zeros(1, np.int64), stops])[:-1]
        separators = np.flatnonzero(buffer == ord("\t" if self._layout.tabs else " "))
        cuts = np.append(separators, len(raw))[np.searchsorted(separators, starts)]
        cuts = np.minimum(cuts, stops)
        find = self._known.get
        bounds = zip(cuts.tolist(), stops.tolist(), strict=True)
        numbers = np.array([find(raw[cut:stop], -1) for cut, stop in bounds], np.int32)
        odd = (numbers < 0) | (cuts == starts)
        if not self._layout.own:
            similar = np.flatnonzero(cuts - starts == len(DOCSTART)).tolist()
            odd[[at for at in similar if raw.startswith(DOCSTART, starts[at])]] = True
        base = self._count + len(self._skipped)
        for at in np.flatnonzero(odd).tolist():
            self._count = base + at - len(self._skipped)
            start, cut, stop = int(starts[at]), int(cuts[at]), int(stops[at])
            token, numbers[at] = self._found(raw[start:cut], raw[cut:stop])
            starts[at] = raw.index(token, start)  # the same bytes, wherever they stand
            cuts[at] = starts[at] + len(token)
            if numbers[at] < 0:
                self._skipped.append(self._count)
        self._count = base + len(stops) - len(self._skipped)
        kept = numbers >= 0
        sizes = (cuts - starts)[kept]
        self._ends.append(numbers[kept])
        self._sizes.append(sizes)
        self._bytes.append(buffer[ranges(starts[kept], sizes)])

    def _found(self, token: bytes, rest: bytes) -> tuple[bytes, int]:
        """Token and number of the end of a line, -1 if it is no token's."""
        if not rest and token in BLANK_LINES:
            self._close()
            return b"", -1
        if token and token != DOCSTART and (known := self._known.get(rest)) is not None:
            return token, known
        found, end = self._taken_apart(token + rest, self.place(self._count))
        plain = end >= 0 and rest and not self._token and token == found
        if plain and len(self._known) < KEPT:
            self._known[rest] = end
        return found, end

    def _taken_apart(self, line: bytes, where: str) -> tuple[bytes, int]:
        layout = self._layout
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if not line.strip(b" \t"):
            self._close()
            return b"", -1
        if not layout.own and line.split(None, 1)[:1] == [DOCSTART]:
            self._close()
            self._starts += 1 if self._starts or not self.lengths else 2
            return b"", -1
        fields = layout.fields(line)
        if (line.startswith(b"# ") or line == b"#") and not self._is_row(fields):
            self._comment(line, where)
            return b"", -1
        if len(fields) != len(layout.columns):
            raise DataError(
                f"{where}: expected {len(layout.columns)} columns, got {len(fields)}: "
                f"{shown(text_of(line, where))}"
            )
        if not fields[self._token]:
            raise DataError(f"{where}: expected a token, got {shown(text_of(line, where))}")
        tags = text_of(b"\0".join([fields[column] for column in self._picked]), where)
        try:
            self.end_rows.append(self._rows[tags])
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        if self._score >= 0:
            self.end_scores.append(_score(fields[self._score], where))
        return fields[self._token], len(self.end_rows) - 1

    def _is_row(self, fields: list[bytes]) -> bool:
        """Whether a line that begins like a comment is a token's after all."""
        if len(fields) != len(self._layout.columns):
            return False
        if len(fields) == 1 or self._layout.own:
            return True
        tags = [fields[column] for column in self._picked]
        return bool(tags) and all(tag == b"-" or TAG.fullmatch(tag) for tag in tags)

    def _comment(self, line: bytes, where: str) -> None:
        if not self._layout.own:
            return
        if line.startswith(DOCUMENT):
            self._close()
            name = parsed(text_of(line.removeprefix(DOCUMENT), where), where)
            if not isinstance(name, str):
                raise DataError(f"{where}: expected doc_id as a string, got {shown(name)}")
            if not self._starts and self.lengths:
                raise DataError(f"{where}: 'doc_id' in some places but not in all")
            self._starts = 1
            if name != self._names[-1]:
                self._names.append(name)
        elif line == EMPTY:
            self._close()
            self._add(0)

    def _close(self) -> None:
        """End the sentence, if one is open."""
        if self._count > self._closed:
            self._add(self._count - self._closed)
            self._closed = self._count

    def _add(self, length: int) -> None:
        self.lengths.append(length)
        self._documents.append(len(self._names) - 1 if self._layout.own else self._starts)

    def place(self, token: int) -> str:
        """The line of a token."""
        return f"{self._path}:{token + 1 + bisect_right(self._skipped, token)}"

    @property
    def ends(self) -> NDArray[np.int32]:
        """The number of each token's end.  -> (N,)"""
        return np.concatenate([np.zeros(0, np.int32), *self._ends])

    def documents(self) -> Strings | None:
        """The document of each sentence, if the file tells documents apart."""
        if not self._starts:
            return None
        if self._layout.own:
            return Strings.of(self._names[number] for number in self._documents)
        return Strings.of(f"doc-{max(number - 1, 0)}" for number in self._documents)

    def tokens(self) -> Strings:
        """All tokens, checked to be UTF-8."""
        data = np.concatenate([np.zeros(0, np.uint8), *self._bytes])
        offsets = offsets_of(np.concatenate([np.zeros(0, np.int64), *self._sizes]))
        found, raw = Strings(data, offsets), data.tobytes()
        wrong = np.flatnonzero(data[offsets[:-1]] & 0xC0 == 0x80)[:1].tolist()  # half a character
        try:
            raw.decode()
        except UnicodeDecodeError as error:
            wrong.append(piece_at(offsets, error.start))
        if wrong:
            token = min(wrong)
            text_of(raw[offsets[token] : offsets[token + 1]], self.place(token))
        blank = None if self._layout.tabs else BLANK.search(raw)
        if blank is not None:
            token = piece_at(offsets, blank.start())
            raise DataError(
                f"{self.place(token)}: expected spaces between columns, got {found[token]!r}"
            )
        return found


def _score(field: bytes, where: str) -> float:
    if field == b"-":
        return float("nan")
    try:
        return finite(float(field), where)
    except ValueError:
        problem = f"expected a score or '-', got {shown(text_of(field, where))}"
        raise DataError(f"{where}: {problem}") from None
