"""Reads CoNLL files, ours and others'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError
from convener.io.conll.layout import ABSTAIN_TAG, SOURCE_PREFIX, Layout, detect_layout
from convener.io.conll.lines import LineParser
from convener.io.facts import build_tag_set, select_sources
from convener.io.formats import LabeledData
from convener.io.mending import TagRepair
from convener.io.messages import error_location
from convener.io.options import ReadOptions
from convener.io.report import Issues
from convener.io.tag_rows import TagRowIndex
from convener.packed import lengths_to_offsets
from convener.predictions import Predictions


def read(path: Path, options: ReadOptions, issues: Issues) -> LabeledData:
    """The sentences of a CoNLL file: predictions if it has a column `label`."""
    with path.open("rb") as file:
        layout = detect_layout(file, str(path), options)
        sources = select_sources(layout.sources, options, str(path))
        columns = [f"{SOURCE_PREFIX}{name}" for name in sources]
        columns += [name for name in ("gold", "label") if name in layout.columns]
        tag_rows = TagRowIndex(
            [name.removeprefix(SOURCE_PREFIX) for name in columns],
            layout.metadata.select_types(options),
            abstain_tags=(ABSTAIN_TAG,),
            num_vote_columns=len(sources),
        )
        tag_columns = [layout.columns.index(name) for name in columns]
        parser = LineParser(str(path), layout, tag_rows, tag_columns)
        parser.read(file)
    if not parser.lengths and not layout.is_native:
        raise DataError(f"{path}: no sentences: expected lines of a token and its tags")
    is_external = not layout.is_native or layout.scheme == "io"
    repair = TagRepair(options.on_illegal, issues, detect_scheme=is_external)
    with error_location(str(path)):
        return _build(layout, parser, tag_rows, sources, options, repair)


def _build(
    layout: Layout,
    parser: LineParser,
    tag_rows: TagRowIndex,
    sources: tuple[str, ...],
    options: ReadOptions,
    repair: TagRepair,
) -> LabeledData:
    """The dataset, or the predictions."""
    metadata, tokens, ending_ids = layout.metadata, parser.tokens(), parser.ending_ids
    tags = build_tag_set(metadata.select_types(options), tag_rows.types)
    offsets = lengths_to_offsets(np.frombuffer(parser.lengths, np.int64))
    row_ids = np.array(parser.ending_rows, np.int32)[ending_ids]
    labels = np.empty((len(tag_rows.columns), len(tokens)), np.int16)
    for column in range(len(tag_rows.columns)):
        labels[column] = tag_rows.labels(column, row_ids, offsets, tags, where=parser.location, repair=repair)
    labels_by_column = dict(zip(tag_rows.columns[len(sources) :], labels[len(sources) :], strict=True))
    data = Dataset(
        tags=tags,
        tokens=tokens,
        offsets=offsets,
        sources=sources,
        votes=np.ascontiguousarray(labels[: len(sources)].T),
        silence=metadata.silences(sources, options),
        gold=labels_by_column.get("gold"),
        doc_ids=parser.doc_ids(),
    )
    if "label" not in labels_by_column:
        return metadata.restore(data)
    has_scores = "score" in layout.columns
    predictions = Predictions(
        data=data,
        labels=labels_by_column["label"],
        span_scores=_scores(labels_by_column["label"], data, ending_ids, parser) if has_scores else None,
        model=metadata.model or "",
        settings=metadata.model_settings,
    )
    return metadata.restore(predictions)


def _scores(
    labels: NDArray[np.int16], data: Dataset, ending_ids: NDArray[np.int32], parser: LineParser
) -> NDArray[np.float32]:
    """The score of each span, which stands at its first token."""
    spans = data.tags.spans(labels, data.offsets)
    span_starts = data.offsets[spans.sentence] + spans.start
    scores: NDArray[np.float32] = np.array(parser.ending_scores, np.float32)[ending_ids[span_starts]]
    missing = np.flatnonzero(np.isnan(scores))
    if len(missing):
        location = parser.location(int(span_starts[missing[0]]))
        raise DataError(f"{location}: expected a score for the label, got '-'")
    return scores
