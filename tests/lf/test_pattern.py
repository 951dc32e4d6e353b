"""Patterns in text and in tokens."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.errors import ConfigError, ConvenerWarning
from convener.lf.doc import Doc
from convener.lf.pattern import pattern

CATASTROPHE = r"(a|aa)+$"


@given(st.text("ab 1.", max_size=12), st.sampled_from([r"a+", r"\d", r"(?<=a)b", r"^a|b$", r"a*"]))
def test_matches_in_text_are_those_of_re(text: str, expression: str) -> None:
    found = pattern(expression, "X", on_misaligned="error", on_overlap="error")
    expected = [(match.start(), match.end(), "X") for match in re.finditer(expression, text) if match.group()]
    assert found.func(Doc.from_input(text)) == expected


@given(
    st.lists(st.text("ab", min_size=1, max_size=2), max_size=6),
    st.sampled_from([r"a\w*", r"a b", r"(?:a )+b", r"b|ab b"]),
)
def test_matches_in_tokens_start_and_end_at_token_boundaries(words: list[str], expression: str) -> None:
    whole = re.compile(rf"(?:{expression})")
    found = pattern(expression, "X", match="tokens")(words)
    expected, at = [], 0
    while at < len(words):
        # As a search over the joined words would, from left to right, first alternative first.
        joined = " ".join(words[at:])
        match = re.match(rf"(?:{expression})(?!\S)", joined)
        size = len(match.group().split()) if match else 0
        if size:
            expected.append((at, at + size, "X"))
        at += size or 1
    assert found == expected
    assert all(whole.fullmatch(" ".join(words[a:b])) for a, b, _ in found)


def test_a_group_is_marked_by_number_or_name() -> None:
    text = "born in Oslo, died in Lima"
    for group, expression in ((1, r"in (\w+)"), ("at", r"in (?P<at>\w+)")):
        found = pattern(expression, "LOC", group=group)
        assert found(Doc.from_input(text)) == [(2, 3, "LOC"), (6, 7, "LOC")]
    maybe = pattern(r"in (Oslo)?", "LOC", group=1)
    assert maybe(Doc.from_input(text)) == [(2, 3, "LOC")]


def test_a_misaligned_group_is_expanded_and_reported() -> None:
    part = pattern(r"(\w)\w*", "X", match="tokens", group=1)
    with pytest.warns(ConvenerWarning, match="misaligned: 0-1 became 0-3"):
        assert part(["Ada"]) == [(0, 1, "X")]


def test_tokens_may_contain_spaces() -> None:
    assert pattern(r"a b", "X", match="tokens", on_misaligned="drop").label(Doc(["a b"])) == [(0, 1, "X")]


def test_case_can_be_ignored() -> None:
    assert pattern("oslo", "LOC")(["Oslo"]) == []
    assert pattern("oslo", "LOC", ignore_case=True)(["Oslo"]) == [(0, 1, "LOC")]


def test_catastrophic_backtracking_times_out_and_abstains() -> None:
    slow = pattern(CATASTROPHE, "X", timeout=0.2)
    start_time = time.monotonic()
    doc = Doc.from_input("a" * 80 + "b")
    assert slow.label(doc) is None
    assert time.monotonic() - start_time < 5
    (issue,) = doc.issues
    assert issue.kind == "timeout"
    assert "timed out after 0.2 s" in issue.detail
    assert slow(["aa"]) == [(0, 1, "X")]


def test_the_time_limit_covers_all_matches_of_a_text() -> None:
    # Each match alone is quick enough; together they are not.
    slow = pattern(r"x|(?:a|aa)+$", "X", timeout=0.3, match="text")
    text = " ".join(["x", "a" * 27 + "b"] * 400)
    doc = Doc.from_input(text)
    start_time = time.monotonic()
    assert slow.label(doc) is None
    assert time.monotonic() - start_time < 3
    assert doc.issues[0].kind == "timeout"


@pytest.mark.parametrize(
    ("expression", "settings", "message"),
    [
        ("(", {}, "p: invalid regular expression"),
        ("a", {"match": "words"}, "match must be text or tokens, got 'words'"),
        ("a", {"timeout": 0}, "timeout must be positive, got 0"),
        ("a", {"group": 1}, "has no group 1"),
        ("(a)", {"group": "b"}, "has no group 'b'"),
    ],
)
def test_settings_are_checked(expression: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        pattern(expression, "X", name="p", **settings)


def test_the_fingerprint_covers_what_determines_the_spans() -> None:
    base: dict[str, Any] = {"expression": "(a)", "label": "X"}
    changes: list[dict[str, Any]] = [
        {"expression": "(b)"},
        {"label": "Y"},
        {"match": "tokens"},
        {"group": 1},
        {"ignore_case": True},
        {"timeout": 2},
    ]
    digests = {pattern(**(base | change)).fingerprint() for change in changes}
    assert len(digests | {pattern(**base).fingerprint()}) == len(changes) + 1
    assert pattern(**base, name="q").fingerprint() == pattern(**base).fingerprint()
