"""Answers read as quotes."""

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
def test_what_is_written_is_read_whatever_stands_around_it(
    pairs: list[tuple[str, str]], before: str, after: str
) -> None:
    quotes = [Quote(*pair) for pair in pairs]
    wrapped = (
        format_response(pairs),
        json.dumps({"entities": json.loads(format_response(pairs)), "n": 1}),
    )
    for written in wrapped:
        assert parse_response(f"{before}{written}{after}") == (quotes, 0)


@given(PAIRS.filter(bool), st.data())
def test_what_was_cut_off_is_no_answer(pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    written = format_response(pairs)
    with pytest.raises(DataError):
        parse_response(written[: data.draw(st.integers(0, len(written) - 1))])


def test_brackets_in_a_quote_that_was_cut_off_are_no_answer() -> None:
    with pytest.raises(DataError):
        parse_response('[{"text": "an empty list [] in a')


@given(st.text() | st.text(alphabet='[]{}"text:, \\1'))
def test_nothing_that_a_model_writes_raises_anything_else(answer: str) -> None:
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
def test_the_list_of_quotes_is_told_from_other_brackets(answer: str) -> None:
    assert parse_response(answer).quotes == [Quote("Oslo", "LOC")]


@pytest.mark.parametrize("answer", ["[" * 100_000, '{"a":' * 5_000, '{"a": [], "b": []}', "[1]", ""])
def test_what_holds_no_list_of_quotes(answer: str) -> None:
    with pytest.raises(DataError, match="expected a JSON list of quotes"):
        parse_response(answer)


def test_nothing_found_is_an_answer() -> None:
    assert parse_response("```\n[]\n```") == ([], 0)
