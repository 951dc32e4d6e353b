"""Sentences as JSON has them: from packed columns to one value per sentence, a slice at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.io.formats import LabeledData, get_dataset
from convener.io.json_values import shortest_floats
from convener.predictions import Predictions
from convener.spans import Spans

SENTENCES_PER_CHUNK = 2000
"""So many sentences are unpacked at a time."""
RecordColumns = dict[str, Iterator[Any]]


@dataclass(frozen=True)
class SentenceSlice:
    """A slice of some content, whose columns are read off sentence by sentence."""

    data: Dataset
    labels: NDArray[np.int16] | None
    probabilities: NDArray[np.float32] | None
    score_suffixes: Iterator[tuple[float, ...]]
    in_characters: bool

    def group_by_sentence(self, rows: list[Any]) -> Iterator[list[Any]]:
        """The rows of each sentence."""
        return (rows[a:b] for a, b in pairwise(self.data.offsets.tolist()))

    def spans(self, labels: NDArray[np.int16]) -> Iterator[list[list[Any]]]:
        """The spans of each sentence, in tokens or in characters."""
        data = self.data
        spans, types = data.tags.spans(labels, data.offsets), data.tags.types
        if self.in_characters and data.text is not None:
            sentence_start = data.offsets[spans.sentence]
            start = data.text.token_offsets[sentence_start + spans.start, 0]
            end = data.text.token_offsets[sentence_start + spans.end - 1, 1]
            spans = Spans(spans.sentence, start, end, spans.type)
        for rows in spans.by_sentence(len(data)):
            yield [[start, end, types[type_index]] for start, end, type_index in rows]

    def votes(self) -> Iterator[list[list[list[Any]] | None]]:
        """For each sentence the spans of every source, None where it abstains."""
        data = self.data
        columns = [self.spans(votes) for votes in data.votes.T]
        padded = np.concatenate([data.votes, np.zeros((1, len(data.sources)), np.int16)])
        abstained = (padded[data.offsets[:-1]] == ABSTAIN) & (data.lengths > 0)[:, None]
        for abstained_row in abstained.tolist():
            source_spans = [next(column) for column in columns]
            yield [
                None if abstained_here else spans
                for abstained_here, spans in zip(abstained_row, source_spans, strict=True)
            ]

    def prediction_columns(self, name: str) -> RecordColumns:
        """The columns of predictions: spans with their scores, and probabilities."""
        if self.labels is None:
            return {}
        columns: RecordColumns = {
            name: (
                [[*span, *score_suffix] for span, score_suffix in zip(spans, self.score_suffixes, strict=False)]
                for spans in self.spans(self.labels)
            )
        }
        if self.probabilities is not None:
            columns["probabilities"] = self.group_by_sentence(shortest_floats(self.probabilities))
        return columns


def iter_records(
    content: LabeledData,
    make_columns: Callable[[SentenceSlice], RecordColumns],
    *,
    in_characters: bool = False,
) -> Iterator[dict[str, Any]]:
    """One record for each sentence, with these columns of its slice."""
    data = get_dataset(content)
    labels = content.labels if isinstance(content, Predictions) else None
    probabilities = content.probabilities if isinstance(content, Predictions) else None
    scores = content.spans.score if isinstance(content, Predictions) else None
    score_suffixes = repeat(()) if scores is None else ((score,) for score in shortest_floats(scores))
    for first in range(0, len(data), SENTENCES_PER_CHUNK):
        last = min(first + SENTENCES_PER_CHUNK, len(data))
        token_slice = slice(int(data.offsets[first]), int(data.offsets[last]))
        chunk = SentenceSlice(
            data[first:last],
            None if labels is None else labels[token_slice],
            None if probabilities is None else probabilities[token_slice],
            score_suffixes,
            in_characters,
        )
        yield from zip_columns(make_columns(chunk))


def zip_columns(columns: RecordColumns) -> Iterator[dict[str, Any]]:
    """Columns, row by row."""
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))
