"""Fixtures of the tests of benchmarks."""

from collections.abc import Iterator

import matplotlib
import pytest


@pytest.fixture(autouse=True)
def matplotlib_defaults() -> Iterator[None]:
    """Benchmarks style their figures; other tests of the same process draw with the defaults."""
    with matplotlib.rc_context():
        yield
