"""Reads CoNLL files, ours and others'."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError
from convener.io.conll.layout import SILENT_TAG, SOURCE, Layout, layout_of
from convener.io.conll.lines import Lines
from convener.io.facts import asked_sources, tag_set
from convener.io.formats import Content
from convener.io.mending import Mending
from convener.io.messages import placed
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.io.tag_rows import TagRows
from convener.packed import offsets_of
from convener.predictions import Predictions


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """The sentences of a CoNLL file: predictions if it has a column `label`."""
    with path.open("rb") as file:
        layout = layout_of(file, str(path), options)
        sources = asked_sources(layout.sources, options, str(path))
        columns = [f"{SOURCE}{name}" for name in sources]
        columns += [name for name in ("gold", "label") if name in layout.columns]
        rows = TagRows(
            [name.removeprefix(SOURCE) for name in columns],
            layout.facts.asked_types(options),
            abstain=(SILENT_TAG,),
            voting=len(sources),
        )
        picked = [layout.columns.index(name) for name in columns]
        lines = Lines(str(path), layout, rows, picked)
        lines.take(file)
    if not lines.lengths and not layout.own:
        raise DataError(f"{path}: no sentences: expected lines of a token and its tags")
    foreign = not layout.own or layout.scheme == "io"
    mending = Mending(options.on_illegal, report, any_scheme=foreign)
    with placed(str(path)):
        return _content(layout, lines, rows, sources, options, mending)


def _content(
    layout: Layout,
    lines: Lines,
    rows: TagRows,
    sources: tuple[str, ...],
    options: ReadOptions,
    mending: Mending,
) -> Content:
    """The dataset, or the predictions."""
    facts, tokens, ends = layout.facts, lines.tokens(), lines.ends
    tags = tag_set(facts.asked_types(options), rows.types)
    offsets = offsets_of(np.frombuffer(lines.lengths, np.int64))
    numbers = np.array(lines.end_rows, np.int32)[ends]
    labels = np.empty((len(rows.columns), len(tokens)), np.int16)
    for column in range(len(rows.columns)):
        labels[column] = rows.labels(
            column, numbers, offsets, tags, where=lines.place, mending=mending
        )
    named = dict(zip(rows.columns[len(sources) :], labels[len(sources) :], strict=True))
    data = Dataset(
        tags=tags,
        tokens=tokens,
        offsets=offsets,
        sources=sources,
        votes=np.ascontiguousarray(labels[: len(sources)].T),
        silence=facts.silences(sources, options),
        gold=named.get("gold"),
        documents=lines.documents(),
    )
    if "label" not in named:
        return facts.restored(data)
    scored = "score" in layout.columns
    result = Predictions(
        data=data,
        labels=named["label"],
        scores=_scores(named["label"], data, ends, lines) if scored else None,
        model=facts.model or "",
        settings=facts.settings,
    )
    return facts.restored(result)


def _scores(
    labels: NDArray[np.int16], data: Dataset, ends: NDArray[np.int32], lines: Lines
) -> NDArray[np.float32]:
    """The score of each span, which stands at its first token."""
    spans = data.tags.spans(labels, data.offsets)
    begin = data.offsets[spans.sentence] + spans.start
    scores: NDArray[np.float32] = np.array(lines.end_scores, np.float32)[ends[begin]]
    missing = np.flatnonzero(np.isnan(scores))
    if len(missing):
        place = lines.place(int(begin[missing[0]]))
        raise DataError(f"{place}: expected a score for the label, got '-'")
    return scores
