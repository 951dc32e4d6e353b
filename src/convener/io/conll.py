"""CoNLL: a token and its tags per line, columns side by side, a blank line between sentences.

Our own files begin with a comment that says what the columns are. Of other files the first
column is the token and the last the gold tag, unless `columns` says otherwise. Columns are
separated by tabs if the first line with a token has one, else by runs of spaces.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.errors import DataError, FormatError, unknown_name
from convener.io.formats import Content, Format
from convener.io.options import ReadOptions, WriteOptions
from convener.io.pieces import (
    Head,
    TagRows,
    checked_types,
    chosen,
    dumped,
    finite,
    heading,
    parsed,
    shortest,
    shown,
)
from convener.io.report import Report
from convener.packed import Strings, offsets_of
from convener.predictions import Predictions
from convener.schemes import Place, places, scheme_codes, sentence_starts
from convener.tags import TagSet

HEADER = b"# convener = "
DOCUMENT = b"# doc_id = "
EMPTY = b"# empty"
BLANK_LINES = frozenset({b"\n", b"\r\n"})
DOCSTART = b"-DOCSTART-"
SILENT_TAG = "-"
SOURCE = "source:"
NAMES = ("token", "gold", "label", "score", "_")
TAG = re.compile(rb"O|[BIMELSUW][-_].+", re.DOTALL)
KEPT = 1 << 16
"""So many different ends of lines are remembered."""
SLICE = 5000
"""So many sentences are written at a time."""
BLANK = re.compile(rb"[\t\v\f\r]")
UNFIT = re.compile("[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029\ud800-\udfff]")
"""What a token or a type cannot hold: it would end the field or the line, or is no Unicode."""


@dataclass(frozen=True)
class Layout:
    """How the lines of a file are made."""

    columns: tuple[str, ...]
    tabs: bool
    own: bool
    head: Head
    scheme: str = "bio"

    @classmethod
    def of_header(cls, line: bytes, options: ReadOptions, where: str) -> Layout:
        """The layout that our own first line states."""
        values = parsed(_text(line.removeprefix(HEADER), where), where)
        columns = values.get("columns") if isinstance(values, dict) else None
        if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
            raise DataError(f"{where}: expected 'columns' in the header, got {shown(values)}")
        named = _checked_columns(options.columns or tuple(columns), where)
        return cls(named, True, True, Head.of(values, where), str(values.get("scheme", "bio")))

    @classmethod
    def of_line(cls, line: bytes, options: ReadOptions, where: str) -> Layout:
        """The layout of a foreign file, seen from its first line with a token."""
        tabs = b"\t" in line
        width = len(line.split(b"\t") if tabs else line.split())
        columns = options.columns
        if columns is None:
            columns = ("token", *("_",) * (width - 2), "gold") if width > 1 else ("token",)
        return cls(_checked_columns(columns, where), tabs, False, Head())

    def fields(self, line: bytes) -> list[bytes]:
        """The columns of a line."""
        return line.split(b"\t") if self.tabs else line.split()


def _checked_columns(columns: Sequence[str], where: str) -> tuple[str, ...]:
    for name in columns:
        if name not in NAMES and (not name.startswith(SOURCE) or name == SOURCE):
            known = (*NAMES, f"{SOURCE}NAME")
            raise DataError(f"{where}: {unknown_name('column', name, known)}")
        if name != "_" and list(columns).count(name) > 1:
            raise DataError(f"{where}: two columns are called {name!r}")
    if "token" not in columns:
        raise DataError(f"{where}: expected a column 'token', got {', '.join(columns) or 'none'}")
    return tuple(columns)


def _text(raw: bytes, where: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{where}: not UTF-8 text (byte {raw[error.start]:#04x})") from None


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """The sentences of a CoNLL file: predictions if it has a column `label`."""
    with path.open("rb") as file:
        layout, lines = _begin(file, path, options)
        reader = _Reader(path, layout, options, report)
        reader.take(lines)
    return reader.build()


def _begin(file: BinaryIO, path: Path, options: ReadOptions) -> tuple[Layout, Iterable[bytes]]:
    """The layout, and all lines from the first on."""
    passed: list[bytes] = []
    maybe: Layout | None = None
    for position, raw in enumerate(file, 1):
        line = raw.removeprefix(b"\xef\xbb\xbf") if position == 1 else raw
        where = f"{path}:{position}"
        passed.append(line)
        if position == 1 and line.startswith(HEADER):
            return Layout.of_header(line, options, where), chain([b"\n"], file)
        bare = line.strip(b" \t\r\n")
        if not bare or bare.split()[0] == DOCSTART:
            continue
        if line.startswith(b"# ") or bare == b"#":  # a comment, or a token that looks like one
            maybe = maybe or Layout.of_line(bare, options, where)
            continue
        line = line.rstrip(b"\r\n")
        return Layout.of_line(line if b"\t" in line else bare, options, where), chain(passed, file)
    if not any(line.strip() for line in passed):
        raise DataError(f"{path}: is empty: expected lines of a token and its tags")
    return maybe or Layout(("token",), True, False, Head()), passed


class _Reader:
    """Collects tokens as bytes and the number of each token's row of tags."""

    def __init__(self, path: Path, layout: Layout, options: ReadOptions, report: Report) -> None:
        self._path, self._layout, self._options, self._report = path, layout, options, report
        columns, where = layout.columns, str(path)
        known = [name.removeprefix(SOURCE) for name in columns if name.startswith(SOURCE)]
        self._sources = [known[at] for at in chosen(known, options, where)]
        tagged = [f"{SOURCE}{name}" for name in self._sources]
        tagged += [name for name in ("gold", "label") if name in columns]
        names = [name.removeprefix(SOURCE) for name in tagged]
        self._types = options.types or layout.head.types
        self._rows = TagRows(names, self._types, abstain=(SILENT_TAG,), voting=len(self._sources))
        self._picked = [columns.index(name) for name in tagged]
        self._token = columns.index("token")
        self._score = columns.index("score") if "score" in columns else -1
        self._bytes, self._sizes, self._ends = bytearray(), array("q"), array("i")
        self._end_rows, self._end_scores = array("i"), array("f")
        self._lengths, self._before = array("q"), 0
        self._documents, self._names, self._starts = array("q"), [""], 0
        self._jumps, self._lines = array("q"), array("q")
        self._known: dict[bytes, int] = {}

    def take(self, lines: Iterable[bytes]) -> None:
        """Read all lines; a block of lines whose ends were all seen before is taken at once."""
        separator = b"\t" if self._layout.tabs else b" "
        own = self._layout.own
        find = self._known.get
        position = 1
        for blank, group in groupby(lines, BLANK_LINES.__contains__):
            block = list(group)
            if blank:
                self._close()
            else:
                self._jump(position)
                tokens, _, rests = zip(*[line.partition(separator) for line in block], strict=True)
                ends = list(map(find, rests))
                if None in ends or b"" in tokens or (not own and DOCSTART in tokens):
                    self._take_apart(block, position, separator)
                else:
                    self._ends.extend(ends)  # type: ignore[arg-type]
                    self._sizes.extend(map(len, tokens))
                    self._bytes += b"".join(tokens)
            position += len(block)
        self._close()

    def _take_apart(self, block: list[bytes], position: int, separator: bytes) -> None:
        """Read the lines of a block one by one."""
        known = self._known
        for number, line in enumerate(block, position):
            token, _, rest = line.partition(separator)
            end = known.get(rest) if token and token != DOCSTART else None
            if end is None:
                found = self._other(line, number)
                if found is None:
                    self._jump(number + 1)
                    continue
                first, (token, end) = token, found
                if self._token == 0 and first == token and rest and len(known) < KEPT:
                    known[rest] = end
            self._ends.append(end)
            self._sizes.append(len(token))
            self._bytes += token

    def _jump(self, position: int) -> None:
        """The next token stands in this line."""
        self._jumps.append(len(self._ends))
        self._lines.append(position)

    def _other(self, line: bytes, position: int) -> tuple[bytes, int] | None:
        """Token and number of the end of a line not seen before; None if it is no token's."""
        layout, where = self._layout, f"{self._path}:{position}"
        line = line.removesuffix(b"\n").removesuffix(b"\r")
        if not line.strip(b" \t"):
            self._close()
            return None
        if not layout.own and line.split(None, 1)[:1] == [DOCSTART]:
            self._close()
            self._starts += 1 if self._starts or not self._lengths else 2
            return None
        fields = layout.fields(line)
        if (line.startswith(b"# ") or line == b"#") and not self._is_row(fields):
            self._comment(line, where)
            return None
        if len(fields) != len(layout.columns):
            raise DataError(
                f"{where}: expected {len(layout.columns)} columns, got {len(fields)}: "
                f"{shown(_text(line, where))}"
            )
        if not fields[self._token]:
            raise DataError(f"{where}: expected a token, got {shown(_text(line, where))}")
        tags = "\0".join([_text(fields[column], where) for column in self._picked])
        try:
            row = self._rows[tags]
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
        self._end_rows.append(row)
        if self._score >= 0:
            self._end_scores.append(_score(fields[self._score], where))
        return fields[self._token], len(self._end_rows) - 1

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
            name = parsed(_text(line.removeprefix(DOCUMENT), where), where)
            if not isinstance(name, str):
                raise DataError(f"{where}: expected doc_id as a string, got {shown(name)}")
            if not self._starts and self._lengths:
                raise DataError(f"{where}: 'doc_id' in some places but not in all")
            self._starts = 1
            if name != self._names[-1]:
                self._names.append(name)
        elif line == EMPTY:
            self._close()
            self._add(0)

    def _close(self) -> None:
        """End the sentence, if one is open."""
        if len(self._ends) > self._before:
            self._add(len(self._ends) - self._before)
            self._before = len(self._ends)

    def _add(self, length: int) -> None:
        self._lengths.append(length)
        self._documents.append(len(self._names) - 1 if self._layout.own else self._starts)

    def _document_ids(self) -> Strings | None:
        """The document of each sentence, if the file tells documents apart."""
        if not self._starts:
            return None
        if self._layout.own:
            return Strings.of(self._names[number] for number in self._documents)
        return Strings.of(f"doc-{max(number - 1, 0)}" for number in self._documents)

    def _place(self, token: int) -> str:
        jump = bisect_right(self._jumps, token) - 1
        return f"{self._path}:{self._lines[jump] + token - self._jumps[jump]}"

    def _tokens(self) -> Strings:
        """All tokens, checked to be UTF-8."""
        data = np.frombuffer(self._bytes, np.uint8)
        offsets = offsets_of(np.frombuffer(self._sizes, np.int64))
        wrong = data[offsets[:-1]] & 0xC0 == 0x80  # half a character
        bad = int(np.flatnonzero(wrong)[0]) if wrong.any() else -1
        try:
            self._bytes.decode()
        except UnicodeDecodeError as error:
            at = int(np.searchsorted(offsets, error.start, side="right")) - 1
            bad = at if bad < 0 else min(at, bad)
        if bad >= 0:
            _text(bytes(self._bytes[offsets[bad] : offsets[bad + 1]]), self._place(bad))
        blank = None if self._layout.tabs else BLANK.search(self._bytes)
        if blank is not None:
            at = int(np.searchsorted(offsets, blank.start(), side="right")) - 1
            token = bytes(self._bytes[offsets[at] : offsets[at + 1]]).decode()
            raise DataError(f"{self._place(at)}: expected spaces between columns, got {token!r}")
        return Strings(data, offsets)

    def build(self) -> Content:
        """The dataset, or the predictions."""
        layout, head = self._layout, self._layout.head
        if not len(self._lengths) and not layout.own:
            raise DataError(f"{self._path}: no sentences: expected lines of a token and its tags")
        tokens = self._tokens()
        found = self._types or tuple(sorted(self._rows.types))
        tags = checked_types(found, str(self._path))
        offsets = offsets_of(np.frombuffer(self._lengths, np.int64))
        ends = np.frombuffer(self._ends, np.int32)
        rows = np.array(self._end_rows, np.int32)[ends]
        votes = np.empty((len(tokens), len(self._sources)), np.int16)
        for column in range(len(self._sources)):
            votes[:, column] = self._column(column, rows, offsets, tags)
        named = {
            name: self._column(column, rows, offsets, tags)
            for column, name in enumerate(self._rows.columns)
            if column >= len(self._sources)
        }
        data = Dataset(
            tags=tags,
            tokens=tokens,
            offsets=offsets,
            sources=tuple(self._sources),
            votes=votes,
            silence=head.silences(self._sources, self._options),
            gold=named.get("gold"),
            documents=self._document_ids(),
        )
        if "label" not in named:
            return head.restored(data)
        result = Predictions(
            data=data,
            labels=named["label"],
            scores=self._scores(named["label"], data, ends) if self._score >= 0 else None,
            model=head.model or "",
            settings=head.settings,
        )
        return head.restored(result)

    def _column(
        self, column: int, rows: NDArray[np.int32], offsets: NDArray[np.int64], tags: TagSet
    ) -> NDArray[np.int16]:
        # In the IO scheme every span begins with I-: nothing to repair, nothing to report.
        plain = self._layout.scheme == "io"
        return self._rows.labels(
            column,
            rows,
            offsets,
            tags,
            policy="begin" if plain else self._options.on_illegal,
            place=self._place,
            report=Report() if plain else self._report,
        )

    def _scores(
        self, labels: NDArray[np.int16], data: Dataset, ends: NDArray[np.int32]
    ) -> NDArray[np.float32]:
        """The score of each span, which stands at its first token."""
        spans = data.tags.spans(labels, data.offsets)
        begin = data.offsets[spans.sentence] + spans.start
        scores: NDArray[np.float32] = np.array(self._end_scores, np.float32)[ends[begin]]
        missing = np.flatnonzero(np.isnan(scores))
        if len(missing):
            place = self._place(int(begin[missing[0]]))
            raise DataError(f"{place}: expected a score for the label, got '-'")
        return scores


