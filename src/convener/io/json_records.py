"""JSON records of sentences: parsing their values, and building records from packed columns."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.issues import Issues, short_repr
from convener.data.predictions import Predictions
from convener.data.ragged import locate
from convener.data.spans import Spans
from convener.data.tags import ABSTAIN, TagSet
from convener.errors import DataError, FormatError
from convener.io.builder import DISPLAY_NAMES, PREDICTIONS, DatasetBuilder
from convener.io.formats import FileContent, LabeledData, ReadOptions, get_dataset
from convener.io.metadata import Metadata
from convener.io.tag_columns import TagRepair, TagRowIndex

SENTENCES_PER_CHUNK = 2000
"""Number of sentences converted at a time."""
RecordColumns = dict[str, Iterator[Any]]
"""For each key of a record, its values sentence by sentence."""


class AllOrNone:
    """Checks that a key is in all records or in none."""

    def __init__(self) -> None:
        self._present: dict[str, bool] = {}

    def __call__(self, key: str, present: bool, where: str) -> bool:
        """Return `present`; DataError if it differs from an earlier record."""
        if self._present.setdefault(key, present) != present:
            problem = "unexpected here" if present else "missing here"
            raise DataError(f"{where}: {key!r} must be in every record or in none; {problem}")
        return present

    def has(self, key: str) -> bool:
        """Whether the records have the key; False if there are no records."""
        return self._present.get(key, False)


def shortest_floats(values: NDArray[np.float32]) -> list[Any]:
    """Return 32-bit floats as Python floats with the fewest digits that identify them.

    >>> shortest_floats(np.array([0.1, 1], np.float32))
    [0.1, 1.0]
    """
    if not np.isfinite(values).all():
        raise FormatError("scores and probabilities must be finite to be written")
    rounded: list[Any] = values.astype(np.float32).astype("U32").astype(np.float64).tolist()
    return rounded


def parse_spans(value: object, where: str, source: str) -> Iterator[tuple[int, int, str, float]]:
    """Yield (start, end, type, score) of the spans [start, end, type(, score)] in a list; a missing score is NaN."""
    if not isinstance(value, list):
        raise DataError(f"{where}: expected a list of spans ({source}), got {short_repr(value)}")
    for item in value:
        if (
            not isinstance(item, list)
            or len(item) not in (3, 4)
            or type(item[0]) is not int
            or type(item[1]) is not int
            or not isinstance(item[2], str)
        ):
            raise DataError(f"{where}: expected a span [start, end, type] ({source}), got {short_repr(item)}")
        score = parse_finite_float(item[3], where) if len(item) == 4 else np.nan
        yield item[0], item[1], item[2], score


def parse_finite_float(value: object, where: str) -> float:
    """Return a finite number that fits 32 bits as a float."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 3e38:
        return float(value)
    raise DataError(f"{where}: expected a score, got {short_repr(value)}")


def parse_token_offsets(value: object, num_tokens: int, text: str, where: str) -> NDArray[np.int32]:
    """Return start and end of each token in its text.  -> (T, 2)"""
    if (
        not isinstance(value, list)
        or len(value) != num_tokens
        or not all(
            isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is type(pair[1]) is int for pair in value
        )
    ):
        raise DataError(f"{where}: expected [start, end] for each of {num_tokens} tokens, got {short_repr(value)}")
    for start, end in value:
        if not 0 <= start <= end <= len(text):
            raise DataError(f"{where}: token at {start}-{end} is outside the text of {len(text)} characters")
    return np.array(value, np.int32).reshape(-1, 2)


class ProbabilityBuilder:
    """Collects the label probabilities of tokens, one row per token."""

    def __init__(self) -> None:
        self._values = array("f")
        self._width, self._has_rows = -1, False

    def extend(self, rows: object, num_tokens: int, where: str) -> None:
        """Add the rows of a sentence."""
        self._has_rows = True
        if not isinstance(rows, list) or len(rows) != num_tokens:
            raise DataError(f"{where}: expected probabilities for {num_tokens} tokens, got {short_repr(rows)}")
        for row in rows:
            if not isinstance(row, list) or not {float, int} >= set(map(type, row)):
                raise DataError(f"{where}: expected a row of probabilities, got {short_repr(row)}")
            self._width = len(row) if self._width < 0 else self._width
            if len(row) != self._width:
                raise DataError(f"{where}: expected {self._width} probabilities per token, got {len(row)}")
            for value in row:
                self._values.append(parse_finite_float(value, where))

    def matrix(self, metadata: Metadata, types: Sequence[str], where: str) -> NDArray[np.float32] | None:
        """Return the rows reordered to the fine labels of `types`; None if there are none.  -> (N, L)

        The columns of the file follow its own types.
        """
        if not self._has_rows:
            return None
        types = [name for name in types if name not in metadata.coarse]
        file_types = [name for name in metadata.types or types if name not in metadata.coarse]
        num_labels = 2 * len(file_types) + 1
        if self._width not in (-1, num_labels):
            raise DataError(f"{where}: expected {num_labels} probabilities per token, got {self._width}")
        dropped_types = [name for name in file_types if name not in types]
        if dropped_types:
            raise DataError(f"{where}: has probabilities for type {dropped_types[0]!r}, which is not in types=")
        file_probabilities = np.array(self._values, np.float32).reshape(-1, num_labels)
        probabilities = np.zeros((len(file_probabilities), 2 * len(types) + 1), np.float32)
        tags = TagSet(tuple(types))
        probabilities[:, 0] = file_probabilities[:, 0]
        for column, name in enumerate(file_types):
            target = 2 * tags.type_index(name)
            probabilities[:, target + 1 : target + 3] = file_probabilities[:, 2 * column + 1 : 2 * column + 3]
        return probabilities


