"""Per-source scores on the test sets equal the paper's appendix tables to the last digit."""

from __future__ import annotations

from pathlib import Path

import pytest

import convener as cv
from benchmarks.paper.published import SOURCES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", SOURCES)
def test_per_source_scores_equal_the_appendix(real_data: Path, name: str) -> None:
    rows = cv.analyze(cv.read(real_data / name, "test")).to_json()["sources"]
    found = {row["name"]: tuple(round(100 * row[key], 2) for key in ("precision", "recall", "f1")) for row in rows}
    assert found == SOURCES[name]
