"""Estimated and true quality of sources in a report, against the model's table and the scorer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener.evaluation.metrics import score_labels
from convener.evaluation.source_reliability import METRICS, interval_of
from convener.report.source_quality import estimate_sources, spans_without_votes
from tests.generators import datasets, span_tables


@pytest.mark.filterwarnings("ignore::convener.errors.ConvenerWarning")
@pytest.mark.parametrize("name", ["majority-vote", "hmm", "segment"])
def test_the_estimates_on_train_are_those_of_the_model(name: str, toy: cv.Dataset) -> None:
    model = cv.get_model(name)().fit(toy)
    found = estimate_sources(toy, model.predict(toy))
    rows = model.reliability().to_records()
    assert len(found) == len(rows) > 0
    for item, row in zip(found, rows, strict=True):
        assert (item.source, item.type, item.num_spans) == (row["source"], row["type"], row["marks"])
        for interval, metric in zip((item.recall, item.precision, item.f1), METRICS, strict=True):
            assert interval == pytest.approx(interval_of(row, metric))


def test_gold_scores_are_those_of_the_text_that_a_source_read(toy: cv.Dataset) -> None:
    for item in estimate_sources(toy, cv.MajorityVote().fit(toy).predict(toy)):
        votes = toy.votes[:, toy.source_index(item.source)]
        read = votes >= 0
        expected = score_labels(votes * read, toy.gold * read, toy.offsets, toy.tags).per_type[item.type]
        assert item.gold_score == expected


def test_without_gold_there_are_no_scores(toy: cv.Dataset) -> None:
    data = toy.without_gold()
    assert {item.gold_score for item in estimate_sources(data, cv.MajorityVote().fit(data).predict(data))} == {None}


def test_types_without_votes_of_a_source_are_omitted(toy: cv.Dataset) -> None:
    model = cv.MajorityVote().fit(toy)
    found = estimate_sources(toy, model.predict(toy))
    assert {item.source for item in found} == {"good", "fair", "poor", "guest"}
    assert [item.source for item in found] == sorted((item.source for item in found), key=toy.sources.index)


@given(st.data())
def test_spans_without_votes(data: st.DataObject) -> None:
    corpus = data.draw(datasets())
    spans = data.draw(span_tables(corpus.lengths.tolist(), len(corpus.tags.types)))
    expected = [not (corpus[span.sentence].votes[span.start : span.end] > 0).any() for span in spans]
    assert spans_without_votes(spans, corpus).tolist() == expected
