"""Reliability of sources, compared with loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.data.dataset import Dataset
from convener.inference.counts import type_probabilities, type_reliability
from tests.generators import datasets, probability_rows


@given(datasets(), st.data())
def test_the_probability_of_a_type_is_that_of_its_two_labels(data: Dataset, drawn: st.DataObject) -> None:
    rows = drawn.draw(probability_rows(len(data.tokens), len(data.tags)))
    types = type_probabilities(rows)
    assert types.shape == (len(rows), len(data.tags.types))
    for t in range(len(rows)):
        for number, name in enumerate(data.tags.types):
            begin, inside = (data.tags.names.index(f"{prefix}-{name}") for prefix in "BI")
            assert types[t, number] == rows[t, begin] + rows[t, inside]


def same(found: float, expected: float) -> bool:
    if math.isnan(expected):
        return math.isnan(found)
    return found == pytest.approx(expected, abs=1e-6) and 0 <= found <= 1


@given(datasets(), st.data())
def test_reliability_is_counted_token_by_token(data: Dataset, drawn: st.DataObject) -> None:
    rows = drawn.draw(probability_rows(len(data.tokens), len(data.tags)))
    types = type_probabilities(rows)
    recall, precision = type_reliability(data.votes, types)
    assert recall.shape == precision.shape == (len(data.sources), len(data.tags.types))
    for k in range(len(data.sources)):
        for e, name in enumerate(data.tags.types):
            hits = voted = true = 0.0
            for t in range(len(data.tokens)):
                label = int(data.votes[t, k])
                votes_for_type = label > 0 and data.tags.names[label][2:] == name
                voted += votes_for_type
                hits += float(types[t, e]) if votes_for_type else 0
                true += float(types[t, e]) if label >= 0 else 0
            assert same(recall[k, e], hits / true if true else math.nan)
            assert same(precision[k, e], hits / voted if voted else math.nan)


def test_abstentions_do_not_lower_recall() -> None:
    votes = np.array([[1], [-1], [0]], np.int16)
    recall, precision = type_reliability(votes, np.array([[1], [1], [1]], np.float32))
    assert recall.tolist() == [[0.5]]
    assert precision.tolist() == [[1.0]]


def test_rates_without_counts_are_nan() -> None:
    recall, precision = type_reliability(np.zeros((2, 1), np.int16), np.array([[0, 1], [0, 1]], np.float32))
    assert np.isnan(recall).tolist() == [[True, False]]
    assert recall[0, 1] == 0
    assert np.isnan(precision).all()
