"""Parsing of responses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.errors import DataError
from convener.lf.llm.prompt import format_response, parse_response
from convener.lf.llm.quotes import Quote

ONE = '[{"text": "Oslo", "type": "LOC"}]'
PAIRS = st.lists(st.tuples(st.text(), st.text()))
PROSE = st.text(alphabet=st.characters(exclude_characters="[]{}"), max_size=20)


@given(PAIRS, PROSE, PROSE)
def test_quotes_are_parsed_with_any_text_around_them(pairs: list[tuple[str, str]], before: str, after: str) -> None:
    quotes = [Quote(*pair) for pair in pairs]
    wrapped = (
        format_response(pairs),
        json.dumps({"entities": json.loads(format_response(pairs)), "n": 1}),
    )
    for written in wrapped:
        assert parse_response(f"{before}{written}{after}") == (quotes, 0)


@given(PAIRS.filter(bool), st.data())
def test_a_truncated_response_is_rejected(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    written = format_response(pairs)
    with pytest.raises(DataError):
        parse_response(written[: data.draw(st.integers(0, len(written) - 1))])


def test_brackets_in_a_truncated_quote_are_ignored() -> None:
    with pytest.raises(DataError):
        parse_response('[{"text": "an empty list [] in a')


@given(st.text() | st.text(alphabet='[]{}"text:, \\1'))
def test_any_response_is_parsed_or_raises_a_data_error(answer: str) -> None:
    try:
        quotes, unreadable = parse_response(answer)
    except DataError:
        return
    assert all(isinstance(text, str) for quote in quotes for text in quote)
    assert unreadable >= 0


@pytest.mark.parametrize(
    "answer",
    [
        f"See [1] and [the rest]: {ONE}",
        f"[]{ONE}",
        f"{ONE} (from [2])",
        '{"a": {"b": 1}} ' + ONE,
        f"<think>I first thought of [] and {{</think>\n{ONE}",
    ],
)
def test_the_list_of_quotes_is_distinguished_from_other_brackets(answer: str) -> None:
    assert parse_response(answer).quotes == [Quote("Oslo", "LOC")]


@pytest.mark.parametrize("answer", ["[" * 100_000, '{"a":' * 5_000, '{"a": [], "b": []}', "[1]", ""])
def test_responses_without_a_list_of_quotes_are_rejected(answer: str) -> None:
    with pytest.raises(DataError, match="expected a JSON list of quotes"):
        parse_response(answer)


def test_an_empty_list_is_a_valid_response() -> None:
    assert parse_response("```\n[]\n```") == ([], 0)
