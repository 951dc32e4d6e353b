"""Reads Wrench files, item by item."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.errors import DataError
from convener.io.assemble import GOLD, LABELS, Assembler, StringsBuilder
from convener.io.facts import asked_sources, tag_set, with_data
from convener.io.formats import Content, data_of
from convener.io.json_stream import json_items
from convener.io.json_values import Evenness, Probabilities, char_pairs, spans_in
from convener.io.mending import Mending
from convener.io.messages import placed, shown
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.io.tag_rows import TagRows
from convener.io.wrench.meta import Meta
from convener.packed import piece_at

SILENT_TAG = "ABSTAIN"
ABSTAINS = (SILENT_TAG, "-")
"""What stands for abstain among the tags of a source, beside null and -1."""


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """The split in a Wrench file; one item after the other, so that large files fit."""
    reader = _Reader(path, Meta.beside(path), options, report)
    for name, item in json_items(path):
        reader.add(name, item)
    return reader.build()


class _Reader:
    """Collects items: sentences and spans in an assembler, tags as rows."""

    def __init__(self, path: Path, meta: Meta, options: ReadOptions, report: Report) -> None:
        self._path, self._meta, self._options, self._report = path, meta, options, report
        self._assembler = Assembler(replace(options, sources="all"), report, in_tokens=True)
        self._ids = StringsBuilder()
        self._even = Evenness()
        self._spelling: dict[str, str] = {}
        self._types = meta.facts.asked_types(options)
        self._sources: tuple[str, ...] = ()
        self._known: int | None = None
        self._picked: list[int] = []
        self._gold = TagRows(["gold"], self._types)
        self._votes = TagRows([], self._types)
        self._gold_rows, self._vote_rows = array("i"), array("i")
        self._probabilities = Probabilities()
        self._scored = Evenness()
        if meta.facts.sources is not None:
            self._know(len(meta.facts.sources), str(path))

    def add(self, name: str, item: Any) -> None:
        """Take in one item."""
        where = f"{self._path}: item {name!r}"
        data = item.get("data") if isinstance(item, dict) else item
        if not isinstance(item, dict) or not isinstance(data, dict):
            raise DataError(f"{where}: expected an object with 'data', got {shown(item)}")
        tokens = data.get("text")
        if not isinstance(tokens, list) or not _all_strings(tokens):
            raise DataError(f"{where}: expected a list of tokens in 'text', got {shown(tokens)}")
        document: str | None = name if name != str(len(self._assembler)) else None
        if self._even("doc_id", data.get("doc_id") is not None, where):
            document = data["doc_id"]
            if not isinstance(document, str):
                raise DataError(f"{where}: expected 'doc_id' as a string, got {shown(document)}")
        text, chars, start = self._text(data, len(tokens), where)
        self._assembler.sentence(
            tokens, where=where, text=text, chars=chars, document=document, start=start
        )
        self._ids.extend([name])
        self._add_gold(item.get("label"), len(tokens), where)
        self._add_votes(item.get("weak_labels"), len(tokens), where)
        self._add_prediction(item, len(tokens), where)

    def _text(
        self, data: dict[str, Any], size: int, where: str
    ) -> tuple[str | None, NDArray[np.int32] | None, int]:
        """The text of an item, where its tokens are in it, and where it begins."""
        text, start = data.get("string"), data.get("start", 0)
        if not self._even("string", text is not None, where):
            return None, None, 0
        if not isinstance(text, str) or type(start) is not int or not 0 <= start < 2**63:
            raise DataError(
                f"{where}: expected 'string' as text and 'start' as its offset, "
                f"got {shown(text)} and {shown(start)}"
            )
        return text, char_pairs(data.get("chars"), size, text, where), start

    def _spelled(self, key: str, spelling: str, where: str) -> None:
        known = self._spelling.setdefault(key, spelling)
        if known != spelling:
            raise DataError(f"{where}: expected {key!r} as {known}, as before, got {spelling}")

    def _add_gold(self, label: Any, size: int, where: str) -> None:
        if not self._even("label", label is not None, where):
            return
        if not isinstance(label, list):
            raise DataError(f"{where}: expected 'label' as spans or tags, got {shown(label)}")
        if label and isinstance(label[0], str):
            self._spelled("label", "tags", where)
            self._number(self._gold, self._gold_rows, [[tag] for tag in label], size, where)
            return
        if size:
            self._spelled("label", "spans", where)
        self._assembler.source(GOLD)
        for start, end, kind, _ in spans_in(label, where, "gold"):
            self._assembler.span(GOLD, start, end, kind)

    def _add_votes(self, weak: Any, size: int, where: str) -> None:
        if not self._even("weak_labels", weak is not None, where):
            return
        if not isinstance(weak, list):
            raise DataError(f"{where}: expected 'weak_labels' as a list, got {shown(weak)}")
        first = next((row for row in weak if row), None)
        if first is None and (not size or self._known == 0):
            return
        if isinstance(first, list) and not isinstance(first[0], list):
            self._spelled("weak_labels", "tags", where)
            rows = set(map(type, weak)) == {list}
            for width in set(map(len, weak)) if rows else (-1,):
                self._know(width, where)
            self._number(self._votes, self._vote_rows, self._chosen_tags(weak), size, where)
            return
        self._spelled("weak_labels", "spans", where)
        self._know(len(weak), where)
        for name, column in zip(self._sources, self._picked, strict=True):
            if weak[column] is None:
                self._assembler.unseen(name)
            elif weak[column] != []:
                for start, end, kind, _ in spans_in(weak[column], where, name):
                    self._assembler.span(name, start, end, kind)

    def _chosen_tags(self, rows: list[list[Any]]) -> list[list[Any]]:
        if self._picked == list(range(len(rows[0]))):
            return rows
        return [[row[column] for column in self._picked] for row in rows]

    def _know(self, count: int, where: str) -> None:
        """There are so many sources."""
        if self._known is None:
            names = self._meta.facts.sources or tuple(f"source-{n}" for n in range(count))
            self._known = len(names)
            self._sources = asked_sources(
                names, self._options, str(self._path), self._meta.recommended
            )
            self._picked = [names.index(name) for name in self._sources]
            self._votes = TagRows(
                self._sources, self._types, abstain=ABSTAINS, voting=len(self._picked)
            )
        if count != self._known:
            got = "something else" if count < 0 else str(count)
            raise DataError(f"{where}: expected weak labels of {self._known} sources, got {got}")

    def _number(
        self, rows: TagRows, numbers: array[int], given: list[list[Any]], size: int, where: str
    ) -> None:
        """Add the numbers of the rows of tags of one sentence."""
        if len(given) != size:
            raise DataError(f"{where}: expected tags of {size} tokens, got {len(given)}")
        before = len(numbers)
        try:
            with placed(where):
                numbers.extend(map(rows.__getitem__, map("\0".join, given)))
        except TypeError:  # not all are strings
            del numbers[before:]
            for row in given:
                for column, tag in enumerate(row):
                    if tag is None or (type(tag) is int and tag == ABSTAIN):
                        row[column] = SILENT_TAG
                    elif not isinstance(tag, str):
                        raise DataError(f"{where}: expected a tag, got {shown(tag)}") from None
            self._number(rows, numbers, given, size, where)

    def _add_prediction(self, item: dict[str, Any], size: int, where: str) -> None:
        spans, rows = item.get("prediction"), item.get("probabilities")
        if self._even("prediction", spans is not None, where):
            self._assembler.source(LABELS)
            for start, end, kind, score in spans_in(spans, where, "labels"):
                self._scored("score", score == score, where)
                self._assembler.span(LABELS, start, end, kind, score)
        if self._even("probabilities", rows is not None, where):
            self._probabilities.extend(rows, size, where)

    def build(self) -> Content:
        """The dataset or the predictions of all items."""
        facts, where, has = self._meta.facts, str(self._path), self._even.has
        found = {*self._assembler.found_types, *self._gold.types, *self._votes.types}
        with placed(where):
            types = tag_set(self._types, found).types
        if self._known is None:
            asked_sources((), self._options, where)  # refuses sources asked for by name
        sources = self._sources if has("weak_labels") or not len(self._assembler) else ()
        tagged = self._spelling.get("weak_labels") == "tags"
        content = self._assembler.build(
            types=types,
            sources=() if tagged else sources,
            facts=facts,
            probabilities=self._probabilities.matrix(facts, types, where),
        )
        data = data_of(content)
        changes: dict[str, Any] = {}
        if self._spelling.get("label") == "tags":
            changes["gold"] = self._column(self._gold, 0, self._gold_rows, data)
        if tagged:
            votes = np.empty((len(data.tokens), len(sources)), np.int16)
            for column in range(len(sources)):
                votes[:, column] = self._column(self._votes, column, self._vote_rows, data)
            silence = facts.silences(sources, self._options)
            changes |= {"sources": sources, "votes": votes, "silence": silence}
        return facts.restored(with_data(content, **changes)) if changes else content

    def _column(
        self, rows: TagRows, column: int, numbers: array[int], data: Dataset
    ) -> NDArray[np.int16]:
        ids = self._ids.build()

        def where(token: int) -> str:
            sentence = piece_at(data.offsets, token)
            return f"{self._path}: item {ids[sentence]!r} token {token - data.offsets[sentence]}"

        foreign = not self._meta.facts.silence  # files of ours say what silence means
        mending = Mending(self._options.on_illegal, self._report, any_scheme=foreign)
        tagged = np.frombuffer(numbers, np.int32)
        return rows.labels(column, tagged, data.offsets, data.tags, where=where, mending=mending)


def _all_strings(items: list[Any]) -> bool:
    try:
        "".join(items)
    except TypeError:
        return False
    return True
