"""Conversion between the rows of a long table and datasets or predictions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data.alignment import SpanAligner, drop_default_doc_ids, misordered_tokens
from convener.data.dataset import Dataset
from convener.data.issues import Issues, error_location
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray
from convener.data.spans import Spans
from convener.data.tags import ABSTAIN
from convener.errors import DataError, FormatError, unknown_name_message
from convener.io.formats import LabeledData, ReadOptions, check_unicode, get_dataset
from convener.io.metadata import Metadata, apply_read_options, build_tag_set, select_sources, unfiltered
from convener.io.table.rows import (
    EMPTY_CELL,
    GOLD,
    PREDICTIONS,
    VERSION_1_PREDICTIONS,
    ListColumn,
    SpanRows,
    TextUnits,
    tokenize_units,
)


def rows_to_dataset(rows: SpanRows, options: ReadOptions, issues: Issues) -> LabeledData:
    """Return the predictions of a table if it has any, else its dataset."""
    with error_location(rows.path):
        if rows.metadata is None:
            return _TableReader(rows, options, issues).build()
        content = _TableReader(rows, unfiltered(options), issues).build()
    return apply_read_options(rows.metadata.restore(content), options, rows.path)


def dataset_to_rows(content: LabeledData) -> SpanRows:
    """Return rows in the order of the text: for each unit its text row, then the rows of its spans by source."""
    data = get_dataset(content)
    for name in (GOLD, PREDICTIONS, ""):
        if name in data.sources:
            raise FormatError(f"a table cannot store a source named {name!r}; rename it")
    check_unicode(data)
    text = data.text
    in_tokens = text is not None and bool(misordered_tokens(text, data.offsets).any())
    complete_sources = [
        name
        for column, name in enumerate(data.sources)
        if data.unmarked[column] == "abstain" and not (data.votes[:, column] == ABSTAIN).any()
    ]
    extra = {"complete_sources": complete_sources} | ({"span_unit": "token"} if in_tokens else {})
    rows_by_source = {"": _SourceRows(Spans.from_rows([]), np.arange(len(data)))}
    for column, name in enumerate(data.sources):
        rows_by_source[name] = _source_rows(data, data.votes[:, column], include_unmarked=name not in complete_sources)
    if data.gold is not None:
        rows_by_source[GOLD] = _source_rows(data, data.gold)
    if isinstance(content, Predictions):
        rows_by_source[PREDICTIONS] = _source_rows(data, content.labels, content.spans.score)
    return SpanRows(
        path="",
        metadata=Metadata.from_content(content, **extra),
        units=_units(content),
        sources=tuple(rows_by_source)[1:],
        types=data.tags.types,
        location=str,
        **_columns(data, list(rows_by_source.values()), in_characters=not in_tokens),
    )


class _TableReader:
    """Converts the rows of one table."""

    def __init__(self, rows: SpanRows, options: ReadOptions, issues: Issues) -> None:
        rows.check()
        self.rows, self.options, self.issues = rows, options, issues
        self.is_native, self.metadata = rows.metadata is not None, rows.metadata or Metadata()
        self.rows_by_source = rows.by_source()
        if self.metadata.version == 1 and VERSION_1_PREDICTIONS in self.rows_by_source:
            self.rows_by_source[PREDICTIONS] = self.rows_by_source.pop(VERSION_1_PREDICTIONS)
        tokens, offsets, text = tokenize_units(rows.units, rows.metadata)
        doc_ids: Any = rows.units.doc_ids
        if not self.is_native:
            doc_ids = drop_default_doc_ids(doc_ids)
        elif "documents" not in self.metadata.contents:
            doc_ids = None
        self.data = Dataset(
            tags=build_tag_set(self.metadata.select_types(options), rows.types, options.default_types),
            tokens=tokens,
            offsets=offsets,
            sources=(),
            votes=np.zeros((len(tokens), 0), np.int16),
            unmarked=(),
            text=text,
            doc_ids=doc_ids,
        ).with_coarse(self.metadata.coarse)
        self.aligner = SpanAligner(
            self.data,
            options.on_overlap,
            options.on_misaligned,
            issues,
            where=lambda unit: f"{rows.path}: {rows.units.describe(unit)}",
            in_tokens=self.metadata.extra.get("span_unit") == "token",
        )

    def build(self) -> LabeledData:
        """Return the dataset, or the predictions."""
        path, probabilities = self.rows.path, self.rows.units.probabilities
        gold = self._complete_labels(GOLD)[0] if GOLD in self.rows_by_source else None
        data = self._dataset_with_votes()
        if PREDICTIONS not in self.rows_by_source and self.metadata.model is None:
            if probabilities is not None:
                self.issues.add("ignored", path, "columns", "probabilities without predictions")
            return data if gold is None else data.with_gold(gold)
        if gold is not None:
            self.issues.add("ignored", path, GOLD, "gold labels in a table of predictions")
        labels, scores = self._complete_labels(PREDICTIONS)
        return Predictions(
            data=data,
            labels=labels,
            probabilities=self._probabilities(),
            span_scores=self._scores(scores),
            **self.metadata.prediction_fields(),
        )

    def _dataset_with_votes(self) -> Dataset:
        """Return the dataset with the votes of the selected sources."""
        rows, metadata = self.rows, self.metadata
        complete_sources = metadata.extra.get("complete_sources") or []
        if not isinstance(complete_sources, list):
            raise DataError("convener metadata: 'complete_sources' must be a list of sources")
        observed = [name for name in self.rows_by_source if name not in (GOLD, PREDICTIONS)]
        available = tuple(dict.fromkeys([*(metadata.sources or ()), *observed]))
        names = select_sources(available, self.options, rows.path)
        votes = np.empty((len(self.data.tokens), len(names)), np.int16)
        for k, name in enumerate(names):
            labels, _, has_row = self._labels(name)
            if name not in complete_sources and self.options.unmarked != "abstain":
                labels[np.repeat(~has_row, self.data.lengths)] = ABSTAIN
            votes[:, k] = labels
        if rows.score is not None:
            source_rows = [self.rows_by_source[name] for name in names if name in self.rows_by_source]
            if any(not np.isnan(rows.score[index]).all() for index in source_rows):
                self.issues.add("ignored", rows.path, "scores", "only scores of source 'predictions' are read")
        unmarked = metadata.unmarked_by_source(names, self.options, default="outside")
        return self.data.with_sources(names, votes, unmarked)

    def _complete_labels(self, name: str) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
        """Return labels and span scores of gold or predictions, which must cover every unit."""
        labels, scores, has_row = self._labels(name)
        if not has_row.all():
            unit = self.rows.units.describe(int(np.flatnonzero(~has_row)[0]))
            raise DataError(f"{name!r} must cover every document; {unit} has no {name} row")
        return labels, scores

    def _labels(self, name: str) -> tuple[NDArray[np.int16], NDArray[np.float32], NDArray[np.bool_]]:
        """Return the labels of a source, its span scores, and the units it has rows for.  -> (N,), (S,), (M,)"""
        rows = self.rows
        row_ids = self.rows_by_source.get(name, np.zeros(0, np.int64))
        has_row = np.zeros(len(self.data), bool)
        has_row[rows.unit[row_ids]] = True
        row_ids = row_ids[rows.label[row_ids] >= 0]
        spans = Spans(
            rows.unit[row_ids],
            rows.start[row_ids].astype(np.int32),
            rows.end[row_ids].astype(np.int32),
            self._type_indices(row_ids),
        )
        labels, kept = self.aligner.labels(spans, name)
        if rows.score is None:
            return labels, np.full(len(kept), np.nan, np.float32), has_row
        return labels, rows.score[row_ids[kept]], has_row

    def _type_indices(self, row_ids: NDArray[np.int64]) -> NDArray[np.int16]:
        """Return the entity type of each row."""
        tags = self.data.tags
        type_indices = [tags.type_index(name) if name in tags.types else -1 for name in self.rows.types]
        row_types = np.array([*type_indices, -1], np.int16)[self.rows.label[row_ids]]
        if (row_types < 0).any():
            row = int(row_ids[np.flatnonzero(row_types < 0)[0]])
            problem = unknown_name_message("entity type", self.rows.types[self.rows.label[row]], tags.types)
            raise DataError(f"{self.rows.location(row)}: {problem}")
        return row_types

    def _scores(self, scores: NDArray[np.float32]) -> NDArray[np.float32] | None:
        """Return the scores of predicted spans; None unless all spans have one."""
        if self.is_native and "scores" not in self.metadata.contents:
            return None  # they follow from the probabilities
        missing = np.isnan(scores)
        if missing.all():
            return None
        if missing.any():
            detail = f"{missing.sum()} of {len(scores)} predicted spans have no score"
            self.issues.add("ignored", self.rows.path, "scores", detail)
            return None
        return scores

    def _probabilities(self) -> NDArray[np.float32] | None:
        column = self.rows.units.probabilities
        if column is None:
            return None
        if not len(self.data.tokens):
            return np.zeros((0, len(self.data.fine_tags)), np.float32)
        mismatched = np.maximum(column.lengths, 0) != self.data.lengths
        self.rows.units.raise_if_any(mismatched, "needs probabilities for each of its tokens")
        probabilities: NDArray[np.float32] = column.values
        return probabilities


class _SourceRows(NamedTuple):
    """Rows of one source: one per span, and one per unit that it annotated without marking a span."""

    spans: Spans
    unmarked_units: NDArray[np.int64]


def _source_rows(
    data: Dataset,
    labels: NDArray[np.int16],
    score: NDArray[np.float32] | None = None,
    *,
    include_unmarked: bool = True,
) -> _SourceRows:
    """Return the rows of one source; `include_unmarked` adds a row for each unit without spans."""
    if score is not None and not np.isfinite(score).all():
        raise FormatError("a table cannot store scores that are not finite")
    spans = data.tags.spans(labels, data.offsets)
    is_unmarked = (data.lengths == 0) & include_unmarked
    if include_unmarked:
        is_unmarked[data.sentence_of_token()[labels != ABSTAIN]] = True
        is_unmarked[spans.sentence] = False
    return _SourceRows(spans if score is None else spans.with_scores(score), np.flatnonzero(is_unmarked))


def _columns(data: Dataset, source_rows: list[_SourceRows], *, in_characters: bool) -> dict[str, Any]:
    """Return the columns of all rows, grouped by unit."""

    def column(name: str, fill: Any, dtype: Any) -> Any:
        parts = [np.zeros(0, dtype)]
        for spans, unmarked_units in source_rows:
            values = getattr(spans, name)
            filled = np.full(len(spans), fill, dtype) if values is None else values.astype(dtype)
            parts += [filled, np.full(len(unmarked_units), fill, dtype)]
        return np.concatenate(parts)

    unit = np.concatenate([part for spans, unmarked_units in source_rows for part in (spans.sentence, unmarked_units)])
    order = np.argsort(unit, kind="stable")
    counts = [len(spans) + len(unmarked_units) for spans, unmarked_units in source_rows]
    source = np.repeat(np.arange(-1, len(source_rows) - 1), counts)
    start, end = column("start", EMPTY_CELL, np.int64), column("end", EMPTY_CELL, np.int64)
    label = column("type", -1, np.int64)
    if data.text is not None and in_characters:
        span_rows = np.flatnonzero(label >= 0)
        base = data.offsets[unit[span_rows]]
        end[span_rows] = data.text.token_offsets[base + end[span_rows] - 1, 1]
        start[span_rows] = data.text.token_offsets[base + start[span_rows], 0]
    score = column("score", np.nan, np.float32)
    return {
        "unit": unit[order],
        "source": source[order],
        "start": start[order],
        "end": end[order],
        "label": label[order],
        "score": None if np.isnan(score).all() else score[order],
    }


def _units(content: LabeledData) -> TextUnits:
    """Return the sentences as units of a table."""
    data = get_dataset(content)
    text = data.text
    sentence_ids = StringArray.from_list(map(str, range(len(data))))
    probabilities = content.probabilities if isinstance(content, Predictions) else None
    if probabilities is not None and not np.isfinite(probabilities).all():
        raise FormatError("a table cannot store probabilities that are not finite")
    return TextUnits(
        doc_ids=sentence_ids if data.doc_ids is None else data.doc_ids,
        sentence_ids=None if data.doc_ids is None else sentence_ids,
        has_text_row=np.ones(len(data), bool),
        text=None if text is None else text.sentences,
        tokens=ListColumn(data.tokens, data.lengths),
        token_offsets=None if text is None else ListColumn(text.token_offsets, data.lengths),
        doc_offsets=None if text is None else text.doc_offsets,
        probabilities=None if probabilities is None else ListColumn(probabilities, data.lengths),
    )
