"""Pages are safe: everything in the data is shown as text."""

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
from tests.report.fake_model import FakeModel
from tests.report.html_reader import Page, parse_page

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
def test_embedded_json_round_trips_and_closes_no_element(value: Any) -> None:
    text = to_script_json(value)
    assert "<" not in text
    assert json.loads(text) == value
    text.encode("utf-8")


def test_embedded_json_escapes_only_what_it_must() -> None:
    assert to_script_json(["é🙂"]) == '["é🙂"]'
    assert to_script_json(["é", "\ud800"]) == '["\\u00e9","\\ud800"]'
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_script_json([float("nan")])


# Hostile text

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


def hostile(*, gold: bool = True) -> tuple[FakeModel, cv.Dataset]:
    tokens = [[word, "and", word] for word in HOSTILE] + [[], ["w"] * 2000]
    kinds = [TYPES[number % 3] for number in range(len(tokens))]
    marks = [[(0, 1, kind)] if words else [] for words, kind in zip(tokens, kinds, strict=True)]
    other = [[(0, 3, TYPES[0])] if words else [] for words in tokens]
    votes = {SOURCES[0]: marks, SOURCES[1]: other, SOURCES[2]: [[]] * len(tokens)}
    votes[SOURCES[3]] = [None if number % 2 else m for number, m in enumerate(marks)]
    data = cv.Dataset.from_spans(TYPES, tokens, votes, gold=marks if gold else None)
    labels = data.votes[:, 1].copy()
    explanation = ("<u>because</u>",)
    settings = {"<i>": "</details><script>x</script>", "nested": {"<a>": "<b>"}}
    model = FakeModel(labels=labels, confidence=0.6, name=MODEL, settings=settings, explanation=explanation)
    return model, data


def hostile_summary(*, gold: bool = True) -> RunSummary:
    model, data = hostile(gold=gold)
    run_info = {"split": "<s>", "reported": "<em>now</em>"}
    return summarize_run(model, data, title=TITLE, run_info=run_info)


def pages() -> dict[str, str]:
    summary = hostile_summary()
    other = replace(summary.predictions, labels=np.zeros_like(summary.predictions.labels))
    pair = {MODEL: summary.predictions, SOURCES[1]: other}
    return {
        "report": render_report(summary),
        "without gold": render_report(hostile_summary(gold=False)),
        "viewer": render_report(summary, remote=True),
        "comparison": render_comparison(summary.data, pair, title=TITLE),
        "comparison without gold": render_comparison(summary.data.without_gold(), pair, title=TITLE),
    }


@pytest.fixture(scope="module")
def rendered() -> dict[str, str]:
    return pages()


KINDS = ["report", "without gold", "viewer", "comparison", "comparison without gold"]


@pytest.fixture(params=KINDS)
def html(request: pytest.FixtureRequest, rendered: dict[str, str]) -> str:
    return rendered[request.param]


def test_the_page_contains_only_our_script(html: str) -> None:
    found = parse_page(html)
    scripts = found.by_tag("script")
    data = [script for script in scripts if script.attributes.get("type") == "application/json"]
    names = [script.attributes["id"] for script in data]
    assert names in (["setup", "records"], ["setup"])
    (ours,) = [script for script in scripts if script not in data]
    assert ours.attributes == {}
    source = resources.files("convener.report") / "static" / "report.js"
    assert ours.text == source.read_text(encoding="utf-8")
    assert len(found.by_tag("style")) == 1


def test_no_attribute_runs_code(html: str) -> None:
    for element in parse_page(html).elements:
        assert element.tag not in ("iframe", "object", "embed", "img", "link", "base")
        for name, value in element.attributes.items():
            assert not name.startswith("on"), (element.tag, name)
            assert name not in ("srcdoc", "autofocus"), (element.tag, name)
            assert "javascript:" not in value or name in ("title", "aria-label", "value")


def test_no_external_resource_is_loaded(html: str) -> None:
    found = parse_page(html)
    for element in found.elements:
        for name in ("src", "href", "action", "poster", "data", "xlink:href"):
            assert element.attributes.get(name, "#").startswith("#"), (element.tag, name)
        assert not re.search(r"url\s*\(", element.attributes.get("style", ""))
    (style,) = found.by_tag("style")
    assert re.findall(r"url\(\s*['\"]?(?!data:|#)[^)]*", style.text) == []
    assert "@import" not in style.text


