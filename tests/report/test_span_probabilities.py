"""What a model thinks of marks: against loops, and against enumeration of all labelings."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener.data.predictions import Predictions
from convener.data.ragged import lengths_to_offsets
from convener.data.spans import Spans
from convener.data.tags import TagSet
from convener.errors import DataError
from convener.report.source_quality import span_probabilities, spans_by_source, spans_without_votes
from tests.generators import datasets, predictions, span_tables


def by_hand(answer: Predictions, sentence: int, start: int, end: int, kind: int) -> float:
    """The documented rules, token by token."""
    ours = zip(answer.spans, answer.spans.score.tolist(), strict=True)
    for span, score in ours:
        if span == (sentence, start, end, kind):
            return float(score)
    rows = answer.probabilities_by_sentence()[sentence].astype(np.float64)
    found = [rows[start, 2 * kind + 1], *rows[start + 1 : end, 2 * kind + 2]]
    if end < len(rows):
        found.append(1 - rows[end, 2 * kind + 2])
    return float(min(found))


@given(st.data())
def test_the_two_rules(data: st.DataObject) -> None:
    answer = data.draw(predictions(probabilities=True, scores=None))
    lengths = answer.data.lengths.tolist()
    spans = data.draw(span_tables(lengths, len(answer.data.fine_tags.types)))
    found = span_probabilities(spans, answer)
    assert found.dtype == np.float64
    assert found.tolist() == pytest.approx([by_hand(answer, *span) for span in spans], abs=1e-6)


@given(predictions(probabilities=True, scores=True))
def test_the_models_own_spans_have_its_scores(answer: Predictions) -> None:
    found = span_probabilities(answer.spans, answer)
    assert (found == answer.spans.score.astype(np.float64)).all()


TAGS = TagSet(("PER", "LOC"))


def legal(path: tuple[int, ...]) -> bool:
    before = (0, *path[:-1])
    return all(
        label % 2 or not label or previous in (label, label - 1) for previous, label in zip(before, path, strict=True)
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length", [1, 2, 4])
def test_no_span_can_be_more_probable(seed: int, length: int) -> None:
    """Of any distribution over labelings, only the tokens' shares are known: a bound."""
    rng = np.random.default_rng(seed)
    paths = np.array([path for path in product(range(5), repeat=length) if legal(path)], np.int16)
    weights = rng.dirichlet(np.full(len(paths), 0.1))
    shares = np.stack([(weights[:, None] * (paths == label)).sum(axis=0) for label in range(5)])
    data = cv.Dataset.from_spans(list(TAGS.types), [["w"] * length], {})
    labels = np.zeros(length, np.int16)  # no span of its own: the bound alone is asked
    answer = Predictions(data=data, labels=labels, probabilities=shares.T.astype(np.float32))
    rows = [
        (0, start, end, kind) for start in range(length) for end in range(start + 1, length + 1) for kind in range(2)
    ]
    exact = np.zeros(len(rows))
    offsets = lengths_to_offsets([length])
    for path, weight in zip(paths, weights, strict=True):
        there = set(TAGS.spans(path, offsets))
        exact += [weight * (row in there) for row in rows]
    bound = span_probabilities(Spans.from_rows(rows), answer)
    assert (exact <= bound + 1e-6).all()
    if length == 1:
        np.testing.assert_allclose(exact, bound, atol=1e-6)


def test_at_the_edge_of_a_sentence_nothing_goes_on() -> None:
    """The next sentence begins inside by its shares; that is not this span's business."""
    data = cv.Dataset.from_spans(["X"], [["a"], ["b"]], {})
    shares = np.array([[0.2, 0.8, 0.0], [0.0, 0.1, 0.9]], np.float32)
    answer = Predictions(data=data, labels=np.zeros(2, np.int16), probabilities=shares)
    assert span_probabilities(Spans.from_rows([(0, 0, 1, 0)]), answer).tolist() == pytest.approx([0.8])
    joined = cv.Dataset.from_spans(["X"], [["a", "b"]], {})
    answer = Predictions(data=joined, labels=np.zeros(2, np.int16), probabilities=shares)
    assert span_probabilities(Spans.from_rows([(0, 0, 1, 0)]), answer).tolist() == pytest.approx([0.1])


def test_nothing_at_all() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"], []], {})
    shares = np.array([[1.0, 0.0, 0.0]], np.float32)
    answer = Predictions(data=data, labels=np.zeros(1, np.int16), probabilities=shares)
    assert span_probabilities(Spans.from_rows([]), answer).tolist() == []
    assert span_probabilities(Spans.from_rows([(0, 0, 1, 0)]), answer).tolist() == [0.0]
    with pytest.raises(DataError, match="without probabilities"):
        span_probabilities(Spans.from_rows([]), replace(answer, probabilities=None))


def test_marks_leave_coarse_labels_out_and_begin_with_stray_ones() -> None:
    data = cv.Dataset.from_spans(["PER", "ENT"], [["a", "b", "c"]], {"s": [[(0, 1, "PER"), (1, 3, "ENT")]], "t": [[]]})
    data = data.with_coarse({"ENT": "any"})
    assert [list(spans) for spans in spans_by_source(data)] == [[(0, 0, 1, 0)], []]
    votes = data.votes.copy()
    votes[:, 1] = [-1, 2, 2]
    stray = replace(data, votes=votes)
    assert [list(spans) for spans in spans_by_source(stray)] == [[(0, 0, 1, 0)], [(0, 1, 3, 0)]]


@given(st.data())
def test_unmarked_spans_touch_no_mark(data: st.DataObject) -> None:
    corpus = data.draw(datasets())
    spans = data.draw(span_tables(corpus.lengths.tolist(), len(corpus.tags.types)))
    expected = [not (corpus[span.sentence].votes[span.start : span.end] > 0).any() for span in spans]
    assert spans_without_votes(spans, corpus).tolist() == expected
