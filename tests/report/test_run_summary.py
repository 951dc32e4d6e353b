"""Warnings and notes of a report: each appears where it should, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.data.predictions import GoldUse
from convener.report.run_summary import alerts, summarize_run
from tests.report.fake_model import FakeModel

NUM_SENTENCES = 100


def marks(*selected: int | range) -> list[list[tuple[int, int, str]]]:
    """Spans of type X in these sentences of one token."""
    marked = {n for part in selected for n in (part if isinstance(part, range) else [part])}
    return [[(0, 1, "X")] if n in marked else [] for n in range(NUM_SENTENCES)]


def alerts_for(
    *,
    votes: dict[str, list[list[tuple[int, int, str]]]] | None = None,
    gold: list[list[tuple[int, int, str]]] | None = None,
    predicted: range = range(NUM_SENTENCES),
    confidence: float = 0.99,
    types: tuple[str, ...] = ("X",),
    uses_gold: GoldUse = "none",
) -> list[tuple[str, str]]:
    """Alerts for two overlapping sources and a model that predicts an entity everywhere."""
    given = {"a": marks(range(70)), "b": marks(range(40, 100))} if votes is None else votes
    data = cv.Dataset.from_spans(list(types), [["w"]] * NUM_SENTENCES, given, gold=gold)
    labels = np.zeros(NUM_SENTENCES, np.int16)
    labels[list(predicted)] = 1
    model = FakeModel(labels=labels, confidence=confidence, uses_gold=uses_gold)
    return [tuple(alert) for alert in alerts(summarize_run(model, data))]


def test_no_alerts_without_problems() -> None:
    assert alerts_for() == []
    assert alerts_for(gold=marks(range(NUM_SENTENCES))) == []


ALL = marks(range(NUM_SENTENCES))
CASES: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "uses gold": (
        {"uses_gold": "train"},
        [("warning", "fake uses gold labels: an upper bound, not a weakly supervised result.")],
    ),
    "is an oracle": (
        {"uses_gold": "test"},
        [("warning", "fake uses gold labels: an upper bound, not a weakly supervised result.")],
    ),
    "used validation gold": (
        {"uses_gold": "valid"},
        [("note", "Gold labels of the validation split were used for early stopping.")],
    ),
    "below majority vote": (
        {"gold": ALL, "predicted": range(80)},
        [("warning", "F1 is 11.1 points below majority vote.")],
    ),
    "overconfident": (
        {"gold": marks(range(75)), "confidence": 0.99},
        [
            (
                "note",
                "The expected calibration error of span probabilities is 0.24; see the calibration below before "
                "you filter by probability.",
            )
        ],
    ),
    "well calibrated": ({"gold": marks(range(91)), "confidence": 0.99}, []),
    "predicts nothing": (
        {"predicted": range(0)},
        [("warning", "The model predicts no entities.")],
    ),
    "predicted without votes": (
        {"votes": {"a": marks(range(40)), "b": marks(range(30, 65))}},
        [
            (
                "warning",
                "35% of the predicted entities have no vote from any source. Check some of them below (filter: "
                "predicted without any vote) before you use the labels.",
            )
        ],
    ),
    "predicted without votes, but rarely": (
        {"votes": {"a": marks(range(40)), "b": marks(range(30, 70))}},
        [],
    ),
    "sources without votes": (
        {"votes": {"a": marks(range(70)), "c": marks(), "b": marks(range(40, 100)), "d": marks()}},
        [("warning", "Sources without votes: c, d.")],
    ),
    "sources with few spans": (
        {
            "votes": {
                "a": marks(range(99)),
                "b": marks(range(70, 99), 99),
                "c": marks(range(71, 100)),
            }
        },
        [
            ("note", "Sources with fewer than 30 spans, whose estimates are unreliable: c."),
            ("note", "97% of the votes of b are also votes of a."),
            ("note", "100% of the votes of c are also votes of b."),
        ],
    ),
    "types without votes": (
        {"types": ("X", "Y", "Z")},
        [("warning", "Types without votes: Y, Z.")],
    ),
    "one source": (
        {"votes": {"a": ALL}},
        [("warning", "There is only one source: its reliability cannot be estimated.")],
    ),
    "sources that never overlap": (
        {"votes": {"a": marks(range(50)), "b": marks(range(50, 100))}},
        [("warning", "No token has votes from two sources: reliability cannot be estimated.")],
    ),
    "contained in another source": (
        {"votes": {"a": ALL, "b": marks(range(60))}},
        [("note", "100% of the votes of b are also votes of a.")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_alert_appears_alone(name: str) -> None:
    case, expected = CASES[name]
    assert alerts_for(**case) == expected


def test_warnings_come_before_notes() -> None:
    found = alerts_for(
        votes={"a": marks(range(10)), "b": marks()},
        gold=ALL,
        uses_gold="valid",
        types=("X", "Y"),
        confidence=0.6,
    )
    levels = [level for level, _ in found]
    assert levels == sorted(levels, reverse=True)  # "warning" is after "note" in the alphabet
    assert levels.count("note") == 3
    # Within a level: gold, scores, predictions, sources.
    texts = [text.split()[0] for _, text in found]
    assert texts == ["90%", "Sources", "Types", "No", "Gold", "The", "Sources"]


def test_a_coarse_vote_is_a_vote_for_no_type() -> None:
    data = cv.Dataset.from_spans(
        ["X", "ENT"],
        [["w"]] * NUM_SENTENCES,
        {"a": [[(0, 1, "ENT")]] * 70 + [[]] * 30, "b": [[]] * 40 + [[(0, 1, "ENT")]] * 60},
    ).with_coarse({"ENT": "any"})
    found = alerts(summarize_run(FakeModel(labels=np.ones(NUM_SENTENCES, np.int16)), data))
    assert [alert.text for alert in found] == ["Types without votes: X."]


def test_without_any_source() -> None:
    found = alerts_for(votes={}, gold=ALL)
    assert [text.split()[0] for _, text in found] == ["100%", "Types", "No"]


def test_a_report_needs_probabilities_and_tokens() -> None:
    class NoProbabilities(FakeModel):
        def predict(self, data: cv.Dataset) -> cv.Predictions:
            return cv.Predictions(data=data, labels=self.labels)

    data = cv.Dataset.from_spans(["X"], [["w"]], {})
    with pytest.raises(cv.DataError, match="a report needs probabilities; fake provides none"):
        summarize_run(NoProbabilities(labels=np.zeros(1, np.int16)), data)
    with pytest.raises(cv.DataError, match="the data has no tokens"):
        summarize_run(FakeModel(labels=np.zeros(0, np.int16)), data[:0])