def test_the_policy_allows_only_this_script(html: str) -> None:
    found = parse_page(html)
    (script,) = [script for script in found.by_tag("script") if not script.attributes]
    digest = base64.b64encode(hashlib.sha256(script.text.encode()).digest()).decode()
    policies = [
        meta.attributes["content"]
        for meta in found.by_tag("meta")
        if meta.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policies == [content_security_policy(script.text)]
    assert "default-src 'none'" in policies[0]
    assert f"script-src 'sha256-{digest}';" in policies[0]
    assert "unsafe-eval" not in policies[0]


def test_the_page_can_be_encoded(html: str) -> None:
    """Lone surrogates are escaped in scripts and replaced elsewhere."""
    assert "\ud800" not in html
    html.encode("utf-8")


def test_names_and_tokens_are_shown_unchanged(html: str) -> None:
    found = parse_page(html)
    assert [head.text for head in found.by_tag("h1")] == [TITLE]
    assert found.by_tag("title")[0].text == f"{TITLE} · convener"  # the others belong to figures
    options = [option.text for option in found.by_tag("option")]
    assert set(TYPES) <= set(options)
    assert set(SOURCES) <= set(options)
    setup = found.json("setup")
    assert setup["types"] == TYPES
    assert [name for kind, name in setup["tracks"] if kind == "source"] == SOURCES
    if not setup["remote"]:
        words = {word for record in found.json("records") for word in record["t"]}
        assert words >= set(HOSTILE)


def test_data_is_not_interpreted_as_a_template() -> None:
    text = render_report(hostile_summary())
    found = parse_page(text)
    assert any("{{ 7 * 7 }}" in phrase for phrase in found.texts("q"))
    assert found.tables["Settings"][-2:] == [
        ["<i>", "</details><script>x</script>"],
        ["nested", "<a> <b>"],
    ]
    assert "<u>because</u>" in found.texts("li")
    assert f"{MODEL} on {len(HOSTILE) + 2} sentences of <s>," in found.texts("p", "lead")[0]
    assert "on <em>now</em>." in found.texts("footer")[0]


# Embedded sentences


def parsed(summary: RunSummary, **options: bool) -> Page:
    return parse_page(render_report(summary, **options))


def test_all_sentences_are_embedded_in_text_order(vote: RunSummary) -> None:
    records = parsed(vote).json("records")
    assert records == [vote.sentence_index.record(number) for number in range(len(vote.data))]
    assert "most uncertain of" not in render_report(vote)


def test_of_too_many_sentences_the_most_uncertain_are_embedded(
    vote: RunSummary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["convener.report.html"], "MAX_SENTENCES", 7)
    found = parsed(vote)
    numbers = [record["n"] for record in found.json("records")]
    entropy = vote.sentence_index.entropy.tolist()
    order = sorted(range(len(entropy)), key=lambda number: -entropy[number])
    assert numbers == sorted(order[:7]) == embedded_sentences(vote.sentence_index).tolist()
    assert found.json("setup")["size"] == len(vote.data)
    note = f"The 7 most uncertain of {len(vote.data)} sentences; convener view shows all"
    assert any(line.startswith(note) for line in found.texts("p", "note"))
    remote = parsed(vote, remote=True)
    assert not any("most uncertain of" in line for line in remote.texts("p", "note"))


def test_the_page_of_the_viewer_embeds_no_sentence(vote: RunSummary) -> None:
    found = parsed(vote, remote=True)
    assert [script.attributes.get("id") for script in found.by_tag("script")] == ["setup", None]
    assert found.json("setup")["remote"] is True
    assert parsed(vote).json("setup")["remote"] is False


def test_filters_show_their_counts(vote: RunSummary) -> None:
    options = [option.text for option in parsed(vote).by_tag("option")]
    for name, text in (
        ("source_conflict", "sources conflict"),
        ("low_confidence", "low confidence"),
        ("error", "errors against gold"),
        ("no_source", "predicted without any vote"),
        ("differs_from_majority", "differs from majority vote"),
        ("no_votes", "no votes"),
    ):
        assert f"{text} ({vote.sentence_index.counts()[name]})" in options
    assert not any(option.startswith("models differ") for option in options)


# Small parts


def test_hues_are_far_apart() -> None:
    hues = [type_hue(number) for number in range(8)]
    gaps = [abs(a - b) for number, a in enumerate(hues) for b in hues[:number]]
    assert min(min(gap, 360 - gap) for gap in gaps) >= 20
    assert all(0 <= hue < 360 for hue in hues)


def test_cells_are_flagged_as_numeric() -> None:
    table = Table(title="", columns=("a", "b"), rows=[("x", 0.5), ("y", None)])
    assert table_cells(table) == [[("x", False), ("0.5", True)], [("y", False), ("-", True)]]


def test_an_axis_covers_all_curves() -> None:
    curves = {"a": [(0.0, 3.0), (4.0, 1.0)], "b": [(1.0, 7.0)]}
    assert (fit_axis(curves, 1, 0, 10).low, fit_axis(curves, 1, 0, 10).high) == (1.0, 7.0)
    flat = fit_axis({"a": [(0.0, 2.0), (1.0, 2.0)]}, 1, 0, 10)
    assert flat(2.0) == 5.0


def test_without_jinja2(vote: RunSummary, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    template_environment.cache_clear()
    try:
        message = r"a report needs jinja2: pip install 'convener\[report\]'"
        with pytest.raises(MissingDependencyError, match=message):
            render_report(vote)
        model, data = hostile()
        with pytest.raises(MissingDependencyError, match=message):
            write_report(model, data, tmp_path / "report.html")
        assert list(tmp_path.iterdir()) == []
    finally:
        template_environment.cache_clear()


def test_a_report_is_written_atomically(tmp_path: Path) -> None:
    model, data = hostile()
    summary = write_report(model, data, tmp_path / "new" / "report.html", title=TITLE)
    text = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    assert text == render_report(summary)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]
