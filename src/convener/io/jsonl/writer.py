"""Writes JSON lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from convener.data import Dataset
from convener.errors import FormatError
from convener.io.align import misordered_tokens
from convener.io.facts import Metadata
from convener.io.formats import LabeledData, get_dataset
from convener.io.json_sentences import RecordColumns, SentenceSlice, iter_records
from convener.io.json_stream import dump_json
from convener.io.options import WriteOptions
from convener.packed import row_at


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write one record per sentence, the first with the corpus."""
    data = get_dataset(content)
    corpus = {"corpus": Metadata.from_content(content).without_inferable_contents(content).to_dict()}
    if not options.lossy:
        _check_token_offsets(data, path.name)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if not len(data):
            file.write(dump_json(corpus, path.name) + "\n")
        for number, record in enumerate(iter_records(content, _columns, in_characters=True)):
            where = f"{path.name}: sentence {number}"
            file.write(dump_json({**({} if number else corpus), **record}, where) + "\n")


def _check_token_offsets(data: Dataset, where: str) -> None:
    """Refuse tokens that spans of characters cannot tell apart."""
    misordered = np.zeros(0, bool) if data.text is None else misordered_tokens(data.text, data.offsets)
    if misordered.any():
        token = int(np.flatnonzero(misordered)[0])
        sentence = row_at(data.offsets, token)
        raise FormatError(
            f"{where}: sentence {sentence}: token {token - data.offsets[sentence]} has no "
            "characters of its own, which jsonl needs; choose another format or set lossy"
        )


def _columns(chunk: SentenceSlice) -> RecordColumns:
    data = chunk.data
    columns: RecordColumns = {}
    if data.text is not None:
        columns["text"] = iter(data.text.sentences)
    columns["tokens"] = chunk.group_by_sentence(data.tokens.to_list())
    if data.text is not None:
        columns["chars"] = chunk.group_by_sentence(data.text.token_offsets.tolist())
        columns["char_start"] = iter(data.text.doc_offsets.tolist())
    if data.doc_ids is not None:
        columns["doc_id"] = iter(data.doc_ids)
    if data.gold is not None:
        columns["gold"] = chunk.spans(data.gold)
    columns["votes"] = (dict(zip(data.sources, row, strict=True)) for row in chunk.votes())
    return columns | chunk.prediction_columns("labels")
