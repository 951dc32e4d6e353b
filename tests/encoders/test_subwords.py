"""Subwords, compared with the tokenizer called on each sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convener.encoders.subwords import MAX_WORD_CHARS, Subwords, get_special_tokens, tokenize_words
from convener.errors import DataError

from .oracle import Naive
from .toys import SENTENCES, packed

EMPTY = ("", "\u200b", "\x07", "\x00", "\u00ad", "\ufeff", "   ")
"""Words for which BERT's tokenizer returns nothing."""
HARD = ("🙂", "👩‍👩‍👧", "naïve", "北京", "[SEP]", "[PAD]", "##s", "a b", "'", "ﬁn", "İ", "e\u0301")
UNKNOWN = 100


def cut(naive: Naive, sentences: list[list[str]], most: int = 1 << 30) -> Subwords:
    return tokenize_words(naive.tokenizer, *packed(sentences), unknown_id=UNKNOWN, max_per_word=most)


def by_word(pieces: Subwords) -> list[list[int]]:
    return [part.tolist() for part in np.split(pieces.ids, np.cumsum(pieces.counts)[:-1])]


def expected(naive: Naive, sentences: list[list[str]], most: int = 1 << 30) -> list[list[int]]:
    return [ids[:most] or [UNKNOWN] for words in sentences if words for ids in naive.pieces(words)]


words = st.one_of(
    st.sampled_from(EMPTY + HARD),
    st.sampled_from([word for line in SENTENCES for word in line]),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=12),
)


@given(sentences=st.lists(st.lists(words, max_size=6), max_size=5), most=st.integers(1, 8))
@settings(max_examples=100)
def test_subwords_equal_those_of_the_tokenizer(naive: Naive, sentences: list[list[str]], most: int) -> None:
    if not any(sentences):
        assert len(cut(naive, sentences).ids) == 0
        return
    found = cut(naive, sentences, most)
    assert by_word(found) == expected(naive, sentences, most)
    assert found.counts.tolist() == [len(ids) for ids in expected(naive, sentences, most)]


@pytest.mark.parametrize("word", EMPTY)
def test_a_word_without_subwords_is_unknown(naive: Naive, word: str) -> None:
    assert naive.pieces(["cat", word, "mat"])[1] == []
    assert by_word(cut(naive, [["cat", word, "mat"]])) == [
        *naive.pieces(["cat"]),
        [UNKNOWN],
        *naive.pieces(["mat"]),
    ]
    assert by_word(cut(naive, [["cat", word]]))[1] == [UNKNOWN]  # nothing comes after it
    assert by_word(cut(naive, [[word]])) == [[UNKNOWN]]
    assert by_word(cut(naive, [[word, word], [], [word]])) == [[UNKNOWN]] * 3


def test_words_without_subwords_may_stay_empty(naive: Naive) -> None:
    sentences = [["cat", "\u200b", "mat"], ["\u200b"], [], ["\u200b", "unbelievable"]]
    found = tokenize_words(naive.tokenizer, *packed(sentences), unknown_id=None, max_per_word=1 << 30)
    assert by_word(found) == [ids for words in sentences for ids in naive.pieces(words)]
    assert found.counts.tolist()[1] == 0
    nothing = tokenize_words(naive.tokenizer, *packed([["\u200b"]]), unknown_id=None, max_per_word=4)
    assert (nothing.ids.tolist(), nothing.counts.tolist()) == ([], [0])


def test_very_long_words_are_truncated(naive: Naive) -> None:
    long = cut(naive, [["ab, " * 2500, "cat"]])
    assert by_word(long) == naive.pieces([("ab, " * 2500)[:MAX_WORD_CHARS], "cat"])
    assert by_word(cut(naive, [["ab, " * 2500, "cat"]], most=5))[0] == by_word(long)[0][:5]
    assert by_word(cut(naive, [["x" * 10_000]])) == naive.pieces(["x" * MAX_WORD_CHARS])


@pytest.mark.parametrize("word", ["\ud800", "a\udfffb", "\ud83d\ude42", "é\ud800"])
def test_surrogates_become_question_marks(naive: Naive, word: str) -> None:
    """No tokenizer accepts them, but files may contain them."""
    with pytest.raises((TypeError, UnicodeError)):
        naive.pieces([word])
    replaced = "".join("?" if "\ud800" <= sign <= "\udfff" else sign for sign in word)
    assert by_word(cut(naive, [[word, "cat"]])) == naive.pieces([replaced, "cat"])


def test_sentences_are_tokenized_independently(naive: Naive) -> None:
    alone = [ids for line in SENTENCES for ids in by_word(cut(naive, [line]))]
    assert by_word(cut(naive, SENTENCES)) == alone
    assert by_word(cut(naive, [[], *SENTENCES, []])) == alone


@pytest.mark.parametrize("kind", ["roberta", "t5"])
def test_other_tokenizers_agree_on_words_and_sentences(kind: str, tiny: Callable[[str], Path]) -> None:
    options: dict[str, Any] = {"add_prefix_space": True} if kind == "roberta" else {}
    other = Naive.of(tiny(kind), **options)
    sentences = [*SENTENCES, ["🙂", "cat"], ["Zürich"]]
    assert by_word(cut(other, sentences)) == expected(other, sentences)


def test_special_tokens_are_those_around_a_sentence(naive: Naive, tiny: Callable[[str], Path]) -> None:
    found = get_special_tokens(naive.tokenizer)
    assert (found.prefix, found.suffix, found.padding_id) == ((101,), (102,), 0)
    assert found.unknown_id == naive.tokenizer.unk_token_id
    none, end = get_special_tokens(Naive.of(tiny("t5")).tokenizer)[:2]
    assert (none, end) == ((), (1,))


class Mute:
    """A tokenizer that returns nothing."""

    name_or_path = "mute"
    unk_token_id = mask_token_id = sep_token_id = eos_token_id = pad_token_id = None

    def __call__(self, words: list[str], **_: Any) -> dict[str, list[int]]:
        return {"input_ids": [1, 2], "special_tokens_mask": [1, 1]}


def test_a_tokenizer_without_subwords_is_rejected() -> None:
    with pytest.raises(DataError, match="mute: the tokenizer returns no tokens for a word"):
        get_special_tokens(Mute())
