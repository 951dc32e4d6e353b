"""Accounts of the demo corpus by two fast models."""

from __future__ import annotations

import pytest

import convener as cv
from convener.report import Account, account_of


@pytest.fixture(scope="session")
def demo() -> cv.Corpus:
    return cv.demo.corpus()


@pytest.fixture(scope="session")
def vote(demo: cv.Corpus) -> Account:
    """Majority vote on the test split, with gold."""
    return account_of(cv.MajorityVote().fit(demo.train), demo.test, title="vote")


@pytest.fixture(scope="session")
def hmm(demo: cv.Corpus) -> Account:
    """A chain on the train split, with gold."""
    model = cv.get("hmm")(steps=8).fit(demo.train)
    return account_of(model, demo.train, title="hmm", facts={"split": "train"})


@pytest.fixture(scope="session")
def no_gold(demo: cv.Corpus) -> Account:
    """Majority vote on the test split, without gold."""
    return account_of(cv.MajorityVote().fit(demo.train), demo.test.without_gold())
