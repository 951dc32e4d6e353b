"""From the rows of a long table to a dataset or predictions.

The CSV and the Parquet reader both end here; nothing below loops over spans or tokens, except to
find the words of a text that came without tokens, or tokens that came without their place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.errors import DataError, unknown_name_message
from convener.io.align import SpanAligner, drop_default_doc_ids
from convener.io.facts import (
    Metadata,
    apply_read_options,
    build_tag_set,
    select_sources,
    unfiltered,
)
from convener.io.formats import LabeledData
from convener.io.messages import error_location
from convener.io.options import ReadOptions
from convener.io.report import Issues
from convener.io.table.rows import GOLD, PREDICTIONS, SpanRows
from convener.io.table.sentences import tokenize_units
from convener.predictions import Predictions
from convener.spans import Spans


def rows_to_dataset(rows: SpanRows, options: ReadOptions, issues: Issues) -> LabeledData:
    """The dataset of a table, or the predictions where it has aggregated labels."""
    with error_location(rows.path):
        if rows.metadata is None:
            return _TableReader(rows, options, issues).build()
        content = _TableReader(rows, unfiltered(options), issues).build()
    return apply_read_options(rows.metadata.restore(content), options, rows.path)


class _TableReader:
    """One table on its way to a dataset."""

    def __init__(self, rows: SpanRows, options: ReadOptions, issues: Issues) -> None:
        rows.check()
        self.rows, self.options, self.issues = rows, options, issues
        self.is_native, self.metadata = rows.metadata is not None, rows.metadata or Metadata()
        self.rows_by_source = rows.by_source()
        tokens, offsets, text = tokenize_units(rows.units, rows.metadata)
        doc_ids: Any = rows.units.doc_ids
        if not self.is_native:
            doc_ids = drop_default_doc_ids(doc_ids)
        elif "documents" not in self.metadata.contents:
            doc_ids = None
        self.data = Dataset(
            tags=build_tag_set(self.metadata.select_types(options), rows.types),
            tokens=tokens,
            offsets=offsets,
            sources=(),
            votes=np.zeros((len(tokens), 0), np.int16),
            silence=(),
            text=text,
            doc_ids=doc_ids,
        ).with_coarse(self.metadata.coarse)
        self.aligner = SpanAligner(
            self.data,
            options,
            issues,
            where=lambda unit: f"{rows.path}: {rows.units.describe(unit)}",
            in_tokens=self.metadata.extra.get("offsets") == "tokens",
        )

    def build(self) -> LabeledData:
        """The dataset, or the predictions."""
        path, probabilities = self.rows.path, self.rows.units.probabilities
        gold = self._complete_labels(GOLD)[0] if GOLD in self.rows_by_source else None
        data = self._dataset_with_votes()
        if PREDICTIONS not in self.rows_by_source and self.metadata.model is None:
            if probabilities is not None:
                self.issues.add("ignored", path, "columns", "probabilities without labels")
            return data if gold is None else data.with_gold(gold)
        if gold is not None:
            self.issues.add("ignored", path, GOLD, "left out beside aggregated labels")
        labels, scores = self._complete_labels(PREDICTIONS)
        return Predictions(
            data=data,
            labels=labels,
            probabilities=self._probabilities(),
            span_scores=self._scores(scores),
            model=self.metadata.model or "",
            settings=self.metadata.model_settings,
        )

    def _dataset_with_votes(self) -> Dataset:
        rows, metadata = self.rows, self.metadata
        complete_sources = metadata.extra.get("sees_all") or []
        if not isinstance(complete_sources, list):
            raise DataError("convener's facts: sees_all must list sources")
        observed = [name for name in self.rows_by_source if name not in (GOLD, PREDICTIONS)]
        available = tuple(dict.fromkeys([*(metadata.sources or ()), *observed]))
        names = select_sources(available, self.options, rows.path)
        votes = np.empty((len(self.data.tokens), len(names)), np.int16)
        for k, name in enumerate(names):
            labels, _, has_row = self._labels(name)
            if name not in complete_sources and self.options.silence != "O":
                labels[np.repeat(~has_row, self.data.lengths)] = ABSTAIN
            votes[:, k] = labels
        if rows.score is not None:
            source_rows = [self.rows_by_source[name] for name in names if name in self.rows_by_source]
            if any(not np.isnan(rows.score[index]).all() for index in source_rows):
                self.issues.add("ignored", rows.path, "scores", "kept only for source 'labels'")
        silence = metadata.silences(names, self.options, default="abstain")
        return self.data.with_sources(names, votes, silence)

    def _complete_labels(self, name: str) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
        """Labels of gold or of the aggregation, which must speak of every unit."""
        labels, scores, has_row = self._labels(name)
        if not has_row.all():
            unit = self.rows.units.describe(int(np.flatnonzero(~has_row)[0]))
            raise DataError(f"{name} is known for only a part: {unit} has no row of it")
        return labels, scores

    def _labels(self, name: str) -> tuple[NDArray[np.int16], NDArray[np.float32], NDArray[np.bool_]]:
        """Labels of a source's spans, their scores, and the units it has a row for."""
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
        tags = self.data.tags
        type_indices = [tags.type_index(name) if name in tags.types else -1 for name in self.rows.types]
        row_types = np.array([*type_indices, -1], np.int16)[self.rows.label[row_ids]]
        if (row_types < 0).any():
            row = int(row_ids[np.flatnonzero(row_types < 0)[0]])
            problem = unknown_name_message("entity type", self.rows.types[self.rows.label[row]], tags.types)
            raise DataError(f"{self.rows.location(row)}: {problem}")
        return row_types

    def _scores(self, scores: NDArray[np.float32]) -> NDArray[np.float32] | None:
        if self.is_native and "scores" not in self.metadata.contents:
            return None  # those in the file follow from the probabilities
        missing = np.isnan(scores)
        if missing.all():
            return None
        if missing.any():
            detail = f"{missing.sum()} of {len(scores)} labels have none, so none is kept"
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
