"""Spans as packed columns, compared with lists of rows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from convener.data.spans import Span, Spans
from tests.generators import sentence_lengths, span_tables

rows = sentence_lengths().flatmap(lambda lengths: span_tables(lengths, 3)).map(list)


@given(rows)
def test_rows_are_restored(given_rows: list[Span]) -> None:
    spans = Spans.from_rows(given_rows)
    assert list(spans) == given_rows
    assert len(spans) == len(given_rows)
    assert list(Spans.from_array(np.array(given_rows, np.int64).reshape(-1, 4))) == given_rows
    assert all(type(value) is int for span in spans for value in span)


@given(rows, st.data())
def test_take_picks_by_index_mask_and_slice(given_rows: list[Span], data: st.DataObject) -> None:
    size = len(given_rows)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool)
    scores = np.arange(size, dtype=np.float32)
    spans = Spans.from_rows(given_rows).with_scores(scores)
    chosen = [number for number in range(size) if mask[number]]
    for index in (mask, np.array(chosen, np.int64)):
        part = spans.take(index)
        assert list(part) == [given_rows[number] for number in chosen]
        assert part.score is not None
        assert part.score.tolist() == chosen
    assert list(spans.take(slice(1, None))) == given_rows[1:]
    assert Spans.from_rows(given_rows).take(mask).score is None


def test_with_scores_does_not_change_the_original() -> None:
    spans = Spans.from_rows([(0, 0, 1, 0)])
    scored = spans.with_scores(np.array([0.5], np.float32))
    assert scored.score is not None
    assert spans.score is None
    assert list(scored) == list(spans)


@given(sentence_lengths(), st.data())
def test_spans_are_grouped_by_sentence(lengths: list[int], data: st.DataObject) -> None:
    spans = data.draw(span_tables(lengths, 3))
    count = len(lengths)
    expected = [[tuple(s[1:]) for s in spans if s.sentence == m] for m in range(count)]
    assert list(spans.by_sentence(count)) == expected
    bounds = spans.sentence_offsets(count)
    assert np.diff(bounds).tolist() == [len(here) for here in expected]
    assert (bounds[0], bounds[-1]) == (0, len(spans))
