"""JSON lines: one record per sentence; also reads exports of doccano, Prodigy, LightTag and others.

Offsets count characters of `text` if a record has text, else tokens. The first record of a file written by convener
also has `convener`, the metadata: types, sources, the meaning of unmarked tokens, and the model of predictions.
"""

from __future__ import annotations

import codecs
from array import array
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.alignment import misordered_tokens
from convener.data.dataset import Dataset
from convener.data.issues import Issues, error_location, short_repr
from convener.data.ragged import locate
from convener.data.tokenize import find_token_offsets, word_spans
from convener.encodings import open_text
from convener.errors import DataError, FormatError
from convener.io.builder import DISPLAY_NAMES, GOLD, DatasetBuilder
from convener.io.formats import (
    CAPABILITIES,
    FileContent,
    Format,
    LabeledData,
    ReadOptions,
    WriteOptions,
    get_dataset,
)
from convener.io.json_records import RecordColumns, RecordReader, SentenceSlice, iter_records, parse_token_offsets
from convener.io.json_stream import dump_json
from convener.io.metadata import Metadata, build_tag_set, replace_dataset_fields, select_sources
from convener.storage import decode_line, parse_json

VERSION_1_KEYS = {
    "corpus": "convener",
    "chars": "token_offsets",
    "char_start": "doc_offset",
    "labels": "predictions",
}
"""Keys of native files of version 1, and their names since version 2."""
EXTERNAL_GOLD_KEYS = ("gold", "spans", "entities", "labels", "label", "ner_tags", "tags")
"""Keys under which other tools store spans or tags; the first that a record has is used."""
TAG_KEYS = ("ner_tags", "tags")
START_KEYS = ("start", "start_offset")
END_KEYS = ("end", "end_offset")
LABEL_KEYS = ("label", "tag", "type")


