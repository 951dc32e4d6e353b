"""Wrench: one JSON file of items per split, beside a `meta.json`.

An item is `{"label": gold, "data": {"text": tokens}, "weak_labels": votes}`. Votes are lists of spans, one list per
source, null where the source abstains; or, as Wrench publishes them, a tokens x sources matrix of tags. Fields that
Wrench does not define are added to `data` and to the meta file, where other readers ignore them.
"""

from __future__ import annotations

import logging
from array import array
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.issues import Issues, error_location, short_repr
from convener.data.tags import ABSTAIN
from convener.errors import DataError, FormatError
from convener.io import formats
from convener.io.builder import GOLD, DatasetBuilder, StringArrayBuilder
from convener.io.formats import (
    CAPABILITIES,
    FileContent,
    Format,
    LabeledData,
    ReadOptions,
    WriteOptions,
    get_dataset,
)
from convener.io.json_records import (
    RecordColumns,
    RecordReader,
    SentenceSlice,
    iter_records,
    parse_token_offsets,
    zip_columns,
)
from convener.io.json_stream import dump_json, iter_json_items
from convener.io.metadata import Metadata, build_tag_set, parse_names, replace_dataset_fields, select_sources
from convener.io.tag_columns import TagRowIndex
from convener.storage import read_json, sibling_files

logger = logging.getLogger(__name__)
VERSION_1_DATA_KEYS = {"string": "text_raw", "chars": "token_offsets", "start": "doc_offset"}
"""Keys in `data` of files of version 1, and their names since version 2."""
SHARED_META_SPLITS = ("train", "valid", "test")
"""Splits that share one `meta.json`."""
ABSTAIN_TAG = "ABSTAIN"
ABSTAIN_TAGS = (ABSTAIN_TAG, "-")
"""Tags that stand for abstain, besides null and -1."""