def _score(field: bytes, where: str) -> float:
    if field == b"-":
        return float("nan")
    try:
        return finite(float(field), where)
    except ValueError:
        raise DataError(
            f"{where}: expected a score or '-', got {shown(_text(field, where))}"
        ) from None


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """Write a header and a block of lines per sentence."""
    data = content.data if isinstance(content, Predictions) else content
    columns = ["token", *(f"{SOURCE}{name}" for name in data.sources)]
    columns += ["gold"] if data.gold is not None else []
    if isinstance(content, Predictions):
        columns += ["label"] if content.spans.score is None else ["label", "score"]
    columns += ["_"] if len(columns) == 1 else []  # so that no token looks like a comment
    for name in data.tags.types:
        if UNFIT.search(name) or "\0" in name:
            raise FormatError(f"{path.name}: conll cannot hold the entity type {name!r}")
    head = heading(content)
    del head["sources"]
    header = dumped({**head, "columns": columns, "scheme": options.scheme}, path.name)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"{HEADER.decode()}{header}\n\n")
        for first in range(0, len(data), SLICE):
            file.writelines(_blocks(content, data, first, path.name, options))


def _blocks(
    content: Content, data: Dataset, first: int, where: str, options: WriteOptions
) -> Iterator[str]:
    """The lines of a slice of sentences."""
    part = data[first : first + SLICE]
    at = slice(int(data.offsets[first]), int(data.offsets[first + len(part)]))
    tokens = part.tokens.to_list()
    _check_tokens(tokens, part, first, where)
    labels = [*part.votes.T, *(() if part.gold is None else (part.gold,))]
    if isinstance(content, Predictions):
        labels.append(content.labels[at])
    columns = [tokens, *(_tags(column, part, first, where, options) for column in labels)]
    if isinstance(content, Predictions) and content.spans.score is not None:
        columns.append(_score_column(content, first, part))
    if len(columns) == 1:
        columns.append(["_"] * len(tokens))
    lines = ["\t".join(row) + "\n" for row in zip(*columns, strict=True)]
    names = None if part.documents is None else part.documents.to_list()
    for sentence, (start, end) in enumerate(pairwise(part.offsets.tolist())):
        if names is not None:
            yield f"{DOCUMENT.decode()}{dumped(names[sentence], where)}\n"
        yield "".join(lines[start:end]) or f"{EMPTY.decode()}\n"
        yield "\n"


