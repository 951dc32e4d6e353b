"""Writes JSON lines."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from convener.data import Dataset
from convener.errors import FormatError
from convener.io.align import disordered
from convener.io.facts import Facts
from convener.io.formats import Content, data_of
from convener.io.json_sentences import Columns, Part, records
from convener.io.json_stream import dumped
from convener.io.options import WriteOptions
from convener.packed import piece_at


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """Write one record per sentence, the first with the corpus."""
    data = data_of(content)
    corpus = {"corpus": Facts.of(content).beyond_sentences(content).values()}
    if not options.lossy:
        _check_chars(data, path.name)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        if not len(data):
            file.write(dumped(corpus, path.name) + "\n")
        for number, record in enumerate(records(content, _columns, in_characters=True)):
            where = f"{path.name}: sentence {number}"
            file.write(dumped({**({} if number else corpus), **record}, where) + "\n")


def _check_chars(data: Dataset, where: str) -> None:
    """Refuse tokens that spans of characters cannot tell apart."""
    wrong = np.zeros(0, bool) if data.text is None else disordered(data.text, data.offsets)
    if wrong.any():
        token = int(np.flatnonzero(wrong)[0])
        sentence = piece_at(data.offsets, token)
        raise FormatError(
            f"{where}: sentence {sentence}: token {token - data.offsets[sentence]} has no "
            "characters of its own, which jsonl needs; choose another format or set lossy"
        )


def _columns(part: Part) -> Columns:
    data = part.data
    columns: Columns = {}
    if data.text is not None:
        columns["text"] = iter(data.text.text)
    columns["tokens"] = part.split(data.tokens.to_list())
    if data.text is not None:
        columns["chars"] = part.split(data.text.chars.tolist())
        columns["char_start"] = iter(data.text.starts.tolist())
    if data.documents is not None:
        columns["doc_id"] = iter(data.documents)
    if data.gold is not None:
        columns["gold"] = part.spans(data.gold)
    columns["votes"] = (dict(zip(data.sources, row, strict=True)) for row in part.votes())
    return columns | part.predicted("labels")