def read(path: Path, options: ReadOptions, issues: Issues) -> FileContent:
    """Read a split; items are decoded one at a time, to limit memory."""
    reader = _Reader(path, _Meta.for_split(path), options, issues)
    for name, item in iter_json_items(path, options.encoding):
        reader.add(name, item)
    return reader.file_content(reader.build())


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write a split and its meta file; votes are written as tags if spans cannot represent them."""
    as_tags = bool({"abstain within a sentence", "illegal votes"} & formats.required_capabilities(content))
    if as_tags and any("\0" in name for name in get_dataset(content).tags.types):
        raise FormatError(f"{path.name}: an entity type with a NUL character cannot be written as a tag")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("{")
        for number, item in enumerate(iter_records(content, partial(_columns, as_tags=as_tags))):
            file.write(",\n" if number else "\n")
            file.write(f'"{number}": {dump_json(item, f"{path.name}: sentence {number}")}')
        file.write("\n}\n")
    _write_meta(content, path)


@dataclass(frozen=True)
class _Meta:
    """Content of a meta file."""

    metadata: Metadata
    recommended: tuple[str, ...] | None

    @classmethod
    def for_split(cls, path: Path) -> _Meta:
        """Read the meta file of a split: `<stem>.meta.json`, else `meta.json`; empty if neither exists."""
        for file in (path.with_name(f"{path.stem}.meta.json"), path.with_name("meta.json")):
            if file.is_file():
                values, where = read_json(file), str(file)
                metadata = Metadata.from_dict(values, where, types_key="entity_types", sources_key="lf")
                recommended = parse_names(values, "lf_rec", where)
                for name in recommended or ():
                    if name not in (metadata.sources or ()):
                        raise DataError(f"{file}: 'lf_rec' contains {name!r}, which is not in 'lf'")
                return cls(metadata, recommended)
        return cls(Metadata(), None)


def _write_meta(content: LabeledData, path: Path) -> None:
    """Write `meta.json`; if one with other content exists, write `<stem>.meta.json` instead."""
    values = Metadata.from_content(content).without_inferable_contents(content).to_dict()
    sources = values.pop("sources")
    meta = {"entity_types": values.pop("types"), "lf": sources, "lf_rec": sources, **values}
    text = dump_json(meta, f"{path.name}: meta")
    own_file = path.with_name(f"{path.stem}.meta.json")
    use_shared = path.stem in SHARED_META_SPLITS and not sibling_files(path, own_file.name)
    for existing in sibling_files(path, "meta.json"):
        use_shared = use_shared and existing.read_bytes() == f"{text}\n".encode()
    file = path.with_name("meta.json") if use_shared else own_file
    file.write_text(f"{text}\n", encoding="utf-8", newline="\n")


class _Reader(RecordReader):
    """Collects items: sentences and spans in a dataset builder, tags as rows of a tag index."""

    def __init__(self, path: Path, meta: _Meta, options: ReadOptions, issues: Issues) -> None:
        builder = DatasetBuilder(replace(options, sources="all"), issues, in_tokens=True)
        super().__init__(path, meta.metadata, options, issues, builder)
        self._recommended, self._ids = meta.recommended, StringArrayBuilder()
        self._annotation_formats: dict[str, str] = {}
        self._sources: tuple[str, ...] = ()
        self._num_sources: int | None = None
        self._source_columns: list[int] = []
        self._vote_tag_rows, self._vote_row_ids = TagRowIndex([], self._types), array("i")
        if meta.metadata.sources is not None:
            self._set_num_sources(len(meta.metadata.sources), str(path))

    def add(self, name: str, item: Any) -> None:
        """Add one item."""
        where = f"{self._path}: item {name!r}"
        data = item.get("data") if isinstance(item, dict) else item
        if not isinstance(item, dict) or not isinstance(data, dict):
            raise DataError(f"{where}: expected an object with 'data', got {short_repr(item)}")
        tokens = data.get("text")
        if not isinstance(tokens, list) or not _all_strings(tokens):
            raise DataError(f"{where}: 'text' must be a list of tokens, got {short_repr(tokens)}")
        doc_id = self._parse_doc_id(data, where)
        if doc_id is None and name != str(len(self._builder)):
            doc_id = name
        text, token_offsets, doc_offset = self._text(data, len(tokens), where)
        self._builder.add_sentence(
            tokens,
            where=where,
            text=text,
            token_offsets=token_offsets,
            doc_id=doc_id,
            doc_offset=doc_offset,
        )
        self._ids.extend([name])
        self._add_gold(item.get("label"), len(tokens), where)
        self._add_votes(item.get("weak_labels"), len(tokens), where)
        predictions_key = "prediction" if self._metadata.version == 1 else "predictions"
        self._add_prediction(predictions_key, item, len(tokens), where)

    def _text(
        self, data: dict[str, Any], num_tokens: int, where: str
    ) -> tuple[str | None, NDArray[np.int32] | None, int]:
        """Return the text of an item, the offsets of its tokens, and its offset in the document."""
        if self._metadata.version == 1:
            data = {VERSION_1_DATA_KEYS.get(key, key): value for key, value in data.items()}
        text, doc_offset = data.get("text_raw"), data.get("doc_offset", 0)
        if not self._all_or_none("text_raw", text is not None, where):
            return None, None, 0
        if not isinstance(text, str) or type(doc_offset) is not int or not 0 <= doc_offset < 2**63:
            raise DataError(
                f"{where}: 'text_raw' must be a string and 'doc_offset' a non-negative integer, "
                f"got {short_repr(text)} and {short_repr(doc_offset)}"
            )
        return text, parse_token_offsets(data.get("token_offsets"), num_tokens, text, where), doc_offset

    def _check_annotation_format(self, key: str, annotation_format: str, where: str) -> None:
        """Raise DataError if an earlier item has "spans" under a key and this one "tags", or vice versa."""
        expected = self._annotation_formats.setdefault(key, annotation_format)
        if expected != annotation_format:
            raise DataError(f"{where}: {key!r} must contain {expected}, as in earlier items, got {annotation_format}")

    def _add_gold(self, label: Any, num_tokens: int, where: str) -> None:
        if not self._all_or_none("label", label is not None, where):
            return
        if not isinstance(label, list):
            raise DataError(f"{where}: 'label' must be a list of spans or tags, got {short_repr(label)}")
        if label and isinstance(label[0], str):
            self._check_annotation_format("label", "tags", where)
            self._add_tag_rows(self._gold_tag_rows, self._gold_row_ids, [[tag] for tag in label], num_tokens, where)
            return
        if num_tokens:
            self._check_annotation_format("label", "spans", where)
        self._add_spans(GOLD, label, where)

    def _add_votes(self, weak_labels: Any, num_tokens: int, where: str) -> None:
        if not self._all_or_none("weak_labels", weak_labels is not None, where):
            return
        if not isinstance(weak_labels, list):
            raise DataError(f"{where}: 'weak_labels' must be a list, got {short_repr(weak_labels)}")
        first_row = next((row for row in weak_labels if row), None)
        if first_row is None and (not num_tokens or self._num_sources == 0):
            return
        if isinstance(first_row, list) and not isinstance(first_row[0], list):
            self._check_annotation_format("weak_labels", "tags", where)
            all_lists = set(map(type, weak_labels)) == {list}
            for width in set(map(len, weak_labels)) if all_lists else (-1,):
                self._set_num_sources(width, where)
            rows = self._select_columns(weak_labels)
            self._add_tag_rows(self._vote_tag_rows, self._vote_row_ids, rows, num_tokens, where)
            return
        self._check_annotation_format("weak_labels", "spans", where)
        self._set_num_sources(len(weak_labels), where)
        for name, column in zip(self._sources, self._source_columns, strict=True):
            if weak_labels[column] is None:
                self._builder.abstain(name)
            elif weak_labels[column] != []:
                self._add_spans(name, weak_labels[column], where)

    def _select_columns(self, rows: list[list[Any]]) -> list[list[Any]]:
        if self._source_columns == list(range(len(rows[0]))):
            return rows
        return [[row[column] for column in self._source_columns] for row in rows]

    def _set_num_sources(self, count: int, where: str) -> None:
        """Fix the number of sources on the first call; DataError if a later call differs."""
        if self._num_sources is None:
            names = self._metadata.sources or tuple(f"source-{n}" for n in range(count))
            self._num_sources = len(names)
            self._sources = select_sources(names, self._options, str(self._path), self._recommended)
            if self._options.sources == "recommended" and len(self._sources) < len(names):
                logger.info(
                    "%s: read %d of %d sources, the recommended ones; sources='all' (--source all) reads all",
                    self._path,
                    len(self._sources),
                    len(names),
                )
            self._source_columns = [names.index(name) for name in self._sources]
            self._vote_tag_rows = TagRowIndex(
                self._sources, self._types, abstain_tags=ABSTAIN_TAGS, num_vote_columns=len(self._source_columns)
            )
        if count != self._num_sources:
            got = "rows that are not lists" if count < 0 else str(count)
            raise DataError(f"{where}: expected weak labels from {self._num_sources} sources, got {got}")

    def _add_tag_rows(
        self,
        tag_rows: TagRowIndex,
        row_ids: array[int],
        tag_lists: list[list[Any]],
        num_tokens: int,
        where: str,
    ) -> None:
        """Append the row ids of the tags of one sentence."""
        if len(tag_lists) != num_tokens:
            raise DataError(f"{where}: expected tags for {num_tokens} tokens, got {len(tag_lists)}")
        old_length = len(row_ids)
        try:
            with error_location(where):
                row_ids.extend(map(tag_rows.__getitem__, map("\0".join, tag_lists)))
        except TypeError:  # some tags are not strings
            del row_ids[old_length:]
            for row in tag_lists:
                for column, tag in enumerate(row):
                    if tag is None or (type(tag) is int and tag == ABSTAIN):
                        row[column] = ABSTAIN_TAG
                    elif not isinstance(tag, str):
                        raise DataError(f"{where}: expected a tag, got {short_repr(tag)}") from None
            self._add_tag_rows(tag_rows, row_ids, tag_lists, num_tokens, where)

    def build(self) -> LabeledData:
        """Return the dataset or the predictions of all items."""
        metadata = self._metadata
        observed_types = {*self._builder.observed_types, *self._gold_tag_rows.types, *self._vote_tag_rows.types}
        with error_location(str(self._path)):
            types = build_tag_set(self._types, observed_types, self._options.default_types).types
        if self._num_sources is None:
            select_sources((), self._options, str(self._path))  # raises if sources were requested by name
        sources = self._sources if self._all_or_none.has("weak_labels") or not len(self._builder) else ()
        votes_are_tags = self._annotation_formats.get("weak_labels") == "tags"
        content = self._build(types, () if votes_are_tags else sources)
        data = get_dataset(content)
        changes: dict[str, Any] = {}
        if self._annotation_formats.get("label") == "tags":
            changes["gold"] = self._column_labels(self._gold_tag_rows, 0, self._gold_row_ids, data)
        if votes_are_tags:
            votes = np.empty((len(data.tokens), len(sources)), np.int16)
            for column in range(len(sources)):
                votes[:, column] = self._column_labels(self._vote_tag_rows, column, self._vote_row_ids, data)
            unmarked = metadata.unmarked_by_source(sources, self._options)
            changes |= {"sources": sources, "votes": votes, "unmarked": unmarked}
        return metadata.restore(replace_dataset_fields(content, **changes)) if changes else content

    def _column_labels(
        self, tag_rows: TagRowIndex, column: int, row_ids: array[int], data: Dataset
    ) -> NDArray[np.int16]:
        """Return the labels of one column of tags.  -> (N,)"""
        ids = self._ids.build()

        def location(sentence: int, token: int) -> str:
            return f"{self._path}: item {ids[sentence]!r} token {token}"

        is_external = not self._metadata.unmarked  # native files state it for every source
        return self._tag_labels(tag_rows, column, row_ids, data, location, detect_scheme=is_external)


def _all_strings(items: list[Any]) -> bool:
    try:
        "".join(items)
    except TypeError:
        return False
    return True


def _columns(chunk: SentenceSlice, *, as_tags: bool) -> RecordColumns:
    data = chunk.data
    names = (*data.tags.names, ABSTAIN_TAG)
    columns: RecordColumns = {}
    if data.gold is not None and as_tags:
        columns["label"] = chunk.group_by_sentence([names[label] for label in data.gold.tolist()])
    elif data.gold is not None:
        columns["label"] = chunk.spans(data.gold)
    columns["data"] = zip_columns(_data_columns(chunk))
    if as_tags:
        rows = [[names[vote] for vote in row] for row in data.votes.tolist()]
        columns["weak_labels"] = chunk.group_by_sentence(rows)
    else:
        columns["weak_labels"] = chunk.votes()
    return columns | chunk.prediction_columns("predictions")


def _data_columns(chunk: SentenceSlice) -> RecordColumns:
    """Return the columns of the object `data` of an item."""
    data = chunk.data
    columns: RecordColumns = {"text": chunk.group_by_sentence(data.tokens.to_list())}
    if data.doc_ids is not None:
        columns["doc_id"] = iter(data.doc_ids)
    if data.text is not None:
        columns["text_raw"] = iter(data.text.sentences)
        columns["token_offsets"] = chunk.group_by_sentence(data.text.token_offsets.tolist())
        columns["doc_offset"] = iter(data.text.doc_offsets.tolist())
    return columns


FORMAT = Format(
    name="wrench",
    summary="Wrench JSON: one object of items beside a meta.json, votes as spans or tags",
    suffixes=(".json",),
    capabilities=frozenset(CAPABILITIES) - {"illegal votes"},  # they are written, but repaired when read
    read=read,
    write=write,
)
