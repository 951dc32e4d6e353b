"""Summaries of two fast models on the demo corpus."""

from __future__ import annotations

import pytest

import convener as cv
from convener.models.hmm import HMM
from convener.report.run_summary import RunSummary, summarize_run


def fitted_hmm(corpus: cv.Corpus, **settings: int) -> HMM:
    """HMM on the train split of the demo corpus."""
    return HMM(**settings).fit(corpus.train)


@pytest.fixture(scope="session")
def demo() -> cv.Corpus:
    return cv.demo.load_corpus()


@pytest.fixture(scope="session")
def vote(demo: cv.Corpus) -> RunSummary:
    """Majority vote on the test split, with gold labels."""
    return summarize_run(cv.MajorityVote().fit(demo.train), demo.test, title="vote")


@pytest.fixture(scope="session")
def hmm(demo: cv.Corpus) -> RunSummary:
    """HMM on the train split, with gold labels."""
    return summarize_run(fitted_hmm(demo, max_iter=8), demo.train, title="hmm", run_info={"split": "train"})


@pytest.fixture(scope="session")
def no_gold(demo: cv.Corpus) -> RunSummary:
    """Majority vote on the test split, without gold labels."""
    return summarize_run(cv.MajorityVote().fit(demo.train), demo.test.without_gold())
