"""Spreadsheet of spans: a CSV file with one row per span, for people.

Columns are `doc`, `start`, `end`, `text`, `label` and `score`. Offsets count characters of the document, or tokens of
the sentence if there is no text. If a document has several sentences whose places in it are unknown, offsets count
within the sentence and there is a column `sentence`. A document without a column for its id is a numbered sentence.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.io.formats import LabeledData, WriteOptions, check_unicode, get_dataset, get_labels
from convener.io.json_records import shortest_floats

SCORE_DIGITS = 4
"""Digits of scores after the point."""


def write_spreadsheet(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write one row per predicted span, or per gold span of a dataset."""
    data, labels = get_dataset(content), get_labels(content, path.name)
    check_unicode(data)
    spans = data.tags.spans(labels, data.offsets)
    scores = content.spans.score if isinstance(content, Predictions) else None
    score_cells = [f"{score:.{SCORE_DIGITS}f}" for score in ([] if scores is None else shortest_floats(scores))]
    start, end = spans.start.astype(np.int64), spans.end.astype(np.int64)
    first, last = data.offsets[spans.sentence] + start, data.offsets[spans.sentence] + end - 1
    if data.text is not None:
        start, end = data.text.token_offsets[first, 0], data.text.token_offsets[last, 1]
    texts = [
        _text(data, *place)
        for place in zip(
            spans.sentence.tolist(), first.tolist(), last.tolist(), start.tolist(), end.tolist(), strict=True
        )
    ]
    by_document = data.doc_ids is None or _document_places_known(data)
    if data.text is not None and data.doc_ids is not None and by_document:
        doc_offsets = data.text.doc_offsets[spans.sentence]
        start, end = start + doc_offsets, end + doc_offsets
    sentences = spans.sentence.tolist()
    columns: dict[str, list[str] | list[int]] = {
        "doc": [str(number) if data.doc_ids is None else data.doc_ids[number] for number in sentences]
    }
    if not by_document:
        columns["sentence"] = sentences
    columns |= {"start": start.tolist(), "end": end.tolist(), "text": texts}
    columns |= {"label": [data.tags.types[type_index] for type_index in spans.type.tolist()]}
    columns["score"] = score_cells or [""] * len(spans)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def _text(data: Dataset, sentence: int, first: int, last: int, start: int, end: int) -> str:
    """Return the text of a span, or its tokens joined by spaces."""
    if data.text is not None:
        return data.text.sentences[sentence][start:end]
    return " ".join(data.tokens[first : last + 1].to_list())


def _document_places_known(data: Dataset) -> bool:
    """Whether the sentences of each document follow each other without overlap."""
    if data.text is None or data.doc_ids is None:
        return len(set(data.doc_ids or ())) == len(data)
    documents: dict[str, int] = {}
    starts: NDArray[np.int64] = data.text.doc_offsets
    for doc_id, start, length in zip(data.doc_ids, starts.tolist(), map(len, data.text.sentences), strict=True):
        if start < documents.get(doc_id, 0):
            return False
        documents[doc_id] = start + max(length, 1)
    return True
