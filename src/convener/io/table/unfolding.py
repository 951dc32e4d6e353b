"""From a dataset or predictions to the rows of a long table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.errors import FormatError
from convener.io.align import misordered_tokens
from convener.io.facts import Metadata
from convener.io.files import check_unicode
from convener.io.formats import LabeledData, get_dataset
from convener.io.table.rows import EMPTY_CELL, GOLD, PREDICTIONS, ListColumn, SpanRows, TextUnits
from convener.packed import StringArray
from convener.predictions import Predictions
from convener.spans import Spans


class _SourceRows(NamedTuple):
    """Rows of one source: of its spans, and without one of the units where it marked nothing."""

    spans: Spans
    unmarked_units: NDArray[np.int64]


def dataset_to_rows(content: LabeledData) -> SpanRows:
    """Rows in the order of the text: the document's, then those of its spans by source."""
    data = get_dataset(content)
    for name in (GOLD, PREDICTIONS, ""):
        if name in data.sources:
            raise FormatError(f"a table cannot hold a source named {name!r}; rename it")
    check_unicode(data)
    text = data.text
    in_tokens = text is not None and bool(misordered_tokens(text, data.offsets).any())
    complete_sources = [
        name
        for column, name in enumerate(data.sources)
        if data.silence[column] == "O" and not (data.votes[:, column] == ABSTAIN).any()
    ]
    extra = {"sees_all": complete_sources} | ({"offsets": "tokens"} if in_tokens else {})
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


def _source_rows(
    data: Dataset,
    labels: NDArray[np.int16],
    score: NDArray[np.float32] | None = None,
    *,
    include_unmarked: bool = True,
) -> _SourceRows:
    """Rows of one source; `said` adds one for each unit it saw and marked nothing in."""
    if score is not None and not np.isfinite(score).all():
        raise FormatError("a table cannot hold scores that are not numbers")
    spans = data.tags.spans(labels, data.offsets)
    is_unmarked = (data.lengths == 0) & include_unmarked
    if include_unmarked:
        is_unmarked[data.sentence_of_token()[labels != ABSTAIN]] = True
        is_unmarked[spans.sentence] = False
    return _SourceRows(spans if score is None else spans.with_scores(score), np.flatnonzero(is_unmarked))


def _columns(data: Dataset, source_rows: list[_SourceRows], *, in_characters: bool) -> dict[str, Any]:
    """The columns of all rows, those of one unit together."""

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
    data = get_dataset(content)
    text = data.text
    sentence_ids = StringArray.from_list(map(str, range(len(data))))
    probabilities = content.probabilities if isinstance(content, Predictions) else None
    if probabilities is not None and not np.isfinite(probabilities).all():
        raise FormatError("a table cannot hold probabilities that are not numbers")
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