class RecordReader:
    """Base of the readers of records: collects sentences, spans, gold tags and probabilities."""

    def __init__(
        self, path: Path, metadata: Metadata, options: ReadOptions, issues: Issues, builder: DatasetBuilder
    ) -> None:
        self._path, self._metadata, self._options, self._issues = path, metadata, options, issues
        self._builder, self._types = builder, metadata.select_types(options)
        self._all_or_none, self._probabilities = AllOrNone(), ProbabilityBuilder()
        self._gold_tag_rows, self._gold_row_ids = TagRowIndex(["gold"], self._types), array("i")

    def _parse_doc_id(self, values: Mapping[str, Any], where: str) -> str | None:
        """Return the document id, which must be given for every sentence or for none."""
        doc_id = values.get("doc_id")
        if self._all_or_none("doc_id", doc_id is not None, where) and not isinstance(doc_id, str):
            raise DataError(f"{where}: 'doc_id' must be a string, got {short_repr(doc_id)}")
        return doc_id

    def _add_spans(self, source: str, value: object, where: str) -> None:
        """Add a list of spans to the current sentence."""
        self._builder.source_spans(source)
        for start, end, entity_type, score in parse_spans(value, where, DISPLAY_NAMES.get(source, source)):
            if source == PREDICTIONS:
                self._all_or_none("score", score == score, where)
            self._builder.add_span(source, start, end, entity_type, score)

    def _add_prediction(self, key: str, record: Mapping[str, Any], num_tokens: int, where: str) -> None:
        """Add the predicted spans under a key, and the probabilities of the labels."""
        if self._all_or_none(key, record.get(key) is not None, where):
            self._add_spans(PREDICTIONS, record[key], where)
        if self._all_or_none("probabilities", record.get("probabilities") is not None, where):
            self._probabilities.extend(record["probabilities"], num_tokens, where)

    def _build(self, types: Sequence[str], sources: Sequence[str]) -> LabeledData:
        """Return the content of all records."""
        probabilities = self._probabilities.matrix(self._metadata, types, str(self._path))
        return self._builder.build(types=types, sources=sources, metadata=self._metadata, probabilities=probabilities)

    def file_content(self, content: LabeledData) -> FileContent:
        """Return the content of all records, and what they leave open."""
        return FileContent(content, self._metadata.undecided_sources(get_dataset(content).sources, self._options))

    def _tag_labels(
        self,
        tag_rows: TagRowIndex,
        column: int,
        row_ids: array[int],
        data: Dataset,
        location: Callable[[int, int], str],
        *,
        detect_scheme: bool,
    ) -> NDArray[np.int16]:
        """Return the labels of a column of tags (N,); `location` names a sentence and a token in it."""
        return tag_rows.labels(
            column,
            np.frombuffer(row_ids, np.int32),
            data.offsets,
            data.tags,
            where=lambda token: location(*locate(data.offsets, token)),
            repair=TagRepair(self._options.on_illegal, self._issues, detect_scheme=detect_scheme),
        )


@dataclass(frozen=True)
class SentenceSlice:
    """A slice of consecutive sentences, as columns that yield one value per sentence."""

    data: Dataset
    labels: NDArray[np.int16] | None
    probabilities: NDArray[np.float32] | None
    score_suffixes: Iterator[tuple[float, ...]]
    in_characters: bool

    def group_by_sentence(self, rows: list[Any]) -> Iterator[list[Any]]:
        """Yield the rows of each sentence, given one row per token."""
        return (rows[a:b] for a, b in pairwise(self.data.offsets.tolist()))

    def spans(self, labels: NDArray[np.int16]) -> Iterator[list[list[Any]]]:
        """Yield the spans [start, end, type] of each sentence, in tokens or characters."""
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
        """Yield for each sentence the spans of every source, None where it abstains."""
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
        """Return the columns of predictions: spans with scores under `name`, and probabilities."""
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
    """Yield one record per sentence, with the columns that `make_columns` returns for a slice."""
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
    """Yield one record per row of the columns."""
    for values in zip(*columns.values(), strict=True):
        yield dict(zip(columns, values, strict=True))
