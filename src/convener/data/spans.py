"""Spans: entity spans of all sentences as packed columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Span(NamedTuple):
    """One span: tokens `start` to `end` (exclusive) of a sentence, and the index of its type."""

    sentence: int
    start: int
    end: int
    type: int


@dataclass(frozen=True, eq=False)
class Spans:
    """Spans in text order, as columns (S,); `score` is None without probabilities.

    >>> spans = Spans.from_rows([(0, 2, 4, 1)])
    >>> len(spans), list(spans)
    (1, [Span(sentence=0, start=2, end=4, type=1)])
    """

    sentence: NDArray[np.int64]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    type: NDArray[np.int16]
    score: NDArray[np.float32] | None = None

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[int, int, int, int]]) -> Spans:
        """Pack rows of (sentence, start, end, type)."""
        return cls.from_array(np.array(list(rows), dtype=np.int64).reshape(-1, 4))

    @classmethod
    def from_array(cls, table: NDArray[np.int64]) -> Spans:
        """Spans from an array (S, 4) with the columns sentence, start, end, type."""
        return cls(
            table[:, 0],
            table[:, 1].astype(np.int32),
            table[:, 2].astype(np.int32),
            table[:, 3].astype(np.int16),
        )

    def __len__(self) -> int:
        return len(self.sentence)

    def __iter__(self) -> Iterator[Span]:
        columns = (self.sentence, self.start, self.end, self.type)
        return map(Span, *(column.tolist() for column in columns))

    def take(self, index: NDArray[Any] | slice) -> Spans:
        """The spans at these indices, or where a mask is true."""
        return Spans(
            self.sentence[index],
            self.start[index],
            self.end[index],
            self.type[index],
            None if self.score is None else self.score[index],
        )

    def with_scores(self, score: NDArray[np.float32]) -> Spans:
        """The same spans with these scores (S,)."""
        return replace(self, score=score)

    def sentence_offsets(self, num_sentences: int) -> NDArray[np.int64]:
        """Span offsets of the sentences: sentence m has the spans `offsets[m]` to `offsets[m + 1]`.  -> (M+1,)"""
        return np.searchsorted(self.sentence, np.arange(num_sentences + 1)).astype(np.int64)

    def by_sentence(self, num_sentences: int) -> Iterator[list[tuple[int, int, int]]]:
        """Iterate over sentences: the spans of each as a list of (start, end, type)."""
        rows = list(zip(self.start.tolist(), self.end.tolist(), self.type.tolist(), strict=True))
        return (rows[a:b] for a, b in pairwise(self.sentence_offsets(num_sentences).tolist()))
