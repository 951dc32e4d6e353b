"""Pages are safe: whatever stands in the data is shown as text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener.data.tables import Table
from convener.errors import MissingDependencyError
from convener.report import write_report
from convener.report.comparison import render_comparison
from convener.report.html import (
    content_security_policy,
    embedded_sentences,
    fit_axis,
    render_report,
    table_cells,
    template_environment,
    to_script_json,
    type_hue,
)
from convener.report.run_summary import RunSummary, summarize_run
from tests.report.fake_model import Told
from tests.report.html_reader import Page, page_of

texts = st.text(st.characters(exclude_categories=()), max_size=8)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts
    | st.sampled_from(["</script>", "<!--", "]]>", "\u2028", "\ud800", "\udfff<"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


@given(values)
def test_embedded_values_survive_and_end_nothing(value: Any) -> None:
    text = to_script_json(value)
    assert "<" not in text
    assert json.loads(text) == value
    text.encode("utf-8")


def test_embedded_text_is_not_longer_than_it_must() -> None:
    assert to_script_json(["é🙂"]) == '["é🙂"]'
    assert to_script_json(["é", "\ud800"]) == '["\\u00e9","\\ud800"]'
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_script_json([float("nan")])


# Text that would like to be more than text

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "</style><img src=x onerror=alert(3)>",
    '" onload="alert(4)',
    "' onmouseover='alert(5)",
    "{{ 7 * 7 }}{% raw %}",
    "<!-- <script> -->",
    "&lt;b&gt;&#60;",
    "\u202eright to left\u202c",
    "שלום",
    "zero\u200bwidth\ufeff",
    "👩‍🔬🙂",
    "\x00\x1b[31m",
    "line\nbreak\u2028",
    "\ud800",
    "x" * 3000,
]
TYPES = ["<b>PER</b>", '"><svg onload=alert(6)>', "{{ config }}"]
SOURCES = ["<script>s()</script>", '" autofocus onfocus="x', "</select>\u202e", "плохой 🙂"]
TITLE = "</title><script>alert('title')</script>"
MODEL = "<iframe src=javascript:alert(7)>"


def hostile(*, gold: bool = True) -> tuple[Told, cv.Dataset]:
    tokens = [[word, "and", word] for word in HOSTILE] + [[], ["w"] * 2000]
    kinds = [TYPES[number % 3] for number in range(len(tokens))]
    marks = [[(0, 1, kind)] if words else [] for words, kind in zip(tokens, kinds, strict=True)]
    other = [[(0, 3, TYPES[0])] if words else [] for words in tokens]
    votes = {SOURCES[0]: marks, SOURCES[1]: other, SOURCES[2]: [[]] * len(tokens)}
    votes[SOURCES[3]] = [None if number % 2 else m for number, m in enumerate(marks)]
    data = cv.Dataset.from_spans(TYPES, tokens, votes, gold=marks if gold else None)
    labels = data.votes[:, 1].copy()
    reasons = ("<u>because</u>",)
    settings = {"<i>": "</details><script>x</script>", "nested": {"<a>": "<b>"}}
    model = Told(labels=labels, sure=0.6, name=MODEL, settings=settings, reasons=reasons)
    return model, data


def account(*, gold: bool = True) -> RunSummary:
    model, data = hostile(gold=gold)
    facts = {"split": "<s>", "reported": "<em>now</em>"}
    return summarize_run(model, data, title=TITLE, run_info=facts)


def pages() -> dict[str, str]:
    told = account()
    other = replace(told.predictions, labels=np.zeros_like(told.predictions.labels))
    pair = {MODEL: told.predictions, SOURCES[1]: other}
    return {
        "report": render_report(told),
        "without gold": render_report(account(gold=False)),
        "viewer": render_report(told, remote=True),
        "comparison": render_comparison(told.data, pair, title=TITLE),
        "comparison without gold": render_comparison(told.data.without_gold(), pair, title=TITLE),
    }


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


KINDS = ["report", "without gold", "viewer", "comparison", "comparison without gold"]


@pytest.fixture(params=KINDS)
def written(request: pytest.FixtureRequest, made: dict[str, str]) -> str:
    return made[request.param]


def test_the_only_scripts_are_ours(written: str) -> None:
    found = page_of(written)
    scripts = found.of("script")
    data = [script for script in scripts if script.attributes.get("type") == "application/json"]
    names = [script.attributes["id"] for script in data]
    assert names in (["setup", "records"], ["setup"])
    (ours,) = [script for script in scripts if script not in data]
    assert ours.attributes == {}
    source = resources.files("convener.report") / "static" / "report.js"
    assert ours.text == source.read_text(encoding="utf-8")
    assert len(found.of("style")) == 1


def test_no_attribute_runs_anything(written: str) -> None:
    for element in page_of(written).elements:
        assert element.tag not in ("iframe", "object", "embed", "img", "link", "base")
        for name, value in element.attributes.items():
            assert not name.startswith("on"), (element.tag, name)
            assert name not in ("srcdoc", "autofocus"), (element.tag, name)
            assert "javascript:" not in value or name in ("title", "aria-label", "value")


def test_nothing_is_loaded_from_anywhere(written: str) -> None:
    found = page_of(written)
    for element in found.elements:
        for name in ("src", "href", "action", "poster", "data", "xlink:href"):
            assert element.attributes.get(name, "#").startswith("#"), (element.tag, name)
        assert not re.search(r"url\s*\(", element.attributes.get("style", ""))
    (style,) = found.of("style")
    assert re.findall(r"url\(\s*['\"]?(?!data:|#)[^)]*", style.text) == []
    assert "@import" not in style.text


def test_the_policy_is_of_this_script(written: str) -> None:
    found = page_of(written)
    (script,) = [script for script in found.of("script") if not script.attributes]
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    rules = [
        meta.attributes["content"]
        for meta in found.of("meta")
        if meta.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert rules == [content_security_policy(script.text)]
    assert "default-src 'none'" in rules[0]
    assert f"script-src 'sha256-{digest}';" in rules[0]
    assert "unsafe-eval" not in rules[0]


def test_the_page_can_be_written(written: str) -> None:
    """Half a character, which no file can hold, stands in the scripts as an escape."""
    assert "\ud800" not in written
    written.encode("utf-8")


def test_names_and_words_are_shown_as_they_are(written: str) -> None:
    found = page_of(written)
    assert [head.text for head in found.of("h1")] == [TITLE]
    assert found.of("title")[0].text == f"{TITLE} · convener"  # others are of figures
    options = [option.text for option in found.of("option")]
    assert set(TYPES) <= set(options)
    assert set(SOURCES) <= set(options)
    setup = found.json("setup")
    assert setup["types"] == TYPES
    assert [name for kind, name in setup["lanes"] if kind == "source"] == SOURCES
    if not setup["remote"]:
        words = {word for record in found.json("records") for word in record["t"]}
        assert words >= set(HOSTILE)


def test_templates_are_not_made_of_data() -> None:
    text = render_report(account())
    found = page_of(text)
    assert any("{{ 7 * 7 }}" in phrase for phrase in found.lines("q"))
    assert found.tables["Settings"][-2:] == [
        ["<i>", "</details><script>x</script>"],
        ["nested", "<a> <b>"],
    ]
    assert "<u>because</u>" in found.lines("li")
    assert f"{MODEL} on {len(HOSTILE) + 2} sentences of <s>," in found.lines("p", "lead")[0]
    assert "on <em>now</em>." in found.lines("footer")[0]


# Which sentences are held


def parsed(told: RunSummary, **how: bool) -> Page:
    return page_of(render_report(told, **how))


def test_all_sentences_are_held_in_the_order_of_the_text(vote: RunSummary) -> None:
    records = parsed(vote).json("records")
    assert records == [vote.sentence_index.record(number) for number in range(len(vote.data))]
    assert "most uncertain of" not in render_report(vote)


def test_of_too_many_the_most_uncertain_are_held(vote: RunSummary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["convener.report.html"], "MAX_SENTENCES", 7)
    found = parsed(vote)
    numbers = [record["n"] for record in found.json("records")]
    entropy = vote.sentence_index.entropy.tolist()
    order = sorted(range(len(entropy)), key=lambda number: -entropy[number])
    assert numbers == sorted(order[:7]) == embedded_sentences(vote.sentence_index).tolist()
    assert found.json("setup")["size"] == len(vote.data)
    said = f"These are the 7 most uncertain of {len(vote.data)} sentences; convener view shows all"
    assert any(line.startswith(said) for line in found.lines("p", "note"))
    whole = parsed(vote, remote=True)
    assert not any("most uncertain of" in line for line in whole.lines("p", "note"))


def test_the_viewers_page_holds_no_sentence(vote: RunSummary) -> None:
    found = parsed(vote, remote=True)
    assert [script.attributes.get("id") for script in found.of("script")] == ["setup", None]
    assert found.json("setup")["remote"] is True
    assert parsed(vote).json("setup")["remote"] is False


def test_counts_stand_in_the_filter(vote: RunSummary) -> None:
    options = [option.text for option in parsed(vote).of("option")]
    for name, text in (
        ("disagreement", "sources disagree"),
        ("uncertain", "model is uncertain"),
        ("error", "errors by gold"),
        ("unmarked", "found where nobody marks"),
        ("vote", "unlike majority vote"),
        ("silent", "no source marks any"),
    ):
        assert f"{text} ({vote.sentence_index.counts()[name]})" in options
    assert not any(option.startswith("models disagree") for option in options)


# Small parts


def test_hues_are_far_apart() -> None:
    hues = [type_hue(number) for number in range(8)]
    gaps = [abs(a - b) for number, a in enumerate(hues) for b in hues[:number]]
    assert min(min(gap, 360 - gap) for gap in gaps) >= 20
    assert all(0 <= hue < 360 for hue in hues)


def test_cells_know_numbers() -> None:
    table = Table(title="", columns=("a", "b"), rows=[("x", 0.5), ("y", None)])
    assert table_cells(table) == [[("x", False), ("0.5", True)], [("y", False), ("-", True)]]


def test_an_axis_holds_all_curves() -> None:
    curves = {"a": [(0.0, 3.0), (4.0, 1.0)], "b": [(1.0, 7.0)]}
    assert (fit_axis(curves, 1, 0, 10).low, fit_axis(curves, 1, 0, 10).high) == (1.0, 7.0)
    flat = fit_axis({"a": [(0.0, 2.0), (1.0, 2.0)]}, 1, 0, 10)
    assert flat(2.0) == 5.0


def test_without_jinja2(vote: RunSummary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    template_environment.cache_clear()
    try:
        said = r"a report needs jinja2: pip install 'convener\[report\]'"
        with pytest.raises(MissingDependencyError, match=said):
            render_report(vote)
        model, data = hostile()
        with pytest.raises(MissingDependencyError, match=said):
            write_report(model, data, tmp_path / "report.html")
        assert list(tmp_path.iterdir()) == []
    finally:
        template_environment.cache_clear()


def test_a_report_is_written_whole(tmp_path: Path) -> None:
    model, data = hostile()
    told = write_report(model, data, tmp_path / "new" / "report.html", title=TITLE)
    text = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    assert text == render_report(told)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]
