"""Gazetteers, compared with a naive matcher."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from importlib import import_module
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.errors import ConfigError
from convener.lf.doc import Doc
from convener.lf.fingerprint import NotFingerprintable
from convener.lf.gazetteer import PhraseMatcher, gazetteer
from convener.lf.validation import Span
from tests.lf.test_gazetteer_words import plain_pieces

# Overlapping phrases, length that changes with case, several pieces in a word, no piece at all.
ALPHABET = "aAbB"
UNUSUAL = ["ß", "SS", "ss", "İ", "i\u0307", "ﬁ", "FI", "e\u0301", "é", "北", "京", "北京", "a-b", "B1"]
UNUSUAL += ["1", "-", ".", "U.S", " ", "\u00a0", "🙂", "ς", "Σ", "\U00010400", "\U00010428"]
pieces = st.text(ALPHABET, min_size=1, max_size=2) | st.sampled_from(UNUSUAL)
texts = st.lists(pieces, max_size=8)
phrases = st.lists(st.lists(pieces, min_size=1, max_size=3).map(" ".join), min_size=1, max_size=6)


def fold(word: str) -> list[str]:
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", word).casefold())
    return plain_pieces(folded)


def naive(labelled: dict[str, str], words: list[str], form: Callable[[str], list[str]]) -> list[Span]:
    """Every phrase at every position; longest first, then leftmost."""
    spelled = {}
    for phrase, label in labelled.items():
        spelled.setdefault(tuple(p for word in plain_pieces(phrase) for p in form(word)), label)
    spelled.pop((), None)
    message = [[p for piece in plain_pieces(word) for p in form(piece)] for word in words]
    matches = [
        (start, end, spelled[run])
        for start in range(len(words))
        for end in range(start + 1, len(words) + 1)
        if message[start] and message[end - 1]
        for run in [tuple(piece for word in message[start:end] for piece in word)]
        if run in spelled
    ]
    matches.sort(key=lambda span: (span[0] - span[1], span[0]))
    kept: list[Span] = []
    for start, end, label in matches:
        if not any(start < b and a < end for a, b, _ in kept):
            kept.append((start, end, label))
    return sorted(kept)


@given(phrases, st.lists(texts, max_size=4), st.booleans())
def test_matches_are_those_of_a_naive_matcher(
    given_phrases: list[str], sentences: list[list[str]], ignore_case: bool
) -> None:
    labelled = {phrase: f"T{number % 3}" for number, phrase in enumerate(given_phrases)}
    by_label: dict[str, list[str]] = {}
    for phrase, label in labelled.items():
        by_label.setdefault(label, []).append(phrase)
    # The same order of phrases, so that of two with the same pieces the same comes first.
    labelled = {phrase: label for label, some in by_label.items() for phrase in some}
    found = gazetteer(by_label, ignore_case=ignore_case)
    form = fold if ignore_case else (lambda word: [word])
    expected = [naive(labelled, words, form) for words in sentences]
    assert found.label_batch([Doc(words) for words in sentences]) == expected
    assert [found(words) for words in sentences] == expected


def test_the_longest_match_wins_then_the_first() -> None:
    names = gazetteer(["a b", "b c d", "d e", "e"], "X")
    assert names(["a", "b", "c", "d", "e"]) == [(1, 4, "X"), (4, 5, "X")]
    assert names(["a", "b", "c"]) == [(0, 2, "X")]


def test_tokenization_does_not_matter() -> None:
    names = gazetteer(["non-small cell", "B12", "New York", "北京"], "X")
    for words in (["non-small", "cell"], ["non", "-", "small", "cell"], ["B", "12"], ["B12"]):
        assert names(words) == [(0, len(words), "X")]
    for words in (["NewYork"], ["an", "on-small", "cell"], ["B123"], ["xB", "12"], ["B1", "2"]):
        assert names(words) == []
    assert names(["北", "京"]) == [(0, 2, "X")]
    assert names(["在北京"]) == []


def test_normalization_and_edits() -> None:
    names = gazetteer(["heart disease", "Allergy"], "D", ignore_case=True, normalize="english", max_edits=1)
    assert names(Doc.from_input("Heart diseases, alergies, hart disease, her disease")) == [
        (0, 2, "D"),
        (3, 4, "D"),
        (5, 7, "D"),
    ]
    strict = gazetteer(["heart disease"], "D")
    assert strict("heart diseases") == strict("Heart disease") == strict("haert disease") == []


def test_the_default_name_is_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "cities.txt").write_text("Oslo\n", encoding="utf-8")
    cities = gazetteer(tmp_path / "cities.txt", "LOC", prior_precision=0.9)
    assert (cities.name, cities.labels, cities.prior_precision) == ("cities", ("LOC",), 0.9)
    assert cities(["in", "Oslo"]) == [(1, 2, "LOC")]


def test_the_fingerprint_covers_what_determines_the_spans(tmp_path: Path) -> None:
    made = gazetteer(["a"], "X")
    assert made.fingerprint() == gazetteer(["a"], "X", name="b").fingerprint()
    others = [
        gazetteer(["b"], "X"),
        gazetteer(["a"], "Y"),
        gazetteer(["a"], "X", ignore_case=True),
        gazetteer(["a"], "X", normalize="english"),
        gazetteer(["a"], "X", max_edits=1),
    ]
    assert len({made.fingerprint(), *(other.fingerprint() for other in others)}) == 6


def test_a_normalizer_without_a_fingerprint_works_but_is_not_cached() -> None:
    stream = StringIO()

    def lemma(word: str) -> str:
        stream.write(word)
        return word.rstrip("s")

    cats = gazetteer(["cat"], "X", normalize=lemma)
    assert cats(["cats"]) == [(0, 1, "X")]
    with pytest.raises(NotFingerprintable):
        cats.fingerprint()


def test_phrases_of_white_space_mark_nothing() -> None:
    assert gazetteer([" "], "X")("a b") == []


@pytest.mark.parametrize(
    ("phrases", "settings", "message"),
    [([], {}, "contains no phrases"), (["a"], {"max_edits": -1}, "max_edits must be at least 0")],
)
def test_settings_are_checked(phrases: list[str], settings: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        gazetteer(phrases, "X", **settings)


def test_the_word_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("convener.lf.gazetteer")
    monkeypatch.setattr(module, "_MAX_CACHED_WORDS", 3)
    names = gazetteer(["e", "f"], "X")
    assert names(["a", "b", "c", "d", "e", "f", "e"]) == [(4, 5, "X"), (5, 6, "X"), (6, 7, "X")]
    monkeypatch.setattr(module, "_MAX_SYMBOLS", 1)
    with pytest.raises(ConfigError, match="holds at most 1 different words"):
        PhraseMatcher({"a": "X", "b": "X"}, lambda word: word.split())


def test_large_vocabularies_skip_the_surrogates() -> None:
    many = [f"w{number:x}" for number in range(70_000)]
    matcher = PhraseMatcher(dict.fromkeys(many, "X"), lambda word: [word])
    assert matcher([Doc(["w0", "wd7fe", "no", "wd7ff", "w1116f"])])[0] == [
        (0, 1, "X"),
        (1, 2, "X"),
        (3, 4, "X"),
        (4, 5, "X"),
    ]
