"""Simulated workers annotate a real text as their habits say."""

from __future__ import annotations

import numpy as np
import pytest

import convener as cv
from benchmarks.crowd import true_f1
from benchmarks.harness.data import DEMO, splits
from benchmarks.worlds.annotators import CrowdHabits, annotate, unread

HABITS = CrowdHabits(workers=12, document=4)


@pytest.fixture(scope="module")
def text() -> cv.Dataset:
    return cv.demo.load_corpus().train


@pytest.fixture(scope="module")
def crowd(text: cv.Dataset) -> cv.Dataset:
    return annotate(text, 3, HABITS)


def test_the_same_seed_gives_the_same_crowd(text: cv.Dataset, crowd: cv.Dataset) -> None:
    assert np.array_equal(annotate(text, 3, HABITS).votes, crowd.votes)
    assert not np.array_equal(annotate(text, 4, HABITS).votes, crowd.votes)


def test_text_and_gold_stay_and_unmarked_tokens_are_votes(text: cv.Dataset, crowd: cv.Dataset) -> None:
    assert np.array_equal(crowd.gold, text.gold)
    assert crowd.tokens.to_list() == text.tokens.to_list()
    assert set(crowd.unmarked) == {"outside"}


def test_each_document_is_read_as_a_whole_by_as_many_workers_as_stated(crowd: cv.Dataset) -> None:
    low, high = HABITS.answers
    read = crowd.votes >= 0
    for start in range(0, len(crowd), HABITS.document):
        tokens = slice(crowd.offsets[start], crowd.offsets[min(start + HABITS.document, len(crowd))])
        assert (read[tokens] == read[tokens][:1]).all()
        assert low <= read[tokens][0].sum() <= high


def test_careful_workers_repeat_the_gold_spans(text: cv.Dataset) -> None:
    careful = CrowdHabits(
        workers=6, recall=0.9999, precision=0.9999, bounds=0.0, confusion=0.0, spammers=0.0, narrow=0.0
    )
    f1 = true_f1(annotate(text, 0, careful))
    assert np.nanmin(f1) > 0.9


def test_spammers_are_worse_than_the_others() -> None:
    f1 = true_f1(annotate(cv.demo.load_corpus().train, 0, CrowdHabits(workers=10, spammers=0.4, narrow=0.0)))
    mean = np.nanmean(f1, axis=1)
    assert mean[6:].max() < np.median(mean[:6])


def test_nobody_votes_on_an_unread_text(crowd: cv.Dataset) -> None:
    test = splits(DEMO).test
    other = unread(test, crowd)
    assert other.sources == crowd.sources
    assert (other.votes == -1).all()
    assert np.array_equal(other.gold, test.gold)


def test_a_text_without_gold_is_refused(text: cv.Dataset) -> None:
    with pytest.raises(ValueError, match="gold"):
        annotate(text.without_gold(), 0)
