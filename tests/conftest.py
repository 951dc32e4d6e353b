"""Shared fixtures: a small crowd, and where the real data sets are."""

from __future__ import annotations

import os
import signal
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

import convener as cv
from convener.data.features import Standardizer

# No deadline, because machines are shared; fifty examples for each test. Examples differ from run to
# run, except in continuous integration.
settings.register_profile("convener", deadline=None, max_examples=50, derandomize="CI" in os.environ)
settings.load_profile("convener")


def pytest_configure(config: pytest.Config) -> None:
    """Turn warnings of convener into errors, and use an empty cache folder.

    A fixture would be too late: convener is not imported before coverage starts, and examples in
    docstrings and processes that tests start need both as well.
    """
    config.addinivalue_line("filterwarnings", "error::convener.errors.ConvenerWarning")
    cache = tempfile.TemporaryDirectory(prefix="convener-cache-", ignore_cleanup_errors=True)
    os.environ["CONVENER_CACHE_DIR"] = cache.name
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background, as by `make test &`; processes that tests start inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.add_cleanup(cache.cleanup)


ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("CONVENER_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; tests that need it are skipped where it is missing."""
    if not DATA.is_dir():
        pytest.skip(f"no data sets at {DATA}: set CONVENER_DATA to the folder that holds them")
    return DATA


@pytest.fixture(scope="session")
def toy() -> cv.Dataset:
    """Forty random sentences and five sources: good, fair, poor, one that abstains often, one that marks nothing."""
    return crowd(seed=3, sentences=40)


@pytest.fixture(scope="session")
def encoded(toy: cv.Dataset) -> cv.Dataset:
    """The toy data with standardized features of dimension 24."""
    data = cv.encode(toy, "hashing", width=24, cache=False)
    assert data.features is not None
    return replace(data, features=data.features.with_standardizer(Standardizer.fit(data.features)))


def crowd(seed: int, sentences: int) -> cv.Dataset:
    """Sentences with gold and five sources of known kinds; some sentences are empty."""
    rng = np.random.default_rng(seed)
    types = ["PER", "LOC"]
    tokens, gold = [], []
    votes: dict[str, list[list[tuple[int, int, str]] | None]] = {
        name: [] for name in ("good", "fair", "poor", "guest", "silent")
    }
    for number in range(sentences):
        length = 0 if number % 13 == 5 else int(rng.integers(1, 15))
        tokens.append([f"w{rng.integers(50)}" for _ in range(length)])
        true = _random_spans(rng, length, types)
        gold.append(true)
        for name, keeps in (("good", 0.9), ("fair", 0.6), ("poor", 0.3), ("guest", 0.8)):
            kept = [span for span in true if rng.random() < keeps]
            if name == "poor":
                kept = [(a, b, types[int(rng.integers(2))]) for a, b, _ in kept]
            votes[name].append(None if name == "guest" and number % 3 else kept)
        votes["silent"].append([])
    return cv.Dataset.from_spans(types, tokens, votes, gold=gold)


def _random_spans(rng: np.random.Generator, length: int, types: list[str]) -> list[tuple[int, int, str]]:
    spans, at = [], 0
    while at < length:
        if rng.random() < 0.3:
            end = min(length, at + int(rng.integers(1, 4)))
            spans.append((at, end, types[int(rng.integers(len(types)))]))
            at = end
        at += 1
    return spans
