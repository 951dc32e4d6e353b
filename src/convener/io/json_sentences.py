"""Sentences as JSON has them: from packed columns to one value per sentence, a slice at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.io.formats import Content, data_of
from convener.io.json_values import shortest
from convener.predictions import Predictions
from convener.spans import Spans

SLICE = 2000
"""So many sentences are unpacked at a time."""
Columns = dict[str, Iterator[Any]]


@dataclass(frozen=True)
class Part:
    """A slice of some content, whose columns are read off sentence by sentence."""

    data: Dataset
    labels: NDArray[np.int16] | None
    probabilities: NDArray[np.float32] | None
    tails: Iterator[tuple[float, ...]]
    in_characters: bool

    def split(self, rows: list[Any]) -> Iterator[list[Any]]:
        """The rows of each sentence."""
        return (rows[a:b] for a, b in pairwise(self.data.offsets.tolist()))

    def spans(self, labels: NDArray[np.int16]) -> Iterator[list[list[Any]]]:
        """The spans of each sentence, in tokens or in characters."""
        data = self.data
        spans, types = data.tags.spans(labels, data.offsets), data.tags.types
        if self.in_characters and data.text is not None:
            begin = data.offsets[spans.sentence]
            start = data.text.chars[begin + spans.start, 0]
            end = data.text.chars[begin + spans.end - 1, 1]
            spans = Spans(spans.sentence, start, end, spans.type)
        for rows in spans.by_sentence(len(data)):
            yield [[start, end, types[kind]] for start, end, kind in rows]

    def votes(self) -> Iterator[list[list[list[Any]] | None]]:
        """For each sentence the spans of every source, None where it abstains."""
        data = self.data
        columns = [self.spans(votes) for votes in data.votes.T]
        padded = np.concatenate([data.votes, np.zeros((1, len(data.sources)), np.int16)])
        unseen = (padded[data.offsets[:-1]] == ABSTAIN) & (data.lengths > 0)[:, None]
        for absent in unseen.tolist():
            found = [next(column) for column in columns]
            yield [None if gone else spans for gone, spans in zip(absent, found, strict=True)]

    def predicted(self, name: str) -> Columns:
        """The columns of predictions: spans with their scores, and probabilities."""
        if self.labels is None:
            return {}
        found: Columns = {
            name: (
                [[*span, *tail] for span, tail in zip(spans, self.tails, strict=False)]
                for spans in self.spans(self.labels)
            )
        }
        if self.probabilities is not None:
            found["probabilities"] = self.split(shortest(self.probabilities))
        return found


def records(
    content: Content, columns: Callable[[Part], Columns], *, in_characters: bool = False
) -> Iterator[dict[str, Any]]:
    """One record for each sentence, with these columns of its slice."""
    data = data_of(content)
    labels = content.labels if isinstance(content, Predictions) else None
    rows = content.probabilities if isinstance(content, Predictions) else None
    scores = content.spans.score if isinstance(content, Predictions) else None
    tails = repeat(()) if scores is None else ((score,) for score in shortest(scores))
    for first in range(0, len(data), SLICE):
        last = min(first + SLICE, len(data))
        at = slice(int(data.offsets[first]), int(data.offsets[last]))
        part = Part(
            data[first:last],
            None if labels is None else labels[at],
            None if rows is None else rows[at],
            tails,
            in_characters,
        )
        yield from zipped(columns(part))


def zipped(columns: Columns) -> Iterator[dict[str, Any]]:
    """Columns, row by row."""
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))
