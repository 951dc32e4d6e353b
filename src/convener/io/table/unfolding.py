"""From a dataset or predictions to the rows of a long table."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.errors import FormatError
from convener.io.align import disordered
from convener.io.facts import Facts
from convener.io.files import check_unicode
from convener.io.formats import Content, data_of
from convener.io.table.rows import EMPTY, GOLD, LABELS, Lists, Rows, Units
from convener.packed import Strings
from convener.predictions import Predictions
from convener.spans import Spans


class _Marks(NamedTuple):
    """Rows of one source: of its spans, and without one of the units where it marked nothing."""

    spans: Spans
    quiet: NDArray[np.int64]


def rows_of(content: Content) -> Rows:
    """Rows in the order of the text: the document's, then those of its spans by source."""
    data = data_of(content)
    for name in (GOLD, LABELS, ""):
        if name in data.sources:
            raise FormatError(f"a table cannot hold a source named {name!r}; rename it")
    check_unicode(data)
    text = data.text
    by_tokens = text is not None and bool(disordered(text, data.offsets).any())
    sees_all = [
        name
        for k, name in enumerate(data.sources)
        if data.silence[k] == "O" and not (data.votes[:, k] == ABSTAIN).any()
    ]
    more = {"sees_all": sees_all} | ({"offsets": "tokens"} if by_tokens else {})
    marks = {"": _Marks(Spans.of([]), np.arange(len(data)))}
    for k, name in enumerate(data.sources):
        marks[name] = _marks(data, data.votes[:, k], said=name not in sees_all)
    if data.gold is not None:
        marks[GOLD] = _marks(data, data.gold)
    if isinstance(content, Predictions):
        marks[LABELS] = _marks(data, content.labels, content.spans.score)
    return Rows(
        path="",
        facts=Facts.of(content, **more),
        units=_units(content),
        sources=tuple(marks)[1:],
        types=data.tags.types,
        place=str,
        **_columns(data, list(marks.values()), in_characters=not by_tokens),
    )


def _marks(
    data: Dataset,
    labels: NDArray[np.int16],
    score: NDArray[np.float32] | None = None,
    *,
    said: bool = True,
) -> _Marks:
    """Rows of one source; `said` adds one for each unit it saw and marked nothing in."""
    if score is not None and not np.isfinite(score).all():
        raise FormatError("a table cannot hold scores that are not numbers")
    spans = data.tags.spans(labels, data.offsets)
    quiet = (data.lengths == 0) & said
    if said:
        quiet[data.sentence_of_token()[labels != ABSTAIN]] = True
        quiet[spans.sentence] = False
    return _Marks(spans if score is None else spans.scored(score), np.flatnonzero(quiet))


def _columns(data: Dataset, marks: list[_Marks], *, in_characters: bool) -> dict[str, Any]:
    """The columns of all rows, those of one unit together."""

    def column(name: str, blank: Any, dtype: Any) -> Any:
        parts = [np.zeros(0, dtype)]
        for spans, quiet in marks:
            values = getattr(spans, name)
            known = np.full(len(spans), blank, dtype) if values is None else values.astype(dtype)
            parts += [known, np.full(len(quiet), blank, dtype)]
        return np.concatenate(parts)

    unit = np.concatenate([part for spans, quiet in marks for part in (spans.sentence, quiet)])
    order = np.argsort(unit, kind="stable")
    counts = [len(spans) + len(quiet) for spans, quiet in marks]
    source = np.repeat(np.arange(-1, len(marks) - 1), counts)
    start, end = column("start", EMPTY, np.int64), column("end", EMPTY, np.int64)
    label = column("type", -1, np.int64)
    if data.text is not None and in_characters:
        marked = np.flatnonzero(label >= 0)
        base = data.offsets[unit[marked]]
        end[marked] = data.text.chars[base + end[marked] - 1, 1]
        start[marked] = data.text.chars[base + start[marked], 0]
    score = column("score", np.nan, np.float32)
    return {
        "unit": unit[order],
        "source": source[order],
        "start": start[order],
        "end": end[order],
        "label": label[order],
        "score": None if np.isnan(score).all() else score[order],
    }


def _units(content: Content) -> Units:
    data = data_of(content)
    text = data.text
    numbers = Strings.of(map(str, range(len(data))))
    rows = content.probabilities if isinstance(content, Predictions) else None
    if rows is not None and not np.isfinite(rows).all():
        raise FormatError("a table cannot hold probabilities that are not numbers")
    return Units(
        documents=numbers if data.documents is None else data.documents,
        sentences=None if data.documents is None else numbers,
        stated=np.ones(len(data), bool),
        text=None if text is None else text.text,
        tokens=Lists(data.tokens, data.lengths),
        chars=None if text is None else Lists(text.chars, data.lengths),
        starts=None if text is None else text.starts,
        probabilities=None if rows is None else Lists(rows, data.lengths),
    )
