"""Raw text: sentences, tokens and their offsets."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener.data.tokenize import _ASCII_WORD, WORD, sentence_spans, word_spans
from convener.errors import ConfigError, DataError, FormatError
from convener.io import formats

pytestmark = pytest.mark.slow

PROSE = st.text("aB. !?\n\"'(北。1", max_size=30) | st.text(max_size=20)


@given(PROSE)
def test_sentences_cover_the_text_except_white_space(text: str) -> None:
    spans = sentence_spans(text)
    covered = "".join(text[a:b] for a, b in spans)
    assert "".join(covered.split()) == "".join(text.split())
    for start, end in spans:
        assert text[start:end] == text[start:end].strip() != ""
    assert spans == sorted(spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("He came. She left.", ["He came.", "She left."]),
        ("Dr. Ray met Mr. J. Doe vs. Bob.", ["Dr. Ray met Mr. J. Doe vs. Bob."]),
        ("It cost 3.5 mg. no more", ["It cost 3.5 mg. no more"]),
        ('He said "Go." She went.', ['He said "Go."', "She went."]),
        ("What?! (Really.) Yes", ["What?!", "(Really.)", "Yes"]),
        ("Wait... What", ["Wait...", "What"]),
        ("今天。我去北京！好", ["今天。", "我去北京！", "好"]),
        ("a title\n\nand text. here", ["a title", "and text. here"]),
        ("one.\n\ntwo", ["one.", "two"]),
        ("one line\nwrapped. Two", ["one line\nwrapped.", "Two"]),
        ("Привет. Пока.", ["Привет.", "Пока."]),
        ("etc. 5 of them. 6 more.", ["etc. 5 of them.", "6 more."]),
        ("  \n ", []),
    ],
)
def test_sentence_boundaries(text: str, sentences: list[str]) -> None:
    assert [text[a:b] for a, b in sentence_spans(text)] == sentences


@pytest.mark.parametrize("text", ["." * 200_000, '!"' * 100_000, "\n" * 200_000, "a. " * 60_000])
def test_unusual_text_is_split_in_linear_time(text: str) -> None:
    start = time.monotonic()
    sentence_spans(text)
    assert time.monotonic() - start < 5


@given(st.text("aZ_9-.' \n", max_size=12))
def test_the_ascii_rule_agrees_with_the_general_rule(text: str) -> None:
    assert [m.span() for m in WORD.finditer(text)] == [m.span() for m in _ASCII_WORD.finditer(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我在北京a1。", ["我", "在", "北", "京", "a1", "。"]),
        ("e\u0301tat ก็ดี", ["e\u0301tat", "ก็", "ดี"]),
        ("Zürich-West, naïve", ["Zürich-West", ",", "naïve"]),
    ],
)
def test_tokens_of_other_scripts(text: str, words: list[str]) -> None:
    assert [text[a:b] for a, b in word_spans(text).tolist()] == words


@given(st.dictionaries(st.text("abc", max_size=3), PROSE, max_size=3))
def test_offsets_locate_sentences_and_tokens(texts: dict[str, str]) -> None:
    data = cv.tokenize(texts)
    if not len(data):
        assert not "".join(texts.values()).strip()
        return
    assert data.text is not None
    assert data.doc_ids is not None
    for number in range(len(data)):
        document, start = texts[data.doc_ids[number]], int(data.text.doc_offsets[number])
        sentence = data.text.sentences[number]
        assert document[start : start + len(sentence)] == sentence
        token_offsets = data.text.token_offsets[data.offsets[number] : data.offsets[number + 1]].tolist()
        assert [sentence[a:b] for a, b in token_offsets] == list(data[number].tokens)
    assert set(data.doc_ids) <= set(texts)


def test_texts_may_be_one_a_list_or_by_id() -> None:
    assert list(cv.tokenize("A b.").doc_ids or ()) == ["0"]
    assert list(cv.tokenize(["A.", "B."]).doc_ids or ()) == ["0", "1"]
    assert list(cv.tokenize({"x": "A.", "y": "By. Co."}).doc_ids or ()) == ["x", "y", "y"]
    assert cv.tokenize("A", types=["PER"]).tags.types == ("PER",)
    assert len(cv.tokenize([])) == 0
    with pytest.raises(DataError, match="text 1: expected a string, got int"):
        cv.tokenize(["a", 5])  # type: ignore[list-item]


def test_text_can_be_split_with_spacy() -> None:
    data = cv.tokenize("She  can't go. He  can.\n\n", spacy_pipeline="en")
    assert [list(sentence.tokens) for sentence in data] == [
        ["She", "ca", "n't", "go", "."],
        ["He", "can", "."],
    ]
    assert data.text is not None
    assert data.text.sentences.to_list() == ["She  can't go.", "He  can."]
    assert data.text.doc_offsets.tolist() == [0, 15]
    assert len(cv.tokenize("  ", spacy_pipeline="en")) == 0
    for name in ("xx7", "no_such_pipeline"):
        with pytest.raises(ConfigError, match=f"no spaCy pipeline or language {name!r}"):
            cv.tokenize("a", spacy_pipeline=name)


# Files


def write_text(tmp_path: Path, text: str, name: str = "texts.txt") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_documents_are_lines_or_blocks_between_blank_lines(tmp_path: Path) -> None:
    lines = cv.read(write_text(tmp_path, "Ada left. She wrote\nBob came too\n"))
    assert list(lines.doc_ids) == ["texts-1", "texts-1", "texts-2"]
    blocks = cv.read(write_text(tmp_path, "Ada left\nfor Oslo.\n\n \nBob stayed\n"))
    assert list(blocks.doc_ids) == ["texts-1", "texts-2"]
    assert blocks.text.sentences.to_list() == ["Ada left\nfor Oslo.", "Bob stayed"]


def test_files_can_be_split_with_spacy(tmp_path: Path) -> None:
    data = cv.read(write_text(tmp_path, "She can't."), spacy_pipeline="en")
    assert data[0].tokens == ("She", "ca", "n't", ".")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Ada left London in 1840.\nShe wrote.\n", "raw"),
        ("One line of text with many words.", "raw"),
        ("Ada B-PER\nleft O\n", "conll"),
        ("Ada B-PER\nleft\n", "conll"),  # malformed columns are still columns
        ("Ada NNP\nleft VBD\n", "conll"),
        ("-DOCSTART- O\n\nAda B-PER extra\n", "conll"),
        ("# a comment\nAda left it\nB", "conll"),
        ("Ada\nleft\n", "conll"),
        ("Ada left\nfor Oslo.\n\nBob stayed\n", "raw"),
        ("", "conll"),
    ],
)
def test_raw_text_is_distinguished_from_columns(tmp_path: Path, text: str, name: str) -> None:
    assert formats.detect_format(write_text(tmp_path, text)).name == name


def test_raw_text_cannot_be_written(tmp_path: Path, toy: cv.Dataset) -> None:
    full = toy.take(toy.lengths > 0)
    with pytest.raises(FormatError, match="format 'raw' is read-only"):
        cv.write(full, tmp_path / "x.txt", format="raw")
    assert formats.format_for_suffix(tmp_path / "x.txt").name == "conll"


def test_types_can_be_given(tmp_path: Path) -> None:
    assert cv.read(write_text(tmp_path, "Ada left."), types=("PER",)).tags.types == ("PER",)
