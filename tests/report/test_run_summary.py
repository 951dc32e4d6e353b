"""Warnings: each where it belongs, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import convener as cv
from convener.data.predictions import USED_GOLD
from convener.report.run_summary import alerts, summarize_run
from tests.report.fake_model import Told

WORDS = 100


def words(*chosen: int | range) -> list[list[tuple[int, int, str]]]:
    """Marks of X on these sentences of one word."""
    marked = {n for part in chosen for n in (part if isinstance(part, range) else [part])}
    return [[(0, 1, "X")] if n in marked else [] for n in range(WORDS)]


def said(
    *,
    votes: dict[str, list[list[tuple[int, int, str]]]] | None = None,
    gold: list[list[tuple[int, int, str]]] | None = None,
    found: range = range(WORDS),
    sure: float = 0.99,
    types: tuple[str, ...] = ("X",),
    settings: dict[str, Any] | None = None,
    facts: dict[str, Any] | None = None,
) -> list[tuple[str, str]]:
    """The warnings about two sources that overlap and a model that finds all."""
    given = {"a": words(range(70)), "b": words(range(40, 100))} if votes is None else votes
    data = cv.Dataset.from_spans(list(types), [["w"]] * WORDS, given, gold=gold)
    labels = np.zeros(WORDS, np.int16)
    labels[list(found)] = 1
    model = Told(labels=labels, sure=sure, settings=settings or {})
    return [tuple(alert) for alert in alerts(summarize_run(model, data, run_info=facts))]


def test_where_all_is_well_nothing_is_said() -> None:
    assert said() == []
    assert said(gold=words(range(WORDS))) == []
    assert said(facts={"used_valid_gold": False}) == []


ALL = words(range(WORDS))
CASES: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "saw gold": (
        {"settings": {USED_GOLD: True}},
        [("grave", "told saw gold: a reference, not a result.")],
    ),
    "used the gold of valid": (
        {"facts": {"used_valid_gold": True}},
        [("note", "The gold of valid decided when training stopped.")],
    ),
    "saw gold, so how it stopped does not matter": (
        {"settings": {USED_GOLD: True}, "facts": {"used_valid_gold": True}},
        [("grave", "told saw gold: a reference, not a result.")],
    ),
    "below majority vote": (
        {"gold": ALL, "found": range(80)},
        [("grave", "F1 is 11.1 points below a simple majority vote here.")],
    ),
    "too sure": (
        {"gold": words(range(75)), "sure": 0.99},
        [
            (
                "note",
                "Probabilities of spans are off by 0.24 on average; do not filter by them without "
                "looking at the calibration below.",
            )
        ],
    ),
    "sure enough": ({"gold": words(range(91)), "sure": 0.99}, []),
    "finds nothing": (
        {"found": range(0)},
        [("grave", "The model finds no entity at all.")],
    ),
    "found where nobody marks": (
        {"votes": {"a": words(range(40)), "b": words(range(30, 65))}},
        [
            (
                "grave",
                "35% of the entities found are where no source marks anything. Look at some of "
                "them below (filter: found where nobody marks) before you trust the labels.",
            )
        ],
    ),
    "found where nobody marks, but not often": (
        {"votes": {"a": words(range(40)), "b": words(range(30, 70))}},
        [],
    ),
    "silent sources": (
        {"votes": {"a": words(range(70)), "c": words(), "b": words(range(40, 100)), "d": words()}},
        [("grave", "These sources mark nothing here: c, d.")],
    ),
    "sources that say little": (
        {
            "votes": {
                "a": words(range(99)),
                "b": words(range(70, 99), 99),
                "c": words(range(71, 100)),
            }
        },
        [
            ("note", "Fewer than 30 marks, so little is known of c."),
            ("note", "97% of what b marks is marked by a, too."),
            ("note", "100% of what c marks is marked by b, too."),
        ],
    ),
    "types that nobody marks": (
        {"types": ("X", "Y", "Z")},
        [("grave", "No source ever marks Y, Z.")],
    ),
    "one source": (
        {"votes": {"a": ALL}},
        [("grave", "There is one source only: nothing to compare it with.")],
    ),
    "sources that never meet": (
        {"votes": {"a": words(range(50)), "b": words(range(50, 100))}},
        [("grave", "No token has two opinions, so how good sources are is a guess.")],
    ),
    "a part of another": (
        {"votes": {"a": ALL, "b": words(range(60))}},
        [("note", "100% of what b marks is marked by a, too.")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_warning_shows_where_it_should_and_alone(name: str) -> None:
    given, expected = CASES[name]
    assert said(**given) == expected


def test_grave_matters_come_first() -> None:
    found = said(
        votes={"a": words(range(10)), "b": words()},
        gold=ALL,
        facts={"used_valid_gold": True},
        types=("X", "Y"),
        sure=0.6,
    )
    weights = [weight for weight, _ in found]
    assert weights == sorted(weights)  # "grave" stands before "note" in the alphabet, too
    assert weights.count("note") == 3
    # And among themselves: gold, scores, labels, sources.
    texts = [text.split()[0] for _, text in found]
    assert texts == ["90%", "These", "No", "No", "The", "Probabilities", "Fewer"]


def test_a_coarse_mark_is_a_mark_of_no_type() -> None:
    data = cv.Dataset.from_spans(
        ["X", "ENT"],
        [["w"]] * WORDS,
        {"a": [[(0, 1, "ENT")]] * 70 + [[]] * 30, "b": [[]] * 40 + [[(0, 1, "ENT")]] * 60},
    ).with_coarse({"ENT": "any"})
    found = alerts(summarize_run(Told(labels=np.ones(WORDS, np.int16)), data))
    assert [alert.text for alert in found] == ["No source ever marks X."]


def test_without_any_source() -> None:
    found = said(votes={}, gold=ALL)
    assert [text.split()[0] for _, text in found] == ["100%", "No", "No"]


def test_a_model_without_probabilities_has_no_account() -> None:
    class Unsure(Told):
        def predict(self, data: cv.Dataset) -> cv.Predictions:
            return cv.Predictions(data=data, labels=self.labels)

    data = cv.Dataset.from_spans(["X"], [["w"]], {})
    with pytest.raises(cv.DataError, match="told gives no probabilities"):
        summarize_run(Unsure(labels=np.zeros(1, np.int16)), data)
    with pytest.raises(cv.DataError, match="holds no token"):
        summarize_run(Told(labels=np.zeros(0, np.int16)), data[:0])
