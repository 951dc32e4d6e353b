"""Writes Wrench files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from convener.errors import FormatError
from convener.io import formats
from convener.io.formats import LabeledData, get_dataset
from convener.io.json_sentences import RecordColumns, SentenceSlice, iter_records, zip_columns
from convener.io.json_stream import dump_json
from convener.io.options import WriteOptions
from convener.io.wrench.meta import write_meta
from convener.io.wrench.reader import ABSTAIN_TAG


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write a split and its meta file; votes as tags where spans cannot say them."""
    as_tags = bool({"abstain within a sentence", "illegal votes"} & formats.required_capabilities(content))
    if as_tags and any("\0" in name for name in get_dataset(content).tags.types):
        raise FormatError(f"{path.name}: an entity type with NUL cannot be written in tags")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("{")
        for number, item in enumerate(iter_records(content, partial(_columns, as_tags=as_tags))):
            file.write(",\n" if number else "\n")
            file.write(f'"{number}": {dump_json(item, f"{path.name}: sentence {number}")}')
        file.write("\n}\n")
    write_meta(content, path)


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
    return columns | chunk.prediction_columns("prediction")


def _data_columns(chunk: SentenceSlice) -> RecordColumns:
    """What an item has under "data"."""
    data = chunk.data
    columns: RecordColumns = {"text": chunk.group_by_sentence(data.tokens.to_list())}
    if data.doc_ids is not None:
        columns["doc_id"] = iter(data.doc_ids)
    if data.text is not None:
        columns["string"] = iter(data.text.sentences)
        columns["chars"] = chunk.group_by_sentence(data.text.token_offsets.tolist())
        columns["start"] = iter(data.text.doc_offsets.tolist())
    return columns
