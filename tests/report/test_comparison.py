"""Several models on the same data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import convener as cv
from convener.data.predictions import USED_GOLD, Predictions
from convener.errors import ConfigError
from convener.evaluation.evaluation import compare_predictions, evaluate
from convener.evaluation.metrics import score_spans
from convener.report.comparison import render_comparison
from convener.report.run_summary import RunSummary
from tests.report.fake_model import Told
from tests.report.html_reader import Page, page_of
from tests.report.test_report_tables import KINDS, percent

Answers = dict[str, Predictions]


@pytest.fixture(scope="module")
def answers(hmm: RunSummary) -> Answers:
    voted = cv.MajorityVote().fit(hmm.data).predict(hmm.data)
    return {"chain": hmm.predictions, "vote": voted, "again": hmm.predictions}


@pytest.fixture(scope="module")
def compared(hmm: RunSummary, answers: Answers) -> Page:
    return page_of(render_comparison(hmm.data, answers))


def test_scores_are_those_of_evaluate(hmm: RunSummary, answers: Answers, compared: Page) -> None:
    head, *rows = compared.tables["Models"]
    assert head == [
        "model",
        "precision",
        "recall",
        "F1",
        "entities",
        "mean probability",
        "saw gold",
    ]
    assert [row[0] for row in rows] == [*answers, "majority vote (IO)"]
    for row, answer in zip(rows, answers.values(), strict=False):
        found = evaluate(answer, hmm.data)
        assert row[1:4] == [percent(x) for x in (found.precision, found.recall, found.f1)]
        assert row[4] == str(len(answer.spans))
        assert row[5] == f"{answer.spans.score.mean():.2f}"
        assert row[6] == "no"
    vote = evaluate(hmm.predictions, hmm.data).majority_vote.micro
    assert rows[-1][1:] == [
        *map(percent, (vote.precision, vote.recall, vote.f1)),
        str(vote.predicted),
        "-",
        "no",
    ]


def test_f1_by_type(hmm: RunSummary, answers: Answers, compared: Page) -> None:
    head, *rows = compared.tables["F1 by type"]
    assert head[1:] == list(hmm.data.tags.types)
    for row, (name, answer) in zip(rows, answers.items(), strict=True):
        figures = evaluate(answer, hmm.data).per_type.values()
        assert row == [name, *(percent(kind["f1"]) for kind in figures)]


def test_differences_are_against_the_first(hmm: RunSummary, answers: Answers, compared: Page) -> None:
    rows = compared.tables["Against chain"][1:]
    assert [row[0] for row in rows] == ["vote", "again"]
    found = compare_predictions(answers["vote"], answers["chain"], hmm.data).f1
    assert rows[0][1:4] == [f"{100 * part:+.2f}" for part in found]
    assert rows[0][4] == ("yes" if found.low > 0 or found.high < 0 else "no")
    assert rows[1] == ["again", "+0.00", "+0.00", "+0.00", "no"]


def test_agreement_is_f1_of_one_against_another(hmm: RunSummary, answers: Answers, compared: Page) -> None:
    types = hmm.data.tags.types
    expected = score_spans(answers["vote"].spans, answers["chain"].spans, types).micro.f1
    shown = compared.lines("text", "value")  # of the only heat map
    like = f"{expected:.2f}".removeprefix("0")
    assert shown == [like, "1", like, like, "1", like]


def test_sentences_hold_every_model(hmm: RunSummary, answers: Answers, compared: Page) -> None:
    lanes = compared.json("setup")["lanes"]
    assert lanes[:4] == [["model", name] for name in answers] + [["gold", "gold"]]
    assert lanes[4] == ["vote", "majority vote"]
    apart = 0
    for record in compared.json("records"):
        spans = [{tuple(s[1:4]) for s in record["s"] if s[0] == lane} for lane in range(3)]
        assert spans[0] == spans[2]
        assert bool(record["f"] >> 6 & 1) == (spans[0] != spans[1])
        apart += spans[0] != spans[1]
    assert f"models disagree ({apart})" in compared.lines("option")
    said = f"3 models on {len(hmm.data)} sentences, {len(hmm.data.sources)} sources."
    assert compared.lines("p", "lead") == [said]


def test_without_gold(hmm: RunSummary, answers: Answers) -> None:
    found = page_of(render_comparison(hmm.data.without_gold(), answers, title="two"))
    assert set(found.tables) == {"Models"}
    rows = found.tables["Models"][1:]
    assert [row[:5] for row in rows] == [
        [name, "-", "-", "-", str(len(answer.spans))] for name, answer in answers.items()
    ]
    assert any("no gold, so nothing to measure" in line for line in found.lines("p", "note"))
    assert found.lines("h1") == ["two"]
    assert not any(line.startswith("Calibration") for line in found.lines("figcaption"))


def test_a_model_that_saw_gold_and_one_that_finds_nothing(hmm: RunSummary) -> None:
    nothing = Predictions(data=hmm.data, labels=np.zeros(len(hmm.data.tokens), np.int16))
    knows = replace(hmm.predictions, settings={USED_GOLD: True})
    found = page_of(render_comparison(hmm.data, {"nothing": nothing, "knows": knows}))
    rows = {row[0]: row for row in found.tables["Models"][1:]}
    assert rows["nothing"][4:] == ["0", "-", "no"]
    assert rows["knows"][6] == "yes"


def test_one_model_is_no_comparison(hmm: RunSummary) -> None:
    for answers in ({}, {"one": hmm.predictions}):
        with pytest.raises(ConfigError, match=f"two models or more, got {len(answers)}"):
            render_comparison(hmm.data, answers)


@pytest.mark.parametrize("gold", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_data_has_a_page(kind: str, gold: bool) -> None:
    data = KINDS[kind]
    if gold:
        data = data.with_gold(np.ones(len(data.tokens), np.int16))
    labels = [np.full(len(data.tokens), label, np.int16) for label in (0, 1)]
    answers = {f"m{n}": Told(labels=path).predict(data) for n, path in enumerate(labels)}
    found = page_of(render_comparison(data, answers))
    assert len(found.json("records")) == len(data)
    several = len(data.fine_tags.types) > 1
    assert ("F1 by type" in found.tables) == (gold and several)


def test_models_that_know_other_types() -> None:
    """Each was fitted on sources of its own, whose types are all it knows."""
    words = [["Ada", "in", "Oslo"]] * 3
    people = [[(0, 1, "PER")]] * 3
    places = [[(2, 3, "LOC")]] * 3
    one = cv.Dataset.from_spans(["PER"], words, {"p": people})
    both = cv.Dataset.from_spans(["LOC", "PER"], words, {"l": places, "p": people}, gold=[[*people[0], *places[0]]] * 3)
    answers = {
        "one": Told(labels=np.tile(np.array([1, 0, 0], np.int16), 3), sure=0.6).predict(one),
        "both": Told(labels=np.tile(np.array([3, 0, 1], np.int16), 3)).predict(both),
    }
    for shown in (both, one):
        found = page_of(render_comparison(shown, answers))
        types = found.json("setup")["types"]
        assert sorted(types) == ["LOC", "PER"]
        (record, *_) = found.json("records")
        spans = {(lane, start, types[kind]) for lane, start, _, kind, *_ in record["s"]}
        assert {span for span in spans if span[0] < 2} == {
            (0, 0, "PER"),
            (1, 0, "PER"),
            (1, 2, "LOC"),
        }
        entropy = -3 * (0.6 * np.log(0.6) + 2 * 0.2 * np.log(0.2))
        assert record["e"] == pytest.approx(entropy, abs=1e-3)
        assert set(found.lines("text", "value")) == {".67"}
    assert [row[1:4] for row in page_of(render_comparison(both, answers)).tables["Models"][1:3]] == [
        ["100.00%", "50.00%", "66.67%"],
        ["100.00%"] * 3,
    ]
