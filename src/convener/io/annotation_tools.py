"""JSON Lines for the annotation tools doccano and Prodigy: one record per sentence, with its text and one set of spans.

The spans are the predicted ones, else gold; without either, the sentences are still to be annotated. Sentences without
text are written as their tokens, separated by spaces. What these tools export is read as JSON Lines (`io.jsonl`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from convener.data.alignment import misordered_tokens
from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.ragged import locate
from convener.errors import ConvenerWarning, FormatError
from convener.io import jsonl
from convener.io.formats import Format, LabeledData, WriteOptions, check_unicode, get_dataset
from convener.io.json_stream import dump_json

SPLIT_SUFFIX = ".jsonl"


class _Sentence(NamedTuple):
    """Text of a sentence, start and end of its tokens in it, and its spans (first token, end, type)."""

    text: str
    tokens: list[tuple[int, int]]
    spans: list[tuple[int, int, str]]
    meta: dict[str, Any]


def write_doccano(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write `{"text": ..., "label": [[start, end, type], ...]}` for each sentence."""
    _write(content, path, _doccano_record)


def write_prodigy(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write `{"text": ..., "tokens": [...], "spans": [{"start", "end", "label", ...}]}` for each sentence."""
    _write(content, path, _prodigy_record)


def _doccano_record(sentence: _Sentence) -> dict[str, Any]:
    label = [[sentence.tokens[start][0], sentence.tokens[end - 1][1], name] for start, end, name in sentence.spans]
    return {"text": sentence.text, "label": label, **sentence.meta}


def _prodigy_record(sentence: _Sentence) -> dict[str, Any]:
    text = sentence.text
    tokens = [
        {"text": text[start:end], "start": start, "end": end, "id": number, "ws": text[end : end + 1].isspace()}
        for number, (start, end) in enumerate(sentence.tokens)
    ]
    spans = [
        {
            "start": sentence.tokens[first][0],
            "end": sentence.tokens[end - 1][1],
            "token_start": first,
            "token_end": end - 1,
            "label": name,
        }
        for first, end, name in sentence.spans
    ]
    return {"text": text, "tokens": tokens, "spans": spans} | ({"meta": sentence.meta} if sentence.meta else {})


def _write(content: LabeledData, path: Path, make_record: Callable[[_Sentence], dict[str, Any]]) -> None:
    data = get_dataset(content)
    check_unicode(data)
    _check_tokens(data, path.name)
    if isinstance(content, Dataset) and data.sources:
        message = f"{path.name}: the votes of sources are dropped: the file has one set of spans"
        warnings.warn(message, ConvenerWarning, stacklevel=4)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for number, sentence in enumerate(_sentences(content, data)):
            file.write(dump_json(make_record(sentence), f"{path.name}: sentence {number}") + "\n")


def _sentences(content: LabeledData, data: Dataset) -> Iterator[_Sentence]:
    labels = content.labels if isinstance(content, Predictions) else data.gold
    spans = data.tags.spans(np.zeros(len(data.tokens), np.int16) if labels is None else labels, data.offsets)
    types, tokens = data.tags.types, data.tokens.to_list()
    rows = list(spans.by_sentence(len(data)))
    for number, (first, last) in enumerate(pairwise(data.offsets.tolist())):
        meta: dict[str, Any] = {} if data.doc_ids is None else {"doc_id": data.doc_ids[number]}
        if data.text is None:
            text = " ".join(tokens[first:last])
            ends = np.cumsum([len(token) + 1 for token in tokens[first:last]]).astype(int).tolist()
            offsets = [(end - 1 - len(token), end - 1) for token, end in zip(tokens[first:last], ends, strict=True)]
        else:
            text = data.text.sentences[number]
            offsets = [(start, end) for start, end in data.text.token_offsets[first:last].tolist()]
            meta |= {"doc_offset": int(data.text.doc_offsets[number])} if meta else {}
        yield _Sentence(text, offsets, [(start, end, types[index]) for start, end, index in rows[number]], meta)


def _check_tokens(data: Dataset, where: str) -> None:
    """Raise FormatError for tokens that character offsets cannot distinguish."""
    wrong = data.tokens.lengths == 0 if data.text is None else misordered_tokens(data.text, data.offsets)
    if wrong.any():
        sentence, token = locate(data.offsets, int(np.flatnonzero(wrong)[0]))
        raise FormatError(f"{where}: sentence {sentence}: token {token} is empty or overlaps its neighbour")


def _tool_format(name: str, title: str, write: Callable[[LabeledData, Path, WriteOptions], None]) -> Format:
    return Format(
        name=name,
        summary=f"JSON Lines for {title}: text with the predicted spans, else gold",
        suffixes=(),
        capabilities=frozenset({"text", "documents", "empty sentences", "abstain within a sentence", "illegal votes"}),
        read=jsonl.read,
        write=write,
        split_suffix=SPLIT_SUFFIX,
    )


FORMATS = (
    _tool_format("doccano", "doccano", write_doccano),
    _tool_format("prodigy", "Prodigy", write_prodigy),
)
