"""JSON lines: one record per sentence, ours or as doccano, Prodigy, LightTag and others write it.

Offsets count characters of `text` where a record has text, tokens otherwise. The first record
of our own files also has `corpus`: types, sources, silence, and the model of predictions.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.errors import DataError, FormatError, UnknownNameError
from convener.io import formats
from convener.io.assemble import GOLD, LABELS, Assembler
from convener.io.formats import Content, Format
from convener.io.options import ReadOptions, WriteOptions
from convener.io.pieces import (
    Evenness,
    Head,
    Probabilities,
    TagRows,
    char_pairs,
    checked_types,
    dumped,
    heading,
    parsed,
    score_tails,
    shortest,
    shown,
    spans_in,
    with_data,
)
from convener.io.report import Report
from convener.io.words import word_spans
from convener.packed import Strings
from convener.predictions import Predictions

FOREIGN_GOLD = ("gold", "spans", "entities", "labels", "label", "ner_tags", "tags")
"""Where other tools keep the spans; the first that a record has counts."""
STARTS, ENDS, KINDS = ("start", "start_offset"), ("end", "end_offset"), ("label", "tag", "type")
SLICE = 2000
"""So many sentences are written at a time."""


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """The records of a JSON lines file: predictions if it is ours and has labels."""
    reader: _Reader | None = None
    with path.open("rb") as file:
        for position, raw in enumerate(file, 1):
            where = f"{path}:{position}"
            raw = raw.removeprefix(b"\xef\xbb\xbf") if position == 1 else raw
            if not raw.strip():
                continue
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                byte = raw[error.start]
                raise DataError(f"{where}: not UTF-8 text (byte {byte:#04x})") from None
            record = parsed(text, where)
            if not isinstance(record, dict):
                raise DataError(f"{where}: expected a JSON object, got {shown(record)}")
            if reader is None:
                reader = _Reader(path, record.get("corpus"), options, report, where)
                if reader.own and not {"text", "tokens"} & set(record):
                    continue
            reader.add(record, where)
    if reader is None:
        raise DataError(f"{path}: is empty: expected one JSON object per line")
    return reader.build()


class _Reader:
    """Collects records in an assembler."""

    def __init__(
        self, path: Path, corpus: Any, options: ReadOptions, report: Report, where: str
    ) -> None:
        self._path, self._options, self._report = path, options, report
        self.own = isinstance(corpus, dict)
        self._head = Head.of(corpus, where) if self.own else Head()
        self._types = options.types or self._head.types
        self._assembler = Assembler(options, report)
        self._even, self._scored = Evenness(), Evenness()
        self._gold_key: str | None = None
        self._rows, self._numbers = TagRows(["gold"], self._types), array("i")
        self._lines = array("q")
        self._probabilities = Probabilities()
        for name in self._head.sources or ():
            if self._wanted(name):
                self._assembler.source(name)
        self._known = dict.fromkeys(self._head.sources or ())

    def _wanted(self, name: str) -> bool:
        return isinstance(self._options.sources, str) or name in self._options.sources

    def add(self, record: dict[str, Any], where: str) -> None:
        """Take in one record."""
        document, start = record.get("doc_id"), record.get("char_start", 0)
        if self._even("doc_id", document is not None, where) and not isinstance(document, str):
            raise DataError(f"{where}: expected 'doc_id' as a string, got {shown(document)}")
        if type(start) is not int or not 0 <= start < 2**63:
            raise DataError(f"{where}: expected 'char_start' as a number, got {shown(start)}")
        tokens, text, chars = _words(record, where)
        self._assembler.sentence(
            tokens, where=where, text=text, chars=chars, document=document, start=start
        )
        self._lines.append(int(where.rpartition(":")[2]))
        self._add_votes(record.get("votes"), where)
        if not self.own:
            self._add_foreign_gold(record, len(tokens), where)
            return
        gold, labels, rows = map(record.get, ("gold", "labels", "probabilities"))
        if self._even("gold", gold is not None, where):
            self._add_spans(GOLD, "gold", gold, where)
        if self._even("labels", labels is not None, where):
            self._add_spans(LABELS, "labels", labels, where)
        if self._even("probabilities", rows is not None, where):
            self._probabilities.extend(rows, len(tokens), where)

    def _add_spans(self, source: str, spoken: str, value: Any, where: str) -> None:
        self._assembler.source(source)
        for start, end, kind, score in spans_in(_as_rows(value, where, spoken), where, spoken):
            if source == LABELS:
                self._scored("score", score == score, where)
            self._assembler.span(source, start, end, kind, score)

    def _add_votes(self, votes: Any, where: str) -> None:
        votes = {} if votes is None else votes
        if not isinstance(votes, dict):
            raise DataError(f"{where}: expected 'votes' as spans by source, got {shown(votes)}")
        before = len(self._assembler) - 1
        for name in votes:
            if name not in self._known:
                self._known[name] = None
                if self._abstains(name) and self._wanted(name):
                    self._assembler.source(name).unseen.extend(range(before))
        for name in filter(self._wanted, self._known):
            if votes.get(name) is not None:
                self._add_spans(name, name, votes[name], where)
            elif name in votes or self._abstains(name):
                self._assembler.unseen(name)

    def _abstains(self, name: str) -> bool:
        """Whether the source abstains where it is not mentioned."""
        return self._head.silences([name], self._options) == ("abstain",)

    def _add_foreign_gold(self, record: dict[str, Any], size: int, where: str) -> None:
        key = next((key for key in FOREIGN_GOLD if record.get(key) is not None), None)
        if not self._even("gold", key is not None, where) or key is None:
            return
        self._gold_key = self._gold_key or key
        if key != self._gold_key:
            raise DataError(f"{where}: expected {self._gold_key!r}, as before, got {key!r}")
        value = record[key]
        if key not in ("ner_tags", "tags"):
            self._add_spans(GOLD, "gold", value, where)
            return
        if not isinstance(value, list) or len(value) != size:
            raise DataError(f"{where}: expected {key!r} of {size} tokens, got {shown(value)}")
        for tag in value:
            if not isinstance(tag, str):
                raise DataError(f"{where}: expected {key!r} as tags, got {shown(tag)}")
        try:
            self._numbers.extend(map(self._rows.__getitem__, value))
        except DataError as error:
            raise DataError(f"{where}: {error}") from None

    def build(self) -> Content:
        """The dataset or the predictions of all records."""
        head, where, has = self._head, str(self._path), self._even.has
        found = {*self._assembler.found_types, *self._rows.types}
        types = checked_types(self._types or tuple(sorted(found)), where).types
        if head.model is not None and not len(self._assembler):
            self._assembler.source(LABELS)
        names = tuple(self._known)
        try:
            content = self._assembler.build(
                types=types,
                sources=names,
                silence=dict(zip(names, head.silences(names, self._options), strict=True)),
                probabilities=self._probabilities.matrix(head.types, types, where)
                if has("probabilities")
                else None,
                model=head.model or "",
                settings=head.settings,
            )
        except UnknownNameError as error:
            raise UnknownNameError(f"{where}: {error}") from None
        data = content.data if isinstance(content, Predictions) else content
        changes: dict[str, Any] = {}
        if self._gold_key in ("ner_tags", "tags"):
            changes["gold"] = self._tagged_gold(data)
        if has("doc_id") and data.documents is None:
            # Given as ids, though they look like running numbers.
            changes["documents"] = Strings.of(map(str, range(len(data))))
        return head.restored(with_data(content, **changes) if changes else content)

    def _tagged_gold(self, data: Dataset) -> NDArray[np.int16]:
        def place(token: int) -> str:
            sentence = int(np.searchsorted(data.offsets, token, side="right")) - 1
            line = f"{self._path}:{self._lines[sentence]}"
            return f"{line}: token {token - data.offsets[sentence]}"

        return self._rows.labels(
            0,
            np.frombuffer(self._numbers, np.int32),
            data.offsets,
            data.tags,
            policy=self._options.on_illegal,
            place=place,
            report=self._report,
        )


def _words(
    record: dict[str, Any], where: str
) -> tuple[list[str], str | None, NDArray[np.int32] | None]:
    """Tokens of a record, its text if it has one, and where the tokens are in it."""
    text, tokens, pairs = map(record.get, ("text", "tokens", "chars"))
    if text is not None and not isinstance(text, str):
        raise DataError(f"{where}: expected 'text' as a string, got {shown(text)}")
    if tokens is None:
        if text is None:
            raise DataError(f"{where}: expected 'text' or 'tokens', got {shown(list(record))}")
        found = word_spans(text)
        return [text[start:end] for start, end in found.tolist()], text, found
    if not isinstance(tokens, list):
        raise DataError(f"{where}: expected 'tokens' as a list, got {shown(tokens)}")
    if tokens and all(isinstance(token, dict) for token in tokens):
        pairs = [[token.get("start"), token.get("end")] for token in tokens]
        tokens = [token.get("text") for token in tokens]
    for token in tokens:
        if not isinstance(token, str):
            raise DataError(f"{where}: expected tokens as strings, got {shown(token)}")
    if text is None:
        return tokens, None, None
    if pairs is None:
        return tokens, text, _searched(tokens, text, where)
    chars = char_pairs(pairs, len(tokens), text, where)
    if (chars[1:, 0] < chars[:-1, 1]).any():
        raise DataError(f"{where}: expected tokens one after the other, got some that overlap")
    return tokens, text, chars


def _searched(tokens: list[str], text: str, where: str) -> NDArray[np.int32]:
    """Where each token is in the text, looked for from left to right."""
    found, at = [], 0
    for token in tokens:
        start = text.find(token, at)
        if start < 0:
            raise DataError(f"{where}: token {token!r} is not in the text after character {at}")
        at = start + len(token)
        found.append((start, at))
    return np.array(found, np.int32).reshape(-1, 2)


def _as_rows(value: Any, where: str, spoken: str) -> Any:
    """Spans given as objects, as rows; anything else as it is."""
    if not isinstance(value, list):
        return value
    rows = []
    for item in value:
        if isinstance(item, dict):
            named = [
                next((item[key] for key in keys if key in item), None)
                for keys in (STARTS, ENDS, KINDS)
            ]
            if None in named:
                raise DataError(
                    f"{where}: expected a span with start, end and label of {spoken}, "
                    f"got {shown(item)}"
                )
            item = named
        rows.append(item)
    return rows


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """Write one record per sentence, the first with the corpus."""
    data = content.data if isinstance(content, Predictions) else content
    corpus = {"corpus": heading(content)}
    if data.text is not None and not options.lossy:
        _check_chars(data, path.name)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if not len(data):
            file.write(dumped(corpus, path.name) + "\n")
        for number, record in enumerate(_records(content, data)):
            where = f"{path.name}: sentence {number}"
            file.write(dumped({**({} if number else corpus), **record}, where) + "\n")


def _check_chars(data: Dataset, where: str) -> None:
    """Refuse tokens that spans of characters cannot tell apart."""
    chars = np.zeros((0, 2), np.int32) if data.text is None else data.text.chars
    wrong = chars[:, 0] >= chars[:, 1]
    inner = np.ones(max(len(chars) - 1, 0), bool)
    inner[data.offsets[(data.offsets > 0) & (data.offsets < len(chars))] - 1] = False
    wrong[1:] |= inner & (chars[1:, 0] < chars[:-1, 1])
    if wrong.any():
        token = int(np.flatnonzero(wrong)[0])
        sentence = int(np.searchsorted(data.offsets, token, side="right")) - 1
        raise FormatError(
            f"{where}: sentence {sentence}: token {token - data.offsets[sentence]} has no "
            "characters of its own, which jsonl needs; choose another format or set lossy"
        )


def _records(content: Content, data: Dataset) -> Iterator[dict[str, Any]]:
    """The record of each sentence; a slice of the data is unpacked at a time."""
    predicted = content if isinstance(content, Predictions) else None
    tails = iter(()) if predicted is None else score_tails(predicted)
    for first in range(0, len(data), SLICE):
        part = data[first : first + SLICE]
        at = slice(int(data.offsets[first]), int(data.offsets[first + len(part)]))
        columns: dict[str, Iterator[Any]] = {}
        if part.text is not None:
            columns["text"] = iter(part.text.text)
        columns["tokens"] = _pieces(part, part.tokens.to_list())
        if part.text is not None:
            columns["chars"] = _pieces(part, part.text.chars.tolist())
            columns["char_start"] = iter(part.text.starts.tolist())
        if part.documents is not None:
            columns["doc_id"] = iter(part.documents)
        if part.gold is not None:
            columns["gold"] = _spans(part, part.gold)
        columns["votes"] = _votes(part)
        if predicted is not None:
            columns["labels"] = (
                [[*span, *tail] for span, tail in zip(spans, tails, strict=False)]
                for spans in _spans(part, predicted.labels[at])
            )
            if predicted.probabilities is not None:
                columns["probabilities"] = _pieces(part, shortest(predicted.probabilities[at]))
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))


def _pieces(part: Dataset, rows: list[Any]) -> Iterator[list[Any]]:
    """The rows of each sentence."""
    return (rows[a:b] for a, b in pairwise(part.offsets.tolist()))


def _spans(part: Dataset, labels: NDArray[np.int16]) -> Iterator[list[list[Any]]]:
    """The spans of each sentence, in characters where there is text."""
    types, spans = part.tags.types, part.tags.spans(labels, part.offsets)
    if part.text is not None:
        begin = part.offsets[spans.sentence]
        spans = replace(
            spans,
            start=part.text.chars[begin + spans.start, 0],
            end=part.text.chars[begin + spans.end - 1, 1],
        )
    for rows in spans.by_sentence(len(part)):
        yield [[start, end, types[kind]] for start, end, kind in rows]


def _votes(part: Dataset) -> Iterator[dict[str, list[list[Any]] | None]]:
    """For each sentence the spans by source; None where a source abstains."""
    columns = [_spans(part, votes) for votes in part.votes.T]
    padded = np.concatenate([part.votes, np.zeros((1, len(part.sources)), np.int16)])
    unseen = (padded[part.offsets[:-1]] == ABSTAIN) & (part.lengths > 0)[:, None]
    for absent in unseen.tolist():
        spans = [next(column) for column in columns]
        yield {
            name: None if gone else found
            for name, gone, found in zip(part.sources, absent, spans, strict=True)
        }


FORMAT = Format(
    name="jsonl",
    summary="JSON lines: one record per sentence; reads doccano, Prodigy and LightTag exports",
    suffixes=(".jsonl", ".ndjson"),
    carries=frozenset(formats.PARTS) - {"abstain within a sentence", "illegal votes"},
    read=read,
    write=write,
)
