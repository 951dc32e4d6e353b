"""Content of the page: with and without gold, and for every kind of data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import convener as cv
from convener.evaluation.evaluation import evaluate
from convener.report.html import MAX_RECOMMENDATIONS, estimate_table, recommendation_table, render_report
from convener.report.recommendations import Recommendation
from convener.report.run_summary import RunSummary, summarize_run
from tests.report.fake_model import FakeModel
from tests.report.html_reader import Page, parse_page


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


def page(summary: RunSummary) -> Page:
    return parse_page(render_report(summary))


# With gold


def test_scores_are_those_of_evaluate(vote: RunSummary) -> None:
    found = page(vote)
    expected = evaluate(vote.predictions, vote.data)
    assert expected.scores is not None
    assert expected.majority_vote is not None
    head, ours, theirs = found.tables["Entity-level scores, conlleval mode"]
    assert [name.strip() for name in head] == [
        "",
        "precision",
        "recall",
        "F1",
        "macro F1",
        "gold spans",
    ]
    for row, scores in ((ours, expected.scores), (theirs, expected.majority_vote)):
        micro = scores.micro
        figures = (micro.precision, micro.recall, micro.f1, scores.macro_f1)
        assert row[1:] == [*map(percent, figures), str(micro.gold)]
    by_type = found.tables["majority-vote by entity type, conlleval mode"][1:]
    assert by_type == [
        [name, *(percent(row[key]) for key in ("precision", "recall", "f1")), str(row["support"])]
        for name, row in expected.per_type.items()
    ]


def test_tiles(vote: RunSummary, hmm: RunSummary, no_gold: RunSummary) -> None:
    tiles = page(hmm).texts("div", "tile")
    assert tiles[0] == f"Sentences{len(hmm.data)}{len(hmm.data.tokens):,} tokens"
    micro, rival = hmm.evaluation.scores.micro, hmm.evaluation.majority_vote.micro
    gap = 100 * (micro.f1 - rival.f1)
    assert tiles[2] == f"F1{100 * micro.f1:.1f}{gap:+.1f} vs. majority vote"
    assert f"majority vote: {rival.predicted}" in tiles[1]
    assert tiles[3] == f"Source conflicts{hmm.sentence_index.counts()['source_conflict']}sentences"
    best = max(hmm.estimates, key=lambda item: item.f1.value)
    assert tiles[4] == f"Best source{best.source}estimated F1 {100 * best.f1.value:.0f}"
    mean = float(no_gold.predictions.spans.score.mean())
    assert page(no_gold).texts("div", "tile")[2] == f"Mean probability{mean:.2f}of predicted entities"


def test_sections_of_an_hmm(hmm: RunSummary) -> None:
    found = page(hmm)
    captions = found.texts("figcaption")
    assert any(line.startswith("EM: loss From") for line in captions)
    assert sum(line.startswith("gold") for line in captions) == len(hmm.diagnostics.sources)
    assert any(line.startswith("Type confusion") for line in captions)
    assert any(line.startswith("Calibration Expected") for line in captions)
    assert "of train," in found.texts("p", "lead")[0]
    assert found.texts("p", "lead")[0].endswith("with gold labels.")
    assert any("Initial: before training; learned: after training" in line for line in found.texts("p"))


def test_sources_are_those_of_analyze(vote: RunSummary) -> None:
    rows = page(vote).tables["Sources (entity-level scores, conlleval mode)"][1:]
    assert [row[0] for row in rows] == list(vote.data.sources)
    for row, source in zip(rows, vote.analysis.sources, strict=True):
        assert row[3] == str(source.spans)
        assert row[-1] == percent(source.score.f1)


def test_table_of_estimates(vote: RunSummary) -> None:
    table = estimate_table(vote)
    assert table.columns[-1] == "true F1"
    for row, item in zip(table.rows, vote.estimates, strict=True):
        assert row[:3] == (item.source, item.type, item.num_spans)
        value, low, high = (round(100 * part) for part in item.f1)
        assert row[5] == f"{value} [{low}, {high}]"
        assert row[6] == item.gold_score.f1
    assert page(vote).tables[table.title][1:] == table.formatted_rows()


# Without gold


def test_without_gold_there_are_no_scores(no_gold: RunSummary) -> None:
    found = page(no_gold)
    assert not any(caption.startswith("Entity-level") for caption in found.tables)
    types = no_gold.data.tags.types
    spans = no_gold.predictions.spans
    voted = no_gold.data.tags.spans(no_gold.vote_labels, no_gold.data.offsets)
    assert found.tables["Predicted entities"][1:] == [
        [name, str((spans.type == n).sum()), str((voted.type == n).sum())] for n, name in enumerate(types)
    ]
    assert "true F1" not in found.tables["Estimated quality of sources by type"][0]
    assert any("No gold labels: calibration" in line for line in found.texts("p"))
    assert not any(option.startswith("errors against gold") for option in found.texts("option"))
    assert found.texts("p", "lead")[0].endswith("16 sources, no gold labels.")
    assert "true gain" not in recommendation_table(no_gold).columns


# Recommendations


def recommendation(source: str, gain: float, **overrides: object) -> Recommendation:
    defaults = {
        "type": "PER",
        "num_spans": 5,
        "expected_false_positives": 1.4,
        "expected_misses": 2.6,
        "gold_f1_gain": None,
        "examples": (),
    }
    return Recommendation(source=source, f1_gain=gain, **(defaults | overrides))


def test_recommendations_are_ordered_by_gain_with_new_sources_apart(no_gold: RunSummary) -> None:
    listed = [recommendation(f"s{number:02}", 0.5 - number / 100) for number in range(MAX_RECOMMENDATIONS + 3)]
    small = recommendation("small", 0.0004)
    new_source = recommendation("", 0.1, expected_misses=7.2, examples=(("Oslo", 2), ("Rome", 1)))
    summary = replace(no_gold, recommendations=(*listed, new_source, small))
    found = page(summary)
    items = [line for line in found.texts("li") if "expected false positives," in line]
    assert [line.split()[0] for line in items] == [f"s{n:02}" for n in range(MAX_RECOMMENDATIONS)]
    assert items[0] == "s00 PER +50.00 5 spans, 1 expected false positives, 3 expected misses"
    (alone,) = [line for line in found.texts("li") if "entities +" in line]
    assert alone.startswith("PER about 7 entities +10.00")
    assert alone.endswith("Oslo ×2, Rome")
    table = recommendation_table(summary)
    assert [row[0] for row in table.rows] == [item.source for item in listed] + ["(new source)"]
    assert table.rows[0][3:6] == (1, 3, pytest.approx(50.0))
    assert table.rows[-1][-1] == "Oslo, Rome"


def test_the_gain_computed_from_gold_is_in_brackets(vote: RunSummary) -> None:
    summary = replace(
        vote,
        recommendations=(recommendation("a", 0.02, gold_f1_gain=0.031), recommendation("", 0.01, gold_f1_gain=-0.002)),
    )
    found = page(summary)
    (first,) = [line for line in found.texts("li") if "expected false positives," in line]
    assert "+2.00 (+3.10)" in first
    assert any("+1.00 (-0.20)" in line for line in found.texts("li"))
    assert [row[6] for row in recommendation_table(summary).rows] == pytest.approx([3.1, -0.2])


def test_without_recommendations(no_gold: RunSummary) -> None:
    found = page(replace(no_gold, recommendations=()))
    assert any(line.startswith("No recommendation") for line in found.texts("li"))
    assert "Missed by all sources" not in found.texts("h3")


# Configuration, explanation, similar sources


def test_configuration(toy: cv.Dataset) -> None:
    run_info = {"split": "test", "versions": {"numpy": "2"}, "sources": ["x"], "explanation": ["y"]}
    model = FakeModel(labels=np.zeros(len(toy.tokens), np.int16), settings={"seed": 3}, explanation=("so be it",))
    found = page(summarize_run(model, toy, run_info=run_info))
    rows = dict(found.tables["Settings"][1:])
    assert rows == {"model": "fake", "split": "test", "versions": "numpy 2", "seed": "3"}
    assert "Model selection" in found.texts("h3")
    assert "so be it" in found.texts("li")


def test_similar_sources_are_listed() -> None:
    marks = [[(0, 1, "X")]] * 30
    data = cv.Dataset.from_spans(
        ["X"],
        [["a", "b"]] * 30,
        {"a": marks, "b": [*marks[:20], *[[]] * 10], "c": [[(1, 2, "X")]] * 30},
    )
    summary = summarize_run(FakeModel(labels=np.tile(np.array([1, 0], np.int16), 30)), data)
    rows = page(summary).tables["Similar sources"][1:]
    assert rows == [["a", "b", percent(2 * 20 / 50)]]
    assert any("counted against its posterior" in line for line in page(summary).texts("p"))


def test_a_model_that_uses_gold_is_flagged(vote: RunSummary) -> None:
    predictions = replace(vote.predictions, uses_gold="train")
    summary = replace(vote, predictions=predictions, evaluation=evaluate(predictions, vote.data))
    assert any("uses gold labels: an upper bound" in line for line in page(summary).texts("li", "warning"))


# Every kind of data

X, Y = (0, 1, "X"), (1, 3, "Y")
WORDS = [["a", "b", "c"], ["d"], [], ["e", "f", "g"]]
KINDS: dict[str, cv.Dataset] = {
    "one type": cv.Dataset.from_spans(["X"], WORDS, {"s": [[X], [], [], []], "t": [[X]] * 2 + [[]] * 2}),
    "two types": cv.Dataset.from_spans(["X", "Y"], WORDS, {"s": [[X, Y], [X], [], [Y]]}),
    "one that abstains": cv.Dataset.from_spans(
        ["X", "Y"], WORDS, {"s": [[X], [X], [], [Y]], "t": [None, [X], None, None]}
    ),
    "one whose O is a vote": cv.Dataset.from_spans(
        ["X"], WORDS, {"s": [[X], [X], [], []], "t": [None, [], [], [X]]}, unmarked="outside"
    ),
    "one that marks nothing": cv.Dataset.from_spans(["X"], WORDS, {"s": [[X], [X], [], []], "t": [[]] * 4}),
    "no span": cv.Dataset.from_spans(["X", "Y"], WORDS, {"s": [[]] * 4, "t": [[]] * 4}),
    "no vote": cv.Dataset.from_spans(["X"], WORDS, {"s": [None] * 4}),
    "no source": cv.Dataset.from_spans(["X", "Y"], WORDS, {}),
    "one word": cv.Dataset.from_spans(["X"], [["a"]], {"s": [[X]]}),
    "coarse": cv.Dataset.from_spans(
        ["X", "Y", "ENT", "NOT-X"],
        WORDS,
        {
            "s": [[X, (1, 3, "ENT")], [(0, 1, "ENT")], [], []],
            "only": [[(0, 1, "NOT-X")], [(0, 1, "ENT")], [], []],
        },
    ).with_coarse({"ENT": "any", "NOT-X": "not X"}),
    "types called model and type": cv.Dataset.from_spans(
        ["model", "type"], WORDS, {"s": [[(0, 1, "model")], [(0, 1, "type")], [], []]}
    ),
}


@pytest.mark.parametrize("finds", ["nothing", "all"])
@pytest.mark.parametrize("gold", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_page_of_every_kind_of_data(kind: str, gold: bool, finds: str) -> None:
    data = KINDS[kind]
    labels = np.full(len(data.tokens), 0 if finds == "nothing" else 1, np.int16)
    if gold:
        data = data.with_gold(np.ones(len(data.tokens), np.int16))
    summary = summarize_run(FakeModel(labels=labels), data)
    found = page(summary)
    assert len(found.json("records")) == len(data)
    assert not any("nan" in line for line in found.texts("td"))
    assert [row[0] for row in estimate_table(summary).rows] == [item.source for item in summary.estimates]
    for name in ("lead", "tiles", "list"):
        assert any(name in x.attributes.get("class", "").split() for x in found.elements)


@pytest.mark.filterwarnings("ignore:hmm. on this data it is probably worse than a simple vote")
def test_page_of_an_hmm_with_coarse_votes() -> None:
    data = cv.Dataset.concat([KINDS["coarse"]] * 10)
    summary = summarize_run(cv.get_model("hmm")(max_iter=2).fit(data), data)
    found = page(summary)
    assert found.json("setup")["types"] == ["X", "Y", "ENT", "NOT-X"]
    assert {row[1] for row in estimate_table(summary).rows} == {"X"}
