"""Reads JSON lines, ours and what annotation tools export."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError
from convener.io.assemble import GOLD, LABELS, Assembler
from convener.io.facts import Facts, asked_sources, tag_set, with_data
from convener.io.formats import Content, data_of
from convener.io.json_stream import parsed
from convener.io.json_values import Evenness, Probabilities, char_pairs, spans_in
from convener.io.mending import Mending
from convener.io.messages import placed, shown
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.io.tag_rows import TagRows
from convener.io.words import token_places, word_spans
from convener.packed import piece_at

FOREIGN_GOLD = ("gold", "spans", "entities", "labels", "label", "ner_tags", "tags")
"""Where other tools keep the spans; the first that a record has counts."""
TAGS = ("ner_tags", "tags")
STARTS, ENDS, KINDS = ("start", "start_offset"), ("end", "end_offset"), ("label", "tag", "type")


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
            elif "corpus" in record and not reader.own:
                raise DataError(f"{where}: expected 'corpus' in the first record: lines moved?")
            if record.get("answer", "accept") != "accept":  # Prodigy's word on the annotation
                report.add("left out", where, "gold", f"answer {shown(record['answer'])}")
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
        self._facts = Facts.of_values(corpus, where) if self.own else Facts()
        self._types = self._facts.asked_types(options)
        self._assembler = Assembler(options, report)
        self._even, self._scored = Evenness(), Evenness()
        self._gold_key: str | None = None
        self._rows, self._numbers = TagRows(["gold"], self._types), array("i")
        self._lines = array("q")
        self._probabilities = Probabilities()
        for name in self._facts.sources or ():
            if self._wanted(name):
                self._assembler.source(name)
        self._known = dict.fromkeys(self._facts.sources or ())

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
            if "labels" in record and {"votes", "probabilities"} & set(record):
                raise DataError(
                    f"{where}: labels beside votes, but no 'corpus' in the first record to say "
                    "that they are predictions: lines missing?"
                )
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
        return self._facts.silences([name], self._options) == ("abstain",)

    def _add_foreign_gold(self, record: dict[str, Any], size: int, where: str) -> None:
        key = next((key for key in FOREIGN_GOLD if record.get(key) is not None), None)
        if not self._even("gold", key is not None, where) or key is None:
            return
        self._gold_key = self._gold_key or key
        if key != self._gold_key:
            raise DataError(f"{where}: expected {self._gold_key!r}, as before, got {key!r}")
        value = record[key]
        if key not in TAGS:
            self._add_spans(GOLD, "gold", value, where)
            return
        if not isinstance(value, list) or len(value) != size:
            raise DataError(f"{where}: expected {key!r} of {size} tokens, got {shown(value)}")
        for tag in value:
            if not isinstance(tag, str):
                raise DataError(f"{where}: expected {key!r} as tags, got {shown(tag)}")
        with placed(where):
            self._numbers.extend(map(self._rows.__getitem__, value))

    def build(self) -> Content:
        """The dataset or the predictions of all records."""
        facts, where = self._facts, str(self._path)
        with placed(where):
            types = tag_set(self._types, {*self._assembler.found_types, *self._rows.types}).types
        names = tuple(self._known)
        asked_sources(names, self._options, where)  # refuses those that are not known
        content = self._assembler.build(
            types=types,
            sources=names,
            facts=facts,
            probabilities=self._probabilities.matrix(facts, types, where),
        )
        if self._gold_key not in TAGS:
            return content
        return with_data(content, gold=self._tagged_gold(data_of(content)))

    def _tagged_gold(self, data: Dataset) -> NDArray[np.int16]:
        def where(token: int) -> str:
            sentence = piece_at(data.offsets, token)
            line = f"{self._path}:{self._lines[sentence]}"
            return f"{line}: token {token - data.offsets[sentence]}"

        numbers = np.frombuffer(self._numbers, np.int32)
        mending = Mending(self._options.on_illegal, self._report, any_scheme=True)
        return self._rows.labels(0, numbers, data.offsets, data.tags, where=where, mending=mending)


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
        with placed(where):
            return tokens, text, token_places(tokens, text)
    chars = char_pairs(pairs, len(tokens), text, where)
    if (chars[1:, 0] < chars[:-1, 1]).any():
        raise DataError(f"{where}: expected tokens one after the other, got some that overlap")
    return tokens, text, chars


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
