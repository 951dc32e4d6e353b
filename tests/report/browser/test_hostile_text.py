"""Hostile text is shown as text."""

from __future__ import annotations

from pathlib import Path

import pytest

import convener as cv
from convener.report.html import render_report
from convener.report.run_summary import summarize_run
from tests.report.browser.conftest import Opener

SCRIPT = "<script>window.harm=1;alert(1)</script>"
SENTENCES = [
    [SCRIPT, "</script>", "<!--", "met", "Ada"],
    ['"quoted"', "'single'", "`tick`", "&amp;", "<b>bold</b>", "Ada"],
    ["<img/src=x/onerror=alert(1)>", "javascript:alert(1)", "{{7*7}}", "${1}", "Ada"],
    ["שלום", "עולם", "Ada", "مرحبا"],
    ["zero\u200bwidth", "\u202eevil\u202c", "\ufeffbom", "a\u0000b", "Ada"],
    ["", " ", "\n", "\t", "Ada"],
    ["🙂", "👩‍👩‍👧‍👦", "ﬁ", "é", "漢字", "Ada"],
    [],
    [f"word{number}" for number in range(1999)] + ["Ada"],
]
NASTY = ('<i onmouseover="alert(1)">', "'\"><script>harm()</script>")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind, source = NASTY
    marks = [[(len(words) - 1, len(words), kind)] if words else [] for words in SENTENCES]
    data = cv.Dataset.from_spans([kind], SENTENCES, {source: marks, "second": marks}, gold=marks, unmarked="abstain")
    model = cv.MajorityVote().fit(data)
    path = tmp_path_factory.mktemp("hostile") / "report.html"
    path.write_text(render_report(summarize_run(model, data, title=SCRIPT)), encoding="utf-8")
    return path


def test_markup_is_shown_as_text(opened: Opener, hostile: Path) -> None:
    tab = opened(hostile)
    assert tab.evaluate("window.harm") is None
    assert tab.locator("h1").inner_text() == SCRIPT
    assert tab.locator("#s-0 .word").first.inner_text() == SCRIPT
    for number in (1, 2):
        shown = tab.locator(f"#s-{number} .word").all_inner_texts()
        assert shown == SENTENCES[number]
    assert tab.locator("#s-0 .source th").first.inner_text() == NASTY[1]
    assert tab.locator("#s-0 .mark").first.inner_text().startswith(NASTY[0][:4])
    assert tab.locator("main script, main img, main i[onmouseover]").count() == 0


def test_hidden_characters_are_shown(opened: Opener, hostile: Path) -> None:
    tab = opened(hostile)
    shown = tab.locator("#s-4 .word").all_inner_texts()
    assert shown == ["zeroU+200Bwidth", "U+202EevilU+202C", "U+FEFFbom", "aU+0000b", "Ada"]
    assert tab.locator("#s-5 .word").all_inner_texts() == ["∅", "␣", "␣", "␣", "Ada"]


def test_right_to_left_text(opened: Opener, hostile: Path) -> None:
    tab = opened(hostile)
    assert tab.locator("#s-3 table").first.get_attribute("dir") == "rtl"
    assert tab.locator("#s-1 table").first.get_attribute("dir") == "ltr"
    boxes = [word.bounding_box() for word in tab.locator("#s-3 .word").all()]
    assert [box["x"] for box in boxes] == sorted((box["x"] for box in boxes), reverse=True)


def test_a_long_sentence_is_shown_completely(opened: Opener, hostile: Path) -> None:
    tab = opened(hostile)
    item = tab.locator("#s-8")
    assert item.locator(".word").count() < 2000
    item.get_by_role("button").click()
    words = item.locator(".word").all_inner_texts()
    assert words == SENTENCES[8]
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_empty_sentence_has_a_note(opened: Opener, hostile: Path) -> None:
    assert "empty sentence" in opened(hostile).locator("#s-7").inner_text()
