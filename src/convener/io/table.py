"""Long tables, as crowd data comes: one row for each span of each source.

Columns `doc_id`, `source`, `start`, `end`, `label`, and where known `sentence`, `text`, `tokens`,
`chars`, `char_start`, `score` and `probabilities`. A row without a source gives the text and the
tokens of its document; a row with a source alone says that the source saw the document and marked
nothing; a source without any row abstains there. The source `gold` is the gold, `labels` are the
aggregated labels. Offsets count characters of the text where there is one, tokens otherwise.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.errors import FormatError
from convener.io import table_csv, table_parquet
from convener.io.facts import Facts, check_unicode
from convener.io.formats import PARTS, Content, Format
from convener.io.options import ReadOptions, WriteOptions
from convener.io.report import Report
from convener.io.table_rows import EMPTY, GOLD, LABELS, Rows, assembled
from convener.io.table_units import Units, disordered
from convener.packed import Strings
from convener.predictions import Predictions
from convener.spans import Spans


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """A table as CSV or Parquet, known by its first bytes."""
    with path.open("rb") as file:
        is_parquet = file.read(4) == b"PAR1" or path.suffix.lower() == ".parquet"
    rows = (table_parquet if is_parquet else table_csv).read_rows(path, report)
    return assembled(rows, options, report)


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """A table as Parquet where the name says so, else as CSV."""
    rows = rows_of(content)
    (table_parquet if path.suffix.lower() == ".parquet" else table_csv).write_rows(rows, path)


def rows_of(content: Content) -> Rows:
    """Rows in the order of the text: the document's, then those of its spans by source."""
    data = content.data if isinstance(content, Predictions) else content
    _check_names(data)
    by_tokens = data.text is not None and bool(
        disordered(data.text.chars, data.offsets, data.text.text).any()
    )
    sees_all = [
        name
        for k, name in enumerate(data.sources)
        if data.silence[k] == "O" and not (data.votes[:, k] == ABSTAIN).any()
    ]
    more = {"sees_all": sees_all} | ({"offsets": "tokens"} if by_tokens else {})
    parts = [_Part.document(len(data))]
    for k, name in enumerate(data.sources):
        parts.append(_marks(data, data.votes[:, k], k, saw=name not in sees_all))
    names = [*data.sources]
    if data.gold is not None:
        parts.append(_marks(data, data.gold, len(names), all_units=True))
        names.append(GOLD)
    if isinstance(content, Predictions):
        parts.append(
            _marks(data, content.labels, len(names), all_units=True, score=content.spans.score)
        )
        names.append(LABELS)
    part = _Part.concat(parts)
    start, end = part.start, part.end
    if data.text is not None and not by_tokens:
        start, end = _characters(data, part)
    return Rows(
        path="",
        facts=Facts.of(content, **more),
        units=_units(content),
        unit=part.unit,
        source=part.source,
        sources=tuple(names),
        start=start,
        end=end,
        label=part.label,
        types=data.tags.types,
        score=None if np.isnan(part.score).all() else part.score,
        place=str,
    )


def _check_names(data: Dataset) -> None:
    for name in (GOLD, LABELS, ""):
        if name in data.sources:
            raise FormatError(f"a table cannot hold a source named {name!r}; rename it")
    check_unicode(data.tokens, "token")
    check_unicode(Strings.of([*data.sources, *data.tags.types]), "name")
    if data.text is not None:
        check_unicode(data.text.text, "the text of sentence")
    if data.documents is not None:
        check_unicode(data.documents, "the document of sentence")


def _units(content: Content) -> Units:
    data = content.data if isinstance(content, Predictions) else content
    text = data.text
    numbers = Strings.of(map(str, range(len(data))))
    probabilities = content.probabilities if isinstance(content, Predictions) else None
    if probabilities is not None and not np.isfinite(probabilities).all():
        raise FormatError("a table cannot hold probabilities that are not numbers")
    return Units(
        documents=numbers if data.documents is None else data.documents,
        sentences=None if data.documents is None else numbers,
        stated=np.ones(len(data), bool),
        text=None if text is None else text.text,
        tokens=data.tokens,
        lengths=data.lengths,
        chars=None if text is None else text.chars,
        char_lengths=data.lengths,
        starts=None if text is None else text.starts,
        probabilities=probabilities,
        probability_lengths=data.lengths,
    )


class _Part:
    """Rows of one source, or of the documents."""

    def __init__(
        self, source: int, spans: Spans, empty: NDArray[np.int64], score: NDArray[np.float32] | None
    ) -> None:
        """Rows of the spans, and rows without a span of the units in `empty`."""
        blank = np.full(len(empty), EMPTY, np.int64)
        unit = np.concatenate([spans.sentence, empty])
        order = np.argsort(unit, kind="stable")
        sure = np.full(len(spans), np.nan, np.float32) if score is None else score
        self.unit = unit[order]
        self.source = np.full(len(unit), source, np.int64)
        self.start = np.concatenate([spans.start, blank])[order]
        self.end = np.concatenate([spans.end, blank])[order]
        self.label = np.concatenate([spans.type, np.full(len(empty), -1, np.int64)])[order]
        self.score = np.concatenate([sure, np.full(len(empty), np.nan, np.float32)])[order]

    @classmethod
    def document(cls, count: int) -> _Part:
        """A row for each document."""
        return cls(-1, Spans.of([]), np.arange(count), None)

    @classmethod
    def concat(cls, parts: list[_Part]) -> _Part:
        """All rows, those of one unit together."""
        whole = cls.document(0)
        order = np.argsort(np.concatenate([part.unit for part in parts]), kind="stable")
        for name in ("unit", "source", "start", "end", "label", "score"):
            setattr(whole, name, np.concatenate([getattr(part, name) for part in parts])[order])
        return whole


def _marks(
    data: Dataset,
    labels: NDArray[np.int16],
    source: int,
    *,
    saw: bool = True,
    all_units: bool = False,
    score: NDArray[np.float32] | None = None,
) -> _Part:
    """Rows of one source; `saw` adds one for each unit it saw and marked nothing in."""
    if score is not None and not np.isfinite(score).all():
        raise FormatError("a table cannot hold scores that are not numbers")
    spans = data.tags.spans(labels, data.offsets)
    quiet = np.zeros(len(data), bool)
    if all_units:
        quiet[:] = True
    elif saw:
        quiet[data.sentence_of_token()[labels != ABSTAIN]] = True
    quiet[spans.sentence] = False
    return _Part(source, spans, np.flatnonzero(quiet), score)


def _characters(data: Dataset, part: _Part) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Start and end of the spans in their text."""
    start, end = part.start.copy(), part.end.copy()
    marked = part.label >= 0
    if data.text is not None and marked.any():
        base = data.offsets[part.unit[marked]]
        start[marked] = data.text.chars[base + start[marked], 0]
        end[marked] = data.text.chars[base + end[marked] - 1, 1]
    return start, end


FORMAT = Format(
    name="table",
    summary="long table of spans (CSV or Parquet), as crowd data comes",
    suffixes=(".csv", ".parquet"),
    carries=frozenset(PARTS) - {"abstain within a sentence", "illegal votes"},
    read=read,
    write=write,
)
