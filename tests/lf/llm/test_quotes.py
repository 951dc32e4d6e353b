"""Alignment of quotes, compared with a search over all token ranges."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.lf.doc import Doc
from convener.lf.llm.quotes import Quote, QuoteFinder, align_quotes, normalize

WORDS = st.sampled_from(
    [
        *(
            "Oslo",
            "oslo",
            "a",
            "A",
            "b",
            "ab",
            "ß",
            "ss",
            "é",
            "e\u0301",
            "ﬁ",
            "fi",
            "Ⅳ",
            "İ",
            "한",
        ),
        *("“", '"', "’s", "'s", "-", "–", "\u200b"),
    ]
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=9)


def words_of(sentence: list[str]) -> QuoteFinder:
    doc = Doc(sentence)
    return QuoteFinder(doc.text, doc.token_offsets)


def naive(sentence: list[str], quote: str) -> list[tuple[int, int]]:
    """All token ranges that equal the quote, exactly or normalized, from left to right."""
    size = len(sentence)
    stretches = [(a, b) for a in range(size) for b in range(a + 1, size + 1)]
    loose = [  # of stretches that fold alike, the one without words that fold to nothing
        (a, b) for a, b in stretches if normalize(sentence[a]) and normalize(sentence[b - 1])
    ]
    exact = [(a, b) for a, b in stretches if " ".join(sentence[a:b]) == quote]
    folded = [(a, b) for a, b in loose if "".join(map(normalize, sentence[a:b])) == normalize(quote) != ""]
    found: list[tuple[int, int]] = []
    for start, end in sorted(exact or folded):
        if not found or start >= found[-1][1]:
            found.append((start, end))
    return found


@given(SENTENCES, st.data())
def test_all_occurrences_of_a_quote_are_found(sentence: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(sentence) - 1))
    end = data.draw(st.integers(start + 1, len(sentence)))
    changes = [str, str.upper, str.lower, lambda text: text.replace(" ", "")]
    changes += [lambda text: text.replace(" ", "\n  "), lambda text: text.replace("'", "’")]
    changes += [lambda text: unicodedata.normalize("NFKC", text), lambda text: f" {text}\n"]
    quote = data.draw(st.sampled_from(changes))(" ".join(sentence[start:end]))
    found = words_of(sentence).find(quote)
    assert found == naive(sentence, quote.strip())
    if normalize(quote):
        assert found


@given(SENTENCES, st.text(alphabet="aAboslOß' -", max_size=6))
def test_text_that_does_not_occur_is_not_found(sentence: list[str], quote: str) -> None:
    assert words_of(sentence).find(quote) == naive(sentence, quote.strip())


@given(SENTENCES, st.lists(st.builds(Quote, WORDS | st.just("a b"), st.sampled_from("XY"))))
def test_every_quote_is_aligned_or_rejected(sentence: list[str], quotes: list[Quote]) -> None:
    spans, missing, inside = align_quotes(words_of(sentence), quotes)
    taken = [word for start, end, _ in spans for word in range(start, end)]
    assert len(taken) == len(set(taken))
    assert spans == sorted(spans)
    assert set(missing) | set(inside) <= set(quotes)
    refused = {quote.text for quote in (*missing, *inside)}
    for quote in quotes:
        places = naive(sentence, quote.text)
        assert quote.text in refused or any(span[:2] in places for span in spans)
    for start, end, kind in spans:
        assert any((start, end) in naive(sentence, q.text) for q in quotes if q.type == kind)


@pytest.mark.parametrize(
    ("sentence", "quotes", "spans"),
    [
        # One type: every place. Several: in order of mention.
        ("Ada met Ada", [("Ada", "PER")], [(0, 1, "PER"), (2, 3, "PER")]),
        ("Ada met Ada", [("Ada", "PER")] * 2, [(0, 1, "PER"), (2, 3, "PER")]),
        ("W . of W .", [("W", "PER"), ("W", "LOC")], [(0, 1, "PER"), (3, 4, "LOC")]),
        # The longer quote wins, whichever comes first.
        (
            "York in New York",
            [("York", "PER"), ("New York", "LOC")],
            [(0, 1, "PER"), (2, 4, "LOC")],
        ),
        # Of equal length the first wins.
        ("a b c", [("b c", "Y"), ("a b", "X")], [(1, 3, "Y")]),
        # Exactly before loosely.
        ("US told us", [("us", "X"), ("US", "Y")], [(0, 1, "Y"), (2, 3, "X")]),
        # Detokenised by the model.
        ("Smith 's co-op", [("Smith’s CO‑OP", "X")], [(0, 3, "X")]),
    ],
)
def test_quotes_are_aligned_with_occurrences(
    sentence: str, quotes: list[tuple[str, str]], spans: list[tuple[int, int, str]]
) -> None:
    assert align_quotes(words_of(sentence.split()), [Quote(*pair) for pair in quotes]).spans == spans


def test_reasons_for_rejected_quotes() -> None:
    words = words_of(["New", "York", "is", "big"])
    quotes = [("New York", "LOC"), ("York", "LOC"), ("Yor", "LOC"), ("", "LOC"), (" ", "LOC")]
    aligned = align_quotes(words, [Quote(*pair) for pair in quotes])
    assert aligned.spans == [(0, 2, "LOC")]
    assert [quote.text for quote in aligned.overlapped] == ["York"]
    assert sorted(quote.text for quote in aligned.not_in_text) == ["", " ", "Yor"]


def test_more_mentions_than_occurrences_are_rejected() -> None:
    quotes = [Quote("W", kind) for kind in ("PER", "LOC", "LOC")]
    aligned = align_quotes(words_of(["W", "and", "W"]), quotes)
    assert aligned.spans == [(0, 1, "PER"), (2, 3, "LOC")]
    assert aligned.not_in_text == [Quote("W", "LOC")]


def test_tokens_are_found_in_their_own_text() -> None:
    doc = Doc.from_input("to “Oslo”,  Norway")
    words = QuoteFinder(doc.text, doc.token_offsets)
    assert words.find("Oslo”, Norway") == words.find('oslo", norway') == [(2, 6)]
    assert doc.span_text(2, 6) == "Oslo”,  Norway"