def read(path: Path, options: ReadOptions, issues: Issues) -> FileContent:
    """Read a JSON lines file: Predictions if convener wrote it and it has `predictions`, else a Dataset."""
    reader: _Reader | None = None
    is_version_1 = False
    with open_text(path, options.encoding) as file:
        for line_number, raw in enumerate(file, 1):
            where = f"{path}:{line_number}"
            raw = raw.removeprefix(codecs.BOM_UTF8) if line_number == 1 else raw
            if not raw.strip():
                continue
            record = parse_json(decode_line(raw, where), where)
            if not isinstance(record, dict):
                raise DataError(f"{where}: expected a JSON object, got {short_repr(record)}")
            if reader is None:
                is_version_1 = isinstance(record.get("corpus"), dict)
            if is_version_1:
                record = {VERSION_1_KEYS.get(key, key): value for key, value in record.items()}
            if reader is None:
                reader = _Reader(path, record.get("convener"), options, issues, where)
                if reader.is_native and not {"text", "tokens"} & set(record):
                    continue
            elif {"convener", "corpus"} & set(record) and not reader.is_native:
                raise DataError(f"{where}: the metadata record must be the first line of the file")
            if record.get("answer", "accept") != "accept":  # Prodigy's verdict on the annotation
                issues.add("left out", where, "gold", f"answer {short_repr(record['answer'])}")
                continue
            reader.add(record, where)
    if reader is None:
        raise DataError(f"{path}: the file is empty: expected one JSON object per line")
    return reader.file_content(reader.build())


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write one record per sentence; the first also contains the metadata."""
    data = get_dataset(content)
    metadata = {"convener": Metadata.from_content(content).without_inferable_contents(content).to_dict()}
    if not options.allow_lossy:
        _check_token_offsets(data, path.name)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if not len(data):
            file.write(dump_json(metadata, path.name) + "\n")
        for number, record in enumerate(iter_records(content, _columns, in_characters=True)):
            where = f"{path.name}: sentence {number}"
            file.write(dump_json({**({} if number else metadata), **record}, where) + "\n")


class _Reader(RecordReader):
    """Adds records to a dataset builder."""

    def __init__(self, path: Path, metadata: Any, options: ReadOptions, issues: Issues, where: str) -> None:
        self.is_native = isinstance(metadata, dict)
        metadata = Metadata.from_dict(metadata, where) if self.is_native else Metadata()
        super().__init__(path, metadata, options, issues, DatasetBuilder(options, issues))
        self._gold_key: str | None = None
        self._line_numbers = array("q")
        self._missing_entries: dict[str, array[int]] = {}
        for name in self._metadata.sources or ():
            if self._is_selected(name):
                self._builder.source_spans(name)
        self._source_names = dict.fromkeys(self._metadata.sources or ())

    def _is_selected(self, name: str) -> bool:
        return isinstance(self._options.sources, str) or name in self._options.sources

    def add(self, record: dict[str, Any], where: str) -> None:
        """Add one record."""
        doc_id, doc_offset = self._parse_doc_id(record, where), record.get("doc_offset", 0)
        if type(doc_offset) is not int or not 0 <= doc_offset < 2**63:
            raise DataError(f"{where}: 'doc_offset' must be a non-negative integer, got {short_repr(doc_offset)}")
        tokens, text, token_offsets = _parse_tokens(record, where)
        self._builder.add_sentence(
            tokens,
            where=where,
            text=text,
            token_offsets=token_offsets,
            doc_id=doc_id,
            doc_offset=doc_offset,
        )
        self._line_numbers.append(int(where.rpartition(":")[2]))
        self._add_votes(record.get("votes"), where)
        if not self.is_native:
            if "predictions" in record and {"votes", "probabilities"} & set(record):
                raise DataError(f"{where}: 'predictions' without a metadata record: is the first line missing?")
            self._add_external_gold(record, len(tokens), where)
            return
        if self._all_or_none("gold", record.get("gold") is not None, where):
            self._add_spans(GOLD, record["gold"], where)
        self._add_prediction("predictions", record, len(tokens), where)

    def _add_spans(self, source: str, value: object, where: str) -> None:
        super()._add_spans(source, _spans_as_rows(value, where, DISPLAY_NAMES.get(source, source)), where)

    def _add_votes(self, votes: Any, where: str) -> None:
        votes = {} if votes is None else votes
        if not isinstance(votes, dict):
            raise DataError(f"{where}: 'votes' must map sources to spans, got {short_repr(votes)}")
        num_previous = len(self._builder) - 1
        for name in votes:
            if name not in self._source_names:
                self._source_names[name] = None
                if self._is_selected(name):
                    self._add_missing(name, range(num_previous))
        for name in filter(self._is_selected, self._source_names):
            if votes.get(name) is not None:
                self._add_spans(name, votes[name], where)
            elif name in votes:
                self._builder.abstain(name)
            else:
                self._add_missing(name, [num_previous])

    def _add_missing(self, name: str, sentences: Sequence[int]) -> None:
        """Add sentences whose records do not mention a source: it abstains there, unless it is read as "abstain"."""
        is_undecided = bool(self._metadata.undecided_sources([name], self._options))
        if is_undecided:
            self._missing_entries.setdefault(name, array("q")).extend(sentences)
        if is_undecided or self._metadata.unmarked_by_source([name], self._options) == ("outside",):
            self._builder.source_spans(name).abstained_sentences.extend(sentences)

    def file_content(self, content: LabeledData) -> FileContent:
        """Return the content of all records, and what they leave open."""
        missing_entries = {
            name: np.frombuffer(sentences, np.int64) for name, sentences in self._missing_entries.items()
        }
        return replace(super().file_content(content), missing_entries=missing_entries)

    def _add_external_gold(self, record: dict[str, Any], num_tokens: int, where: str) -> None:
        """Add the spans or tags of a record that another tool wrote as gold."""
        key = next((key for key in EXTERNAL_GOLD_KEYS if record.get(key) is not None), None)
        if not self._all_or_none("gold", key is not None, where) or key is None:
            return
        self._gold_key = self._gold_key or key
        if key != self._gold_key:
            raise DataError(f"{where}: expected {self._gold_key!r}, as in earlier records, got {key!r}")
        value = record[key]
        if key not in TAG_KEYS:
            self._add_spans(GOLD, value, where)
            return
        if not isinstance(value, list) or len(value) != num_tokens:
            raise DataError(
                f"{where}: expected one tag for each of {num_tokens} tokens in {key!r}, got {short_repr(value)}"
            )
        for tag in value:
            if not isinstance(tag, str):
                raise DataError(f"{where}: expected {key!r} to contain strings, got {short_repr(tag)}")
        with error_location(where):
            self._gold_row_ids.extend(map(self._gold_tag_rows.__getitem__, value))

    def build(self) -> LabeledData:
        """Return the dataset or the predictions of all records."""
        observed_types = {*self._builder.observed_types, *self._gold_tag_rows.types}
        with error_location(str(self._path)):
            types = build_tag_set(self._types, observed_types, self._options.default_types).types
        names = tuple(self._source_names)
        select_sources(names, self._options, str(self._path))  # raises for unknown names
        content = self._build(types, names)
        if self._gold_key not in TAG_KEYS:
            return content

        def location(sentence: int, token: int) -> str:
            return f"{self._path}:{self._line_numbers[sentence]}: token {token}"

        gold_tags = (self._gold_tag_rows, 0, self._gold_row_ids, get_dataset(content))
        return replace_dataset_fields(content, gold=self._tag_labels(*gold_tags, location, detect_scheme=True))


def _parse_tokens(record: dict[str, Any], where: str) -> tuple[list[str], str | None, NDArray[np.int32] | None]:
    """Return the tokens of a record, its text if it has one, and the offsets of the tokens in it."""
    text, tokens, offset_pairs = map(record.get, ("text", "tokens", "token_offsets"))
    if text is not None and not isinstance(text, str):
        raise DataError(f"{where}: 'text' must be a string, got {short_repr(text)}")
    if tokens is None:
        if text is None:
            raise DataError(f"{where}: expected 'text' or 'tokens', got {short_repr(list(record))}")
        token_spans = word_spans(text)
        return [text[start:end] for start, end in token_spans.tolist()], text, token_spans
    if not isinstance(tokens, list):
        raise DataError(f"{where}: 'tokens' must be a list, got {short_repr(tokens)}")
    if tokens and all(isinstance(token, dict) for token in tokens):
        offset_pairs = [[token.get("start"), token.get("end")] for token in tokens]
        tokens = [token.get("text") for token in tokens]
    for token in tokens:
        if not isinstance(token, str):
            raise DataError(f"{where}: 'tokens' must contain strings, got {short_repr(token)}")
    if text is None:
        return tokens, None, None
    if offset_pairs is None:
        with error_location(where):
            return tokens, text, find_token_offsets(tokens, text)
    token_offsets = parse_token_offsets(offset_pairs, len(tokens), text, where)
    if (token_offsets[1:, 0] < token_offsets[:-1, 1]).any():
        raise DataError(f"{where}: tokens overlap or are out of order")
    return tokens, text, token_offsets


def _spans_as_rows(value: Any, where: str, display_name: str) -> Any:
    """Return a list of spans with objects converted to [start, end, label]; other values are left to the caller."""
    if not isinstance(value, list):
        return value
    rows = []
    for item in value:
        if isinstance(item, dict):
            values = [
                next((item[key] for key in keys if key in item), None) for keys in (START_KEYS, END_KEYS, LABEL_KEYS)
            ]
            if None in values:
                problem = f"expected a span with start, end and label ({display_name}), got {short_repr(item)}"
                raise DataError(f"{where}: {problem}")
            item = values
        rows.append(item)
    return rows


def _check_token_offsets(data: Dataset, where: str) -> None:
    """Raise FormatError for tokens that character offsets cannot distinguish."""
    misordered = np.zeros(0, bool) if data.text is None else misordered_tokens(data.text, data.offsets)
    if misordered.any():
        sentence, token = locate(data.offsets, int(np.flatnonzero(misordered)[0]))
        raise FormatError(
            f"{where}: sentence {sentence}: token {token} is empty or overlaps its neighbour; "
            "format 'jsonl' needs distinct character offsets; choose another format or pass allow_lossy=True"
        )


def _columns(chunk: SentenceSlice) -> RecordColumns:
    data = chunk.data
    columns: RecordColumns = {}
    if data.text is not None:
        columns["text"] = iter(data.text.sentences)
    columns["tokens"] = chunk.group_by_sentence(data.tokens.to_list())
    if data.text is not None:
        columns["token_offsets"] = chunk.group_by_sentence(data.text.token_offsets.tolist())
        columns["doc_offset"] = iter(data.text.doc_offsets.tolist())
    if data.doc_ids is not None:
        columns["doc_id"] = iter(data.doc_ids)
    if data.gold is not None:
        columns["gold"] = chunk.spans(data.gold)
    columns["votes"] = (dict(zip(data.sources, row, strict=True)) for row in chunk.votes())
    return columns | chunk.prediction_columns("predictions")


FORMAT = Format(
    name="jsonl",
    summary="JSON lines: one record per sentence; also reads exports of doccano, Prodigy and LightTag",
    suffixes=(".jsonl", ".ndjson"),
    capabilities=frozenset(CAPABILITIES) - {"abstain within a sentence", "illegal votes"},
    read=read,
    write=write,
)
