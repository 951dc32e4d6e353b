"""Wrench: a JSON file of items per split beside a `meta.json`, read as spans or as tags.

An item is `{"label": gold, "data": {"text": tokens}, "weak_labels": votes}`. Votes are lists of
spans, one list per source, null where the source abstains; or, as Wrench itself publishes them,
tokens x sources of tags. What Wrench has no place for is added inside an item's `data` and in
the meta file, where other readers overlook it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset, Text
from convener.errors import DataError, FormatError
from convener.io import formats
from convener.io.assemble import GOLD, LABELS, Assembler, StringsBuilder
from convener.io.files import decoded, neighbours
from convener.io.formats import Content, Format
from convener.io.options import ReadOptions, WriteOptions
from convener.io.pieces import (
    Evenness,
    Head,
    Probabilities,
    TagRows,
    char_pairs,
    checked_types,
    chosen,
    dumped,
    heading,
    json_items,
    names_in,
    parsed,
    score_tails,
    shortest,
    shown,
    spans_in,
    with_data,
)
from convener.io.report import Report
from convener.packed import Strings
from convener.predictions import Predictions

SILENT_TAG = "ABSTAIN"
ABSTAINS = (SILENT_TAG, "-")
"""What stands for abstain among the tags of a source, beside null and -1."""
SHARED = ("train", "valid", "test")
"""Splits that share one `meta.json`."""
SLICE = 2000
"""So many sentences are written at a time."""


@dataclass(frozen=True)
class Meta:
    """What the meta file says."""

    head: Head
    recommended: tuple[str, ...] | None

    @classmethod
    def beside(cls, path: Path) -> Meta:
        """The meta of a split: `<stem>.meta.json`, else `meta.json`, else nothing known."""
        for file in (path.with_name(f"{path.stem}.meta.json"), path.with_name("meta.json")):
            if file.is_file():
                values = parsed(decoded(file.read_bytes(), str(file)), str(file))
                if not isinstance(values, dict):
                    raise DataError(f"{file}: expected a JSON object, got {shown(values)}")
                head = Head.of(values, str(file), types="entity_types", sources="lf")
                recommended = names_in(values, "lf_rec", str(file))
                for name in recommended or ():
                    if name not in (head.sources or ()):
                        raise DataError(f"{file}: 'lf_rec' names {name!r}, which 'lf' does not")
                return cls(head, recommended)
        return cls(Head(), None)


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
        self._assembler = Assembler(replace(options, sources="all"), report)
        self._ids = StringsBuilder()
        self._even = Evenness()
        self._spelling: dict[str, str] = {}
        self._types = options.types or meta.head.types
        self._sources: tuple[str, ...] = ()
        self._known: int | None = None
        self._picked: list[int] = []
        self._gold = TagRows(["gold"], self._types)
        self._votes = TagRows([], self._types)
        self._gold_rows, self._vote_rows = array("i"), array("i")
        self._lengths = array("q")
        self._texts, self._chars, self._starts = StringsBuilder(), array("i"), array("q")
        self._probabilities = Probabilities()
        self._scored = Evenness()
        if meta.head.sources is not None:
            self._know(len(meta.head.sources), str(path))

    def add(self, name: str, item: Any) -> None:
        """Take in one item."""
        where = f"{self._path}: item {name!r}"
        data = item.get("data") if isinstance(item, dict) else item
        if not isinstance(item, dict) or not isinstance(data, dict):
            raise DataError(f"{where}: expected an object with 'data', got {shown(item)}")
        tokens = data.get("text")
        if not isinstance(tokens, list) or not _all_strings(tokens):
            raise DataError(f"{where}: expected a list of tokens in 'text', got {shown(tokens)}")
        document: str | None = name if name != str(len(self._lengths)) else None
        if self._even("doc_id", data.get("doc_id") is not None, where):
            document = data["doc_id"]
            if not isinstance(document, str):
                raise DataError(f"{where}: expected 'doc_id' as a string, got {shown(document)}")
        self._assembler.sentence(tokens, where=where, document=document)
        self._lengths.append(len(tokens))
        self._ids.extend([name])
        self._add_text(data, len(tokens), where)
        self._add_gold(item.get("label"), len(tokens), where)
        self._add_votes(item.get("weak_labels"), len(tokens), where)
        self._add_prediction(item, len(tokens), where)

    def _add_text(self, data: dict[str, Any], size: int, where: str) -> None:
        text, start = data.get("string"), data.get("start", 0)
        if not self._even("string", text is not None, where):
            return
        if not isinstance(text, str) or type(start) is not int or not 0 <= start < 2**63:
            raise DataError(
                f"{where}: expected 'string' as text and 'start' as its offset, "
                f"got {shown(text)} and {shown(start)}"
            )
        self._texts.extend([text])
        self._chars.extend(char_pairs(data.get("chars"), size, text, where).ravel().tolist())
        self._starts.append(start)

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
            names = self._meta.head.sources or tuple(f"source-{n}" for n in range(count))
            self._known = len(names)
            self._picked = chosen(names, self._options, str(self._path), self._meta.recommended)
            self._sources = tuple(names[column] for column in self._picked)
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
            numbers.extend(map(rows.__getitem__, map("\0".join, given)))
        except DataError as error:
            raise DataError(f"{where}: {error}") from None
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
        head, where, has = self._meta.head, str(self._path), self._even.has
        found = {*self._assembler.found_types, *self._gold.types, *self._votes.types}
        types = checked_types(self._types or tuple(sorted(found)), where).types
        if self._known is None:
            chosen((), self._options, where)  # refuses sources asked for by name
        if head.model is not None and not len(self._lengths):
            self._assembler.source(LABELS)
        sources = self._sources if has("weak_labels") or not len(self._lengths) else ()
        silence = head.silences(sources, self._options)
        tagged = self._spelling.get("weak_labels") == "tags"
        content = self._assembler.build(
            types=types,
            sources=() if tagged else sources,
            silence=dict(zip(sources, silence, strict=True)),
            probabilities=self._probabilities.matrix(head.types, types, where)
            if has("probabilities")
            else None,
            model=head.model or "",
            settings=head.settings,
        )
        data = content.data if isinstance(content, Predictions) else content
        changes = self._beyond_spans(data)
        if tagged:
            votes = np.empty((len(data.tokens), len(sources)), np.int16)
            for column in range(len(sources)):
                votes[:, column] = self._column(self._votes, column, self._vote_rows, data)
            changes |= {"sources": sources, "votes": votes, "silence": silence}
        return head.restored(with_data(content, **changes) if changes else content)

    def _beyond_spans(self, data: Dataset) -> dict[str, Any]:
        """Gold from tags, text and document ids: what the assembler does not know."""
        changes: dict[str, Any] = {}
        if self._spelling.get("label") == "tags":
            changes["gold"] = self._column(self._gold, 0, self._gold_rows, data)
        if self._even.has("string"):
            chars = np.array(self._chars, np.int32).reshape(-1, 2)
            changes["text"] = Text(self._texts.build(), chars, np.array(self._starts, np.int64))
        if self._even.has("doc_id") and data.documents is None:
            # Given as ids, though they look like running numbers.
            changes["documents"] = Strings.of(map(str, range(len(data))))
        return changes

    def _column(
        self, rows: TagRows, column: int, numbers: array[int], data: Dataset
    ) -> NDArray[np.int16]:
        ids = self._ids.build()

        def place(token: int) -> str:
            sentence = int(np.searchsorted(data.offsets, token, side="right")) - 1
            return f"{self._path}: item {ids[sentence]!r} token {token - data.offsets[sentence]}"

        return rows.labels(
            column,
            np.frombuffer(numbers, np.int32),
            data.offsets,
            data.tags,
            policy=self._options.on_illegal,
            place=place,
            report=self._report,
        )


def _all_strings(items: list[Any]) -> bool:
    try:
        "".join(items)
    except TypeError:
        return False
    return True


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """Write a split and its meta file."""
    data = content.data if isinstance(content, Predictions) else content
    tagged = bool({"abstain within a sentence", "illegal votes"} & formats.parts(content))
    if tagged and any("\0" in name for name in data.tags.types):
        raise FormatError(f"{path.name}: an entity type with NUL cannot be written in tags")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("{")
        for number, item in enumerate(_items(content, data, tagged=tagged)):
            file.write(",\n" if number else "\n")
            file.write(f'"{number}": {dumped(item, f"{path.name}: sentence {number}")}')
        file.write("\n}\n")
    _write_meta(content, path)


def _items(content: Content, data: Dataset, *, tagged: bool) -> Iterator[dict[str, Any]]:
    """The item of each sentence; a slice of the data is unpacked at a time."""
    predicted = content if isinstance(content, Predictions) else None
    tails = iter(()) if predicted is None else score_tails(predicted)
    for first in range(0, len(data), SLICE):
        part = data[first : first + SLICE]
        at = slice(int(data.offsets[first]), int(data.offsets[first + len(part)]))
        columns: dict[str, Iterator[Any]] = {}
        if part.gold is not None:
            columns["label"] = _tags(part, part.gold) if tagged else _spans(part, part.gold)
        columns["data"] = _texts(part)
        columns["weak_labels"] = _vote_tags(part) if tagged else _vote_spans(part)
        if predicted is not None:
            columns["prediction"] = (
                [[*span, *tail] for span, tail in zip(spans, tails, strict=False)]
                for spans in _spans(part, predicted.labels[at])
            )
            if predicted.probabilities is not None:
                rows = shortest(predicted.probabilities[at])
                columns["probabilities"] = _pieces(part, rows)
        for values in zip(*columns.values(), strict=True):
            yield dict(zip(columns, values, strict=True))


def _pieces(part: Dataset, rows: list[Any]) -> Iterator[list[Any]]:
    """The rows of each sentence."""
    return (rows[a:b] for a, b in pairwise(part.offsets.tolist()))


def _spans(part: Dataset, labels: NDArray[np.int16]) -> Iterator[list[list[Any]]]:
    """The spans of each sentence."""
    types = part.tags.types
    spans = part.tags.spans(labels, part.offsets)
    for rows in spans.by_sentence(len(part)):
        yield [[start, end, types[kind]] for start, end, kind in rows]


def _tags(part: Dataset, labels: NDArray[np.int16]) -> Iterator[list[str]]:
    """The tags of each sentence, as they are."""
    names = (*part.tags.names, SILENT_TAG)
    return _pieces(part, [names[label] for label in labels.tolist()])


def _vote_spans(part: Dataset) -> Iterator[list[list[list[Any]] | None]]:
    """For each sentence and source its spans, or None where it abstains."""
    columns: list[Iterator[list[list[Any]] | None]] = []
    for column in range(len(part.sources)):
        votes = part.votes[:, column]
        first = np.append(votes, np.int16(0))[part.offsets[:-1]]
        unseen = (first == ABSTAIN) & (part.lengths > 0)
        spans = _spans(part, votes)
        columns.append(
            None if absent else row for row, absent in zip(spans, unseen.tolist(), strict=True)
        )
    return (list(row) for row in zip(*columns, strict=True)) if columns else repeat([], len(part))


def _vote_tags(part: Dataset) -> Iterator[list[list[str]]]:
    """For each sentence the tags of all sources on each token."""
    names = (*part.tags.names, SILENT_TAG)
    return _pieces(part, [[names[vote] for vote in row] for row in part.votes.tolist()])


def _texts(part: Dataset) -> Iterator[dict[str, Any]]:
    """What an item has under "data"."""
    columns: dict[str, Iterator[Any]] = {"text": _pieces(part, part.tokens.to_list())}
    if part.documents is not None:
        columns["doc_id"] = iter(part.documents)
    if part.text is not None:
        columns["string"] = iter(part.text.text)
        columns["chars"] = _pieces(part, part.text.chars.tolist())
        columns["start"] = iter(part.text.starts.tolist())
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))


def _write_meta(content: Content, path: Path) -> None:
    """Write `meta.json` for a split, unless one that says something else is there; else its own."""
    head = heading(content)
    meta = {
        "entity_types": head.pop("types"),
        "lf": head["sources"],
        "lf_rec": head.pop("sources"),
        **head,
    }
    text = dumped(meta, f"{path.name}: meta")
    own = path.with_name(f"{path.stem}.meta.json")
    shared = path.stem in SHARED and not neighbours(path, own.name)
    for other in neighbours(path, "meta.json"):
        shared = shared and other.read_bytes() == f"{text}\n".encode()
    file = path.with_name("meta.json") if shared else own
    file.write_text(f"{text}\n", encoding="utf-8", newline="\n")


FORMAT = Format(
    name="wrench",
    summary="Wrench's JSON: one object of items beside a meta.json, votes as spans or tags",
    suffixes=(".json",),
    carries=frozenset(formats.PARTS) - {"illegal votes"},  # they are kept, but reading repairs them
    read=read,
    write=write,
)
