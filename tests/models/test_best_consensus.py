"""Best consensus: an oracle; its scores equal those of the paper."""

from __future__ import annotations

from pathlib import Path

import pytest

import convener as cv


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LaptopReview", (100.0, 63.40, 77.60)),
        ("NCBI-Disease", (99.85, 69.06, 81.65)),
        ("BC5CDR", (99.86, 79.33, 88.42)),
        ("CoNLL", (98.62, 77.39, 86.73)),
    ],
)
def test_scores_equal_those_of_the_paper(real_data: Path, name: str, expected: tuple[float, float, float]) -> None:
    test = cv.read(real_data / name, "test")
    result = cv.evaluate(cv.BestConsensus().fit(test).predict(test), test)
    found = tuple(round(100 * v, 2) for v in (result.precision, result.recall, result.f1))
    assert found == expected


def test_it_is_declared_an_oracle(toy: cv.Dataset) -> None:
    assert cv.BestConsensus.supervised
    assert cv.BestConsensus.needs_gold_to_predict
    assert not cv.MajorityVote.supervised
    predictions = cv.BestConsensus().fit(toy).predict(toy)
    assert predictions.uses_gold == "test"
    assert "uses gold labels: an upper bound" in str(cv.evaluate(predictions, toy))