def _check_tokens(tokens: list[str], part: Dataset, first: int, where: str) -> None:
    if "" not in tokens and not UNFIT.search("".join(tokens)):
        return
    bad = next(at for at, token in enumerate(tokens) if not token or UNFIT.search(token))
    sentence = int(np.searchsorted(part.offsets, bad, side="right")) - 1
    raise FormatError(
        f"{where}: sentence {first + sentence}: conll cannot hold token "
        f"{bad - part.offsets[sentence]}, {tokens[bad]!r}"
    )


def _tags(
    labels: NDArray[np.int16], part: Dataset, first: int, where: str, options: WriteOptions
) -> list[str]:
    """The tags of a column."""
    scheme = options.scheme
    if scheme == "bio":  # as they are, illegal ones too
        names = [*part.tags.names, SILENT_TAG]
        return [names[label] for label in labels.tolist()]
    labels, _ = part.tags.repair(labels, part.offsets)
    if scheme == "io" and not options.lossy:
        place, kind = places(labels)
        joined = (place[1:] == Place.BEGIN) & (place[:-1] > 0) & (kind[1:] == kind[:-1])
        joined &= ~sentence_starts(len(labels), part.offsets)[1:]
        if joined.any():
            sentence = np.searchsorted(part.offsets, np.flatnonzero(joined)[0] + 1, side="right")
            raise FormatError(
                f"{where}: sentence {first + int(sentence) - 1}: the io scheme would join two "
                "neighbouring spans; choose another scheme or set lossy"
            )
    codes, names = scheme_codes(labels, part.offsets, part.tags.types, scheme)
    names[ABSTAIN] = SILENT_TAG
    return [names[code] for code in codes.tolist()]


def _score_column(content: Predictions, first: int, part: Dataset) -> list[str]:
    """On each token the score of its span, "-" outside."""
    spans = content.spans
    bounds = np.searchsorted(spans.sentence, [first, first + len(part)])
    own = spans.take(slice(*bounds.tolist()))
    column = ["-"] * len(part.tokens)
    begin = part.offsets[own.sentence - first]
    scores: list[Any] = [] if own.score is None else shortest(own.score)
    for start, end, score in zip(
        (begin + own.start).tolist(), (begin + own.end).tolist(), scores, strict=True
    ):
        column[start:end] = [repr(score)] * (end - start)
    return column


FORMAT = Format(
    name="conll",
    summary="CoNLL columns: a token and its tags per line, in BIO, IO, IOBES or BILUO",
    suffixes=(".conll", ".bio", ".iob", ".iob2", ".tsv", ".txt"),
    carries=frozenset(
        {"abstain within a sentence", "documents", "empty sentences", "scores", "model"}
    ),
    read=read,
    write=write,
)
