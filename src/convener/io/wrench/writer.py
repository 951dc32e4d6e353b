"""Writes Wrench files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from convener.errors import FormatError
from convener.io import formats
from convener.io.formats import Content, data_of
from convener.io.json_sentences import Columns, Part, records, zipped
from convener.io.json_stream import dumped
from convener.io.options import WriteOptions
from convener.io.wrench.meta import write_meta
from convener.io.wrench.reader import SILENT_TAG


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """Write a split and its meta file; votes as tags where spans cannot say them."""
    tagged = bool({"abstain within a sentence", "illegal votes"} & formats.parts(content))
    if tagged and any("\0" in name for name in data_of(content).tags.types):
        raise FormatError(f"{path.name}: an entity type with NUL cannot be written in tags")
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write("{")
        for number, item in enumerate(records(content, partial(_columns, tagged=tagged))):
            file.write(",\n" if number else "\n")
            file.write(f'"{number}": {dumped(item, f"{path.name}: sentence {number}")}')
        file.write("\n}\n")
    write_meta(content, path)


def _columns(part: Part, *, tagged: bool) -> Columns:
    data = part.data
    names = (*data.tags.names, SILENT_TAG)
    columns: Columns = {}
    if data.gold is not None and tagged:
        columns["label"] = part.split([names[label] for label in data.gold.tolist()])
    elif data.gold is not None:
        columns["label"] = part.spans(data.gold)
    columns["data"] = zipped(_texts(part))
    if tagged:
        rows = [[names[vote] for vote in row] for row in data.votes.tolist()]
        columns["weak_labels"] = part.split(rows)
    else:
        columns["weak_labels"] = part.votes()
    return columns | part.predicted("prediction")


def _texts(part: Part) -> Columns:
    """What an item has under "data"."""
    data = part.data
    columns: Columns = {"text": part.split(data.tokens.to_list())}
    if data.documents is not None:
        columns["doc_id"] = iter(data.documents)
    if data.text is not None:
        columns["string"] = iter(data.text.text)
        columns["chars"] = part.split(data.text.chars.tolist())
        columns["start"] = iter(data.text.starts.tolist())
    return columns
