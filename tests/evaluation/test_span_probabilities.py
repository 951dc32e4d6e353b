"""Probabilities of spans: against loops, and against enumeration of all labelings."""

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
from convener.evaluation.source_reliability import span_probabilities, spans_by_source
from tests.generators import predictions, span_tables


def expected_probability(predicted: Predictions, sentence: int, start: int, end: int, kind: int) -> float:
    """The documented rules, token by token."""
    for span, score in zip(predicted.spans, predicted.spans.score.tolist(), strict=True):
        if span == (sentence, start, end, kind):
            return float(score)
    rows = predicted.probabilities_by_sentence()[sentence].astype(np.float64)
    found = [rows[start, 2 * kind + 1], *rows[start + 1 : end, 2 * kind + 2]]
    if end < len(rows):
        found.append(1 - rows[end, 2 * kind + 2])
    return float(min(found))


@given(st.data())
def test_against_loops(data: st.DataObject) -> None:
    predicted = data.draw(predictions(probabilities=True, scores=None))
    lengths = predicted.data.lengths.tolist()
    spans = data.draw(span_tables(lengths, len(predicted.data.fine_tags.types)))
    found = span_probabilities(spans, predicted)
    assert found.dtype == np.float64
    assert found.tolist() == pytest.approx([expected_probability(predicted, *span) for span in spans], abs=1e-6)


@given(predictions(probabilities=True, scores=True))
def test_predicted_spans_have_their_scores(predicted: Predictions) -> None:
    found = span_probabilities(predicted.spans, predicted)
    assert (found == predicted.spans.score.astype(np.float64)).all()


TAGS = TagSet(("PER", "LOC"))


def legal(path: tuple[int, ...]) -> bool:
    before = (0, *path[:-1])
    return all(
        label % 2 or not label or previous in (label, label - 1) for previous, label in zip(before, path, strict=True)
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("length", [1, 2, 4])
def test_the_result_is_an_upper_bound(seed: int, length: int) -> None:
    """It holds for every distribution over labelings with these token marginals."""
    rng = np.random.default_rng(seed)
    paths = np.array([path for path in product(range(5), repeat=length) if legal(path)], np.int16)
    weights = rng.dirichlet(np.full(len(paths), 0.1))
    probs = np.stack([(weights[:, None] * (paths == label)).sum(axis=0) for label in range(5)])
    data = cv.Dataset.from_spans(list(TAGS.types), [["w"] * length], {})
    labels = np.zeros(length, np.int16)  # no predicted span: only the bound is used
    predicted = Predictions(data=data, labels=labels, probabilities=probs.T.astype(np.float32))
    rows = [
        (0, start, end, kind) for start in range(length) for end in range(start + 1, length + 1) for kind in range(2)
    ]
    exact = np.zeros(len(rows))
    offsets = lengths_to_offsets([length])
    for path, weight in zip(paths, weights, strict=True):
        spans = set(TAGS.spans(path, offsets))
        exact += [weight * (row in spans) for row in rows]
    bound = span_probabilities(Spans.from_rows(rows), predicted)
    assert (exact <= bound + 1e-6).all()
    if length == 1:
        np.testing.assert_allclose(exact, bound, atol=1e-6)


def test_a_span_ends_at_the_sentence_boundary() -> None:
    """The I- probability of the first token of the next sentence is ignored."""
    data = cv.Dataset.from_spans(["X"], [["a"], ["b"]], {})
    probs = np.array([[0.2, 0.8, 0.0], [0.0, 0.1, 0.9]], np.float32)
    predicted = Predictions(data=data, labels=np.zeros(2, np.int16), probabilities=probs)
    assert span_probabilities(Spans.from_rows([(0, 0, 1, 0)]), predicted).tolist() == pytest.approx([0.8])
    joined = cv.Dataset.from_spans(["X"], [["a", "b"]], {})
    predicted = Predictions(data=joined, labels=np.zeros(2, np.int16), probabilities=probs)
    assert span_probabilities(Spans.from_rows([(0, 0, 1, 0)]), predicted).tolist() == pytest.approx([0.1])


def test_no_spans_and_no_probabilities() -> None:
    data = cv.Dataset.from_spans(["X"], [["a"], []], {})
    probs = np.array([[1.0, 0.0, 0.0]], np.float32)
    predicted = Predictions(data=data, labels=np.zeros(1, np.int16), probabilities=probs)
    assert span_probabilities(Spans.from_rows([]), predicted).tolist() == []
    assert span_probabilities(Spans.from_rows([(0, 0, 1, 0)]), predicted).tolist() == [0.0]
    with pytest.raises(DataError, match="expected label probabilities"):
        span_probabilities(Spans.from_rows([]), replace(predicted, probabilities=None))


def test_spans_omit_coarse_votes_and_repair_illegal_ones() -> None:
    data = cv.Dataset.from_spans(["PER", "ENT"], [["a", "b", "c"]], {"s": [[(0, 1, "PER"), (1, 3, "ENT")]], "t": [[]]})
    data = data.with_coarse({"ENT": "any"})
    assert [list(spans) for spans in spans_by_source(data)] == [[(0, 0, 1, 0)], []]
    votes = data.votes.copy()
    votes[:, 1] = [-1, 2, 2]
    illegal = replace(data, votes=votes)
    assert [list(spans) for spans in spans_by_source(illegal)] == [[(0, 0, 1, 0)], [(0, 1, 3, 0)]]
