"""Normalization of words, compared with plain loops."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.errors import ConfigError
from convener.lf.gazetteer import NearestWord, fold_case, make_normalizer, singular, split_subtokens
from tests.generators import words

SPACELESS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")


def plain_pieces(text: str) -> list[str]:
    """Characters one by one: does each join the one before it?"""
    found: list[str] = []
    before = ""
    for char in unicodedata.normalize("NFC", text):
        if char.isspace():
            before = ""
            continue
        group = unicodedata.category(char)[0]
        kind = {"L": "letter", "M": "letter", "N": "digit"}.get(group, "sign")
        if group == "L" and unicodedata.name(char, "").startswith(SPACELESS):
            kind = "alone"
        joins = kind == before and kind in ("letter", "digit")
        joins |= group == "M" and before in ("letter", "alone")
        if joins:
            found[-1] += char
        else:
            found.append(char)
            before = kind
    return found


# Characters whose kind needs no table of scripts to tell.
SIMPLE = st.text("aZé\u0301ßΣя٣7²Ⅷ北京ひカกไ .-'€🙂\u00a0\t_", max_size=10)


@given(SIMPLE)
def test_subtokens_are_runs_of_one_character_class(text: str) -> None:
    assert split_subtokens(text) == plain_pieces(text)


@given(st.lists(words, max_size=5))
def test_subtokens_lose_only_white_space(parts: list[str]) -> None:
    text = unicodedata.normalize("NFC", " ".join(parts))
    assert "".join(split_subtokens(text)) == "".join(text.split())


@given(st.text(max_size=8))
def test_case_is_folded(word: str) -> None:
    assert fold_case(fold_case(word)) == fold_case(word)
    assert fold_case(word) == unicodedata.normalize("NFC", word.casefold())


@pytest.mark.parametrize(("one", "other"), [("ß", "SS"), ("İ", "i\u0307"), ("ŉ", "ʼN"), ("Σ", "ς")])
def test_case_folding_may_change_the_length(one: str, other: str) -> None:
    assert fold_case(one) == fold_case(other)


def test_plurals() -> None:
    assert [singular(word) for word in ("TUMORS", "BODIES", "shoes", "bus", "gas", "days")] == [
        "TUMOR",
        "BODY",
        "shoe",
        "bus",
        "gas",
        "day",
    ]


def distance(one: str, other: str) -> int:
    """Optimal string alignment, by the book."""
    table = [[i + j if not i * j else 0 for j in range(len(other) + 1)] for i in range(len(one) + 1)]
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            change = one[i - 1] != other[j - 1]
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + change)
            if i > 1 and j > 1 and one[i - 1] == other[j - 2] and one[i - 2] == other[j - 1]:
                table[i][j] = min(table[i][j], table[i - 2][j - 2] + 1)
    return table[-1][-1]


WORDS = st.text("abc", min_size=1, max_size=9)


@given(st.sets(WORDS, max_size=8), WORDS, st.integers(1, 3))
def test_the_nearest_word_is_found(known: set[str], word: str, slips: int) -> None:
    allowed = min(slips, len(word) // 4)
    near = [(distance(word, item), item) for item in known]
    near = [pair for pair in near if pair[0] <= allowed and allowed]
    assert NearestWord(known, max_edits=slips)(word) == (min(near)[1] if near else None)


def test_normalization_steps_are_chained() -> None:
    form = make_normalizer(ignore_case=True, normalize="english")
    assert form("Heart-Diseases") == ["heart", "-", "disease"]
    own = make_normalizer(ignore_case=False, normalize=lambda word: word.replace("X", " "))
    assert own("aXb X") == ["a", "b"]
    with pytest.raises(ConfigError, match="normalize must be 'english'"):
        make_normalizer(ignore_case=False, normalize="german")
