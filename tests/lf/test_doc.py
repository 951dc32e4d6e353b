"""`Doc`, the input of a labeling function."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.errors import DataError
from convener.lf.doc import Doc
from tests.generators import words


@given(st.lists(words, max_size=6))
def test_tokens_without_text_are_joined_by_spaces(tokens: list[str]) -> None:
    doc = Doc(tokens)
    assert doc.text == " ".join(tokens)
    assert [doc.text[a:b] for a, b in doc.token_offsets] == tokens
    assert (len(doc), list(doc), doc[:]) == (len(tokens), tokens, tokens)


def test_a_doc_is_a_sequence_of_tokens() -> None:
    doc = Doc(["a", "b", "a"])
    assert doc[-1] == "a"
    assert doc[1:] == ["b", "a"]
    assert "b" in doc
    assert "c" not in doc
    assert (doc.index("b"), doc.count("a")) == (1, 2)


def test_a_text_is_tokenized() -> None:
    doc = Doc.from_input("Ada  left.")
    assert list(doc) == ["Ada", "left", "."]
    assert [doc.text[a:b] for a, b in doc.token_offsets] == ["Ada", "left", "."]
    assert Doc.from_input(doc) is doc


def test_token_offsets_may_be_an_array() -> None:
    doc = Doc(["b"], text="a b", token_offsets=np.array([[2, 3]]))
    assert doc.token_offsets == ((2, 3),)
    assert doc.char_to_token == ({2: 0}, {3: 1})


def test_text_and_token_offsets_must_be_given_together() -> None:
    with pytest.raises(DataError, match="must be given together"):
        Doc(["a"], text="a")


def test_repr_shows_text_and_document_id() -> None:
    assert repr(Doc(["Ada", "left"], doc_id="d1")) == "Doc('Ada left', doc_id='d1')"


def test_span_text_is_cut_from_the_original_text() -> None:
    doc = Doc.from_input("New   York!")
    assert doc.span_text(0, 2) == "New   York"
    assert doc.span_text(1, 1) == ""


def test_sentence_docs_are_the_sentences_of_a_document() -> None:
    text = "Ada left.  She wrote."
    doc = Doc(
        ["Ada", "left", ".", "She", "wrote", "."],
        text=text,
        token_offsets=[(0, 3), (4, 8), (8, 9), (11, 14), (15, 20), (20, 21)],
        doc_id="d",
        sentences=[(0, 3), (3, 3), (3, 6)],
    )
    parts = doc.sentence_docs()
    assert [part.text for part in parts] == ["Ada left.", "", "She wrote."]
    assert [[part.text[a:b] for a, b in part.token_offsets] for part in parts] == [
        ["Ada", "left", "."],
        [],
        ["She", "wrote", "."],
    ]
    assert {part.doc_id for part in parts} == {"d"}
    assert Doc(["a"]).sentence_docs()[0].text == "a"


def test_a_doc_is_read_only() -> None:
    doc = Doc(["a", "b"])
    for shared in (doc.tokens, doc.token_offsets, doc.sentences):
        assert isinstance(shared, tuple)
