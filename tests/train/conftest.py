"""Data with features for the tests of training."""

from __future__ import annotations

from dataclasses import replace

import pytest

import convener as cv
from convener.features import Scaling


@pytest.fixture(scope="session")
def encoded(toy: cv.Dataset) -> cv.Dataset:
    """The toy data with standardised features, 24 wide."""
    data = cv.encode(toy, "hashing", width=24, cache=False)
    assert data.features is not None
    return replace(data, features=data.features.scaled(Scaling.of(data.features)))
