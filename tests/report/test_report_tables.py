"""What a page says: with and without gold, and of data of every kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import convener as cv
from convener.data.predictions import USED_GOLD
from convener.evaluation.evaluation import evaluate
from convener.report.html import MAX_RECOMMENDATIONS, estimate_table, recommendation_table, render_report
from convener.report.recommendations import Recommendation
from convener.report.run_summary import RunSummary, summarize_run
from tests.report.fake_model import Told
from tests.report.html_reader import Page, page_of


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


def told(account: RunSummary) -> Page:
    return page_of(render_report(account))


# With gold


def test_scores_are_those_of_evaluate(vote: RunSummary) -> None:
    found = told(vote)
    expected = evaluate(vote.predictions, vote.data)
    assert expected.scores is not None
    assert expected.majority_vote is not None
    head, ours, theirs = found.tables["Entity-level scores, lenient mode"]
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
    by_type = found.tables["majority-vote by entity type, lenient mode"][1:]
    assert by_type == [
        [name, *(percent(row[key]) for key in ("precision", "recall", "f1")), str(row["support"])]
        for name, row in expected.per_type.items()
    ]


def test_tiles(vote: RunSummary, hmm: RunSummary, no_gold: RunSummary) -> None:
    tiles = told(hmm).lines("div", "tile")
    assert tiles[0] == f"Sentences{len(hmm.data)}{len(hmm.data.tokens):,} tokens"
    micro, rival = hmm.evaluation.scores.micro, hmm.evaluation.majority_vote.micro
    gap = 100 * (micro.f1 - rival.f1)
    assert tiles[2] == f"F1{100 * micro.f1:.1f}{gap:+.1f} to majority vote"
    assert f"majority vote: {rival.predicted}" in tiles[1]
    assert tiles[3] == f"Sources disagree{hmm.sentence_index.counts()['disagreement']}sentences"
    best = max(hmm.estimates, key=lambda item: item.f1.value)
    assert tiles[4] == f"Best source{best.source}F1 about {100 * best.f1.value:.0f}"
    mean = float(no_gold.predictions.spans.score.mean())
    assert told(no_gold).lines("div", "tile")[2] == f"Mean probability{mean:.2f}of the entities found"


def test_sections_of_a_chain(hmm: RunSummary) -> None:
    found = told(hmm)
    captions = found.lines("figcaption")
    assert any(line.startswith("EM: loss From") for line in captions)
    assert sum(line.startswith("truth") for line in captions) == len(hmm.diagnostics.sources)
    assert any(line.startswith("Types confused") for line in captions)
    assert any(line.startswith("Calibration Expected") for line in captions)
    assert "of train," in found.lines("p", "lead")[0]
    assert found.lines("p", "lead")[0].endswith("with gold beside them.")
    assert any("Start: before training; final: as learned" in line for line in found.lines("p"))


def test_sources_are_those_of_analyze(vote: RunSummary) -> None:
    rows = told(vote).tables["Sources (entity-level scores, lenient)"][1:]
    assert [row[0] for row in rows] == list(vote.data.sources)
    for row, source in zip(rows, vote.analysis.sources, strict=True):
        assert row[2] == str(source.spans)
        assert row[-1] == percent(source.score.f1)


def test_the_estimates_in_figures(vote: RunSummary) -> None:
    table = estimate_table(vote)
    assert table.columns[-1] == "true F1"
    for row, item in zip(table.rows, vote.estimates, strict=True):
        assert row[:3] == (item.source, item.type, item.num_spans)
        value, low, high = (round(100 * part) for part in item.f1)
        assert row[5] == f"{value} [{low}, {high}]"
        assert row[6] == item.gold_score.f1
    assert told(vote).tables[table.title][1:] == table.formatted_rows()


# Without gold


def test_without_gold_nothing_is_measured(no_gold: RunSummary) -> None:
    found = told(no_gold)
    assert not any(caption.startswith("Entity-level") for caption in found.tables)
    types = no_gold.data.tags.types
    spans = no_gold.predictions.spans
    voted = no_gold.data.tags.spans(no_gold.vote_labels, no_gold.data.offsets)
    assert found.tables["Entities found"][1:] == [
        [name, str((spans.type == n).sum()), str((voted.type == n).sum())] for n, name in enumerate(types)
    ]
    assert "true F1" not in found.tables["Sources by type, as the model sees them"][0]
    assert any("There is no gold here" in line for line in found.lines("p"))
    assert not any(option.startswith("errors by gold") for option in found.lines("option"))
    assert found.lines("p", "lead")[0].endswith("10 sources, no gold.")
    assert "true gain" not in recommendation_table(no_gold).columns


# Fix next


def fix(source: str, gain: float, **more: object) -> Recommendation:
    given = {
        "type": "PER",
        "num_spans": 5,
        "expected_false_positives": 1.4,
        "expected_misses": 2.6,
        "gold_f1_gain": None,
        "examples": (),
    }
    return Recommendation(source=source, f1_gain=gain, **(given | more))


def test_fixes_are_listed_by_gain_and_what_nobody_marks_apart(no_gold: RunSummary) -> None:
    listed = [fix(f"s{number:02}", 0.5 - number / 100) for number in range(MAX_RECOMMENDATIONS + 3)]
    little = fix("little", 0.0004)
    nobody = fix("", 0.1, expected_misses=7.2, examples=(("Oslo", 2), ("Rome", 1)))
    account = replace(no_gold, recommendations=(*listed, nobody, little))
    found = told(account)
    items = [line for line in found.lines("li") if "wrong and" in line]
    assert [line.split()[0] for line in items] == [f"s{n:02}" for n in range(MAX_RECOMMENDATIONS)]
    assert items[0] == "s00 PER +50.00 1 wrong and 3 lost of 5 marks"
    (alone,) = [line for line in found.lines("li") if "entities +" in line]
    assert alone.startswith("PER about 7 entities +10.00")
    assert alone.endswith("Oslo ×2, Rome")
    table = recommendation_table(account)
    assert [row[0] for row in table.rows] == [item.source for item in listed] + ["(a new source)"]
    assert table.rows[0][3:6] == (1, 3, pytest.approx(50.0))
    assert table.rows[-1][-1] == "Oslo, Rome"


def test_the_gain_by_gold_stands_in_brackets(vote: RunSummary) -> None:
    account = replace(vote, recommendations=(fix("a", 0.02, gold_f1_gain=0.031), fix("", 0.01, gold_f1_gain=-0.002)))
    found = told(account)
    (first,) = [line for line in found.lines("li") if "wrong and" in line]
    assert "+2.00 (+3.10)" in first
    assert any("+1.00 (-0.20)" in line for line in found.lines("li"))
    assert [row[6] for row in recommendation_table(account).rows] == pytest.approx([3.1, -0.2])


def test_where_nothing_stands_out(no_gold: RunSummary) -> None:
    found = told(replace(no_gold, recommendations=()))
    assert any(line.startswith("Nothing stands out") for line in found.lines("li"))
    assert "What nobody marks" not in found.lines("h3")


# Settings, reasons, pairs


def test_settings_and_circumstances(toy: cv.Dataset) -> None:
    facts = {"split": "test", "versions": {"numpy": "2"}, "sources": ["x"], "why": ["y"]}
    model = Told(labels=np.zeros(len(toy.tokens), np.int16), settings={"seed": 3}, reasons=("so be it",))
    found = told(summarize_run(model, toy, run_info=facts))
    rows = dict(found.tables["Settings"][1:])
    assert rows == {"model": "told", "split": "test", "versions": "numpy 2", "seed": "3"}
    assert "Why this model" in found.lines("h3")
    assert "so be it" in found.lines("li")


def test_sources_that_mark_much_the_same_are_named() -> None:
    marks = [[(0, 1, "X")]] * 30
    data = cv.Dataset.from_spans(
        ["X"],
        [["a", "b"]] * 30,
        {"a": marks, "b": [*marks[:20], *[[]] * 10], "c": [[(1, 2, "X")]] * 30},
    )
    account = summarize_run(Told(labels=np.tile(np.array([1, 0], np.int16), 30)), data)
    rows = told(account).tables["Sources that mark much the same"][1:]
    assert rows == [["a", "b", percent(2 * 20 / 50)]]
    assert any("Counted against the model's posterior" in line for line in told(account).lines("p"))


def test_a_model_that_saw_gold_says_so(vote: RunSummary) -> None:
    answer = replace(vote.predictions, settings={USED_GOLD: True})
    account = replace(vote, predictions=answer, evaluation=evaluate(answer, vote.data))
    assert any("saw gold: a reference" in line for line in told(account).lines("li", "grave"))


# Data of every kind

X, Y = (0, 1, "X"), (1, 3, "Y")
WORDS = [["a", "b", "c"], ["d"], [], ["e", "f", "g"]]
KINDS: dict[str, cv.Dataset] = {
    "one type": cv.Dataset.from_spans(["X"], WORDS, {"s": [[X], [], [], []], "t": [[X]] * 2 + [[]] * 2}),
    "two types": cv.Dataset.from_spans(["X", "Y"], WORDS, {"s": [[X, Y], [X], [], [Y]]}),
    "one that abstains": cv.Dataset.from_spans(
        ["X", "Y"], WORDS, {"s": [[X], [X], [], [Y]], "t": [None, [X], None, None]}
    ),
    "one that opines": cv.Dataset.from_spans(
        ["X"], WORDS, {"s": [[X], [X], [], []], "t": [None, [], [], [X]]}, silence="abstain"
    ),
    "one that marks nothing": cv.Dataset.from_spans(["X"], WORDS, {"s": [[X], [X], [], []], "t": [[]] * 4}),
    "no mark": cv.Dataset.from_spans(["X", "Y"], WORDS, {"s": [[]] * 4, "t": [[]] * 4}),
    "no opinion": cv.Dataset.from_spans(["X"], WORDS, {"s": [None] * 4}),
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
def test_every_kind_of_data_has_a_page(kind: str, gold: bool, finds: str) -> None:
    data = KINDS[kind]
    labels = np.full(len(data.tokens), 0 if finds == "nothing" else 1, np.int16)
    if gold:
        data = data.with_gold(np.ones(len(data.tokens), np.int16))
    account = summarize_run(Told(labels=labels), data)
    found = told(account)
    assert len(found.json("records")) == len(data)
    assert not any("nan" in line for line in found.lines("td"))
    assert [row[0] for row in estimate_table(account).rows] == [item.source for item in account.estimates]
    for name in ("lead", "tiles", "list"):
        assert any(name in x.attributes.get("class", "").split() for x in found.elements)


def test_the_chain_hears_coarse_marks_and_has_a_page() -> None:
    data = cv.Dataset.concat([KINDS["coarse"]] * 10)
    account = summarize_run(cv.get_model("hmm")(steps=2).fit(data), data)
    found = told(account)
    assert found.json("setup")["types"] == ["X", "Y", "ENT", "NOT-X"]
    assert {row[1] for row in estimate_table(account).rows} == {"X"}
