"""The page that compares models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import convener as cv
from convener.data.predictions import Predictions
from convener.errors import ConfigError
from convener.evaluation.evaluation import compare_predictions, evaluate
from convener.evaluation.metrics import score_spans
from convener.report.comparison import render_comparison
from convener.report.run_summary import RunSummary
from tests.report.fake_model import FakeModel
from tests.report.html_reader import Page, parse_page
from tests.report.test_html_content import KINDS, percent

PredictionsByName = dict[str, Predictions]


@pytest.fixture(scope="module")
def predictions(hmm: RunSummary) -> PredictionsByName:
    voted = cv.MajorityVote().fit(hmm.data).predict(hmm.data)
    return {"hmm": hmm.predictions, "vote": voted, "copy": hmm.predictions}


@pytest.fixture(scope="module")
def compared(hmm: RunSummary, predictions: PredictionsByName) -> Page:
    return parse_page(render_comparison(hmm.data, predictions))


def test_scores_are_those_of_evaluate(hmm: RunSummary, predictions: PredictionsByName, compared: Page) -> None:
    head, *rows = compared.tables["Models"]
    assert head == [
        "model",
        "precision",
        "recall",
        "F1",
        "entities",
        "mean probability",
        "uses gold",
    ]
    assert [row[0] for row in rows] == [*predictions, "majority vote (IO)"]
    for row, item in zip(rows, predictions.values(), strict=False):
        found = evaluate(item, hmm.data)
        assert row[1:4] == [percent(x) for x in (found.precision, found.recall, found.f1)]
        assert row[4] == str(len(item.spans))
        assert row[5] == f"{item.spans.score.mean():.2f}"
        assert row[6] == "no"
    vote = evaluate(hmm.predictions, hmm.data).majority_vote.micro
    assert rows[-1][1:] == [
        *map(percent, (vote.precision, vote.recall, vote.f1)),
        str(vote.predicted),
        "-",
        "no",
    ]


def test_f1_by_type(hmm: RunSummary, predictions: PredictionsByName, compared: Page) -> None:
    head, *rows = compared.tables["F1 by type"]
    assert head[1:] == list(hmm.data.tags.types)
    for row, (name, item) in zip(rows, predictions.items(), strict=True):
        figures = evaluate(item, hmm.data).per_type.values()
        assert row == [name, *(percent(kind["f1"]) for kind in figures)]


def test_differences_refer_to_the_first_model(hmm: RunSummary, predictions: PredictionsByName, compared: Page) -> None:
    rows = compared.tables["Difference to hmm"][1:]
    assert [row[0] for row in rows] == ["vote", "copy"]
    found = compare_predictions(predictions["vote"], predictions["hmm"], hmm.data).f1
    assert rows[0][1:4] == [f"{100 * part:+.2f}" for part in found]
    assert rows[0][4] == ("yes" if found.low > 0 or found.high < 0 else "no")
    assert rows[1] == ["copy", "+0.00", "+0.00", "+0.00", "no"]


def test_agreement_is_f1_of_one_model_against_another(
    hmm: RunSummary, predictions: PredictionsByName, compared: Page
) -> None:
    types = hmm.data.tags.types
    expected = score_spans(predictions["vote"].spans, predictions["hmm"].spans, types).micro.f1
    shown = compared.texts("text", "value")  # of the only heatmap
    like = f"{expected:.2f}".removeprefix("0")
    assert shown == [like, "1", like, like, "1", like]


def test_records_contain_spans_of_every_model(hmm: RunSummary, predictions: PredictionsByName, compared: Page) -> None:
    tracks = compared.json("setup")["tracks"]
    assert tracks[:4] == [["model", name] for name in predictions] + [["gold", "gold"]]
    assert tracks[4] == ["vote", "majority vote"]
    num_differing = 0
    for record in compared.json("records"):
        spans = [{tuple(s[1:4]) for s in record["s"] if s[0] == track} for track in range(3)]
        assert spans[0] == spans[2]
        assert bool(record["f"] >> 6 & 1) == (spans[0] != spans[1])
        num_differing += spans[0] != spans[1]
    assert f"models differ ({num_differing})" in compared.texts("option")
    lead = f"3 models on {len(hmm.data)} sentences, {len(hmm.data.sources)} sources."
    assert compared.texts("p", "lead") == [lead]


def test_without_gold(hmm: RunSummary, predictions: PredictionsByName) -> None:
    found = parse_page(render_comparison(hmm.data.without_gold(), predictions, title="two"))
    assert set(found.tables) == {"Models"}
    rows = found.tables["Models"][1:]
    assert [row[:5] for row in rows] == [
        [name, "-", "-", "-", str(len(item.spans))] for name, item in predictions.items()
    ]
    assert any("no gold labels; scores are unavailable" in line for line in found.texts("p", "note"))
    assert found.texts("h1") == ["two"]
    assert not any(line.startswith("Calibration") for line in found.texts("figcaption"))


def test_models_that_use_gold_or_predict_nothing(hmm: RunSummary) -> None:
    nothing = Predictions(data=hmm.data, labels=np.zeros(len(hmm.data.tokens), np.int16))
    oracle = replace(hmm.predictions, uses_gold="train")
    found = parse_page(render_comparison(hmm.data, {"nothing": nothing, "oracle": oracle}))
    rows = {row[0]: row for row in found.tables["Models"][1:]}
    assert rows["nothing"][4:] == ["0", "-", "none"]
    assert rows["oracle"][6] == "train"


def test_fewer_than_two_models_are_refused(hmm: RunSummary) -> None:
    for predictions in ({}, {"one": hmm.predictions}):
        with pytest.raises(ConfigError, match=f"at least two models, got {len(predictions)}"):
            render_comparison(hmm.data, predictions)


@pytest.mark.parametrize("gold", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_page_of_every_kind_of_data(kind: str, gold: bool) -> None:
    data = KINDS[kind]
    if gold:
        data = data.with_gold(np.ones(len(data.tokens), np.int16))
    labels = [np.full(len(data.tokens), label, np.int16) for label in (0, 1)]
    predictions = {f"m{n}": FakeModel(labels=path).predict(data) for n, path in enumerate(labels)}
    found = parse_page(render_comparison(data, predictions))
    assert len(found.json("records")) == len(data)
    several = len(data.fine_tags.types) > 1
    assert ("F1 by type" in found.tables) == (gold and several)


def test_models_with_different_types() -> None:
    """Each model was fitted on different sources and knows only their types."""
    words = [["Ada", "in", "Oslo"]] * 3
    people = [[(0, 1, "PER")]] * 3
    places = [[(2, 3, "LOC")]] * 3
    one = cv.Dataset.from_spans(["PER"], words, {"p": people})
    both = cv.Dataset.from_spans(["LOC", "PER"], words, {"l": places, "p": people}, gold=[[*people[0], *places[0]]] * 3)
    predictions = {
        "one": FakeModel(labels=np.tile(np.array([1, 0, 0], np.int16), 3), confidence=0.6).predict(one),
        "both": FakeModel(labels=np.tile(np.array([3, 0, 1], np.int16), 3)).predict(both),
    }
    for shown in (both, one):
        found = parse_page(render_comparison(shown, predictions))
        types = found.json("setup")["types"]
        assert sorted(types) == ["LOC", "PER"]
        (record, *_) = found.json("records")
        spans = {(track, start, types[kind]) for track, start, _, kind, *_ in record["s"]}
        assert {span for span in spans if span[0] < 2} == {
            (0, 0, "PER"),
            (1, 0, "PER"),
            (1, 2, "LOC"),
        }
        entropy = -3 * (0.6 * np.log(0.6) + 2 * 0.2 * np.log(0.2))
        assert record["e"] == pytest.approx(entropy, abs=1e-3)
        assert set(found.texts("text", "value")) == {".67"}
    assert [row[1:4] for row in parse_page(render_comparison(both, predictions)).tables["Models"][1:3]] == [
        ["100.00%", "50.00%", "66.67%"],
        ["100.00%"] * 3,
    ]
