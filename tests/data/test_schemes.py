"""Tagging schemes, compared with a token-by-token reader."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.data.ragged import lengths_to_offsets
from convener.data.schemes import (
    POSITION_BY_PREFIX,
    ChunkPosition,
    RepairPolicy,
    from_bio,
    is_io_or_iob1,
    is_sentence_start,
    parse_tag,
    to_bio,
)
from convener.data.tags import TagSet
from convener.errors import DataError
from tests.generators import legal_labels, sentence_lengths

TAGS = TagSet(("PER", "B-X"))
ALPHABETS = {
    "bio": "BI",
    "io": "I",
    "iobes": "BIES",
    "biluo": "BILU",
    "bmes": "BMES",
    "bmewo": "BMEW",
}
tag_alphabets = st.sampled_from(sorted(ALPHABETS.values()))


class Reading(NamedTuple):
    """BIO tags, and the indices of illegal tokens."""

    tags: list[str]
    illegal: list[int]


class Chunk(NamedTuple):
    """Tokens of one span in a sentence."""

    first: int
    size: int
    kind: str
    stray: bool
    """Whether it began with a continuation."""
    closed: bool


def chunks(tags: list[str]) -> list[Chunk]:
    """Read one sentence: a chunk is open until its end, or until another chunk begins."""
    found: list[Chunk] = []
    for place, tag in enumerate(tags):
        if tag in ("", "O"):
            continue
        letter, kind = tag[0], tag[2:]
        last = found[-1] if found else None
        adjoins = last is not None and last.first + last.size == place
        if letter in "IMEL" and adjoins and last.kind == kind and not last.closed:
            found[-1] = last._replace(size=last.size + 1, closed=letter in "EL")
        else:
            found.append(Chunk(place, 1, kind, letter in "IMEL", letter in "ELSUW"))
    return found


def walk(sentences: list[list[str]], policy: RepairPolicy) -> Reading:
    """The BIO reading of tags, one token after the other.

    A chunk is bad if it is stray, or never closed although these tags have a way to close.
    """
    closing = any(tag[:1] in tuple("ELSUW") for tags in sentences for tag in tags)
    written: list[str] = []
    illegal: set[int] = set()
    for tags in sentences:
        sentence = ["" if tag == "" else "O" for tag in tags]
        for first, size, kind, stray, closed in chunks(tags):
            if stray:
                illegal.add(len(written) + first)
            if closing and not closed:
                illegal.add(len(written) + first + size - 1)
            if policy == "start" or not (stray or (closing and not closed)):
                sentence[first : first + size] = [f"B-{kind}"] + [f"I-{kind}"] * (size - 1)
        written += sentence
    return Reading(written, sorted(illegal))


def read(sentences: list[list[str]], policy: RepairPolicy) -> Reading:
    """The same computed by `to_bio`; "" is abstain."""
    spelled = [(ChunkPosition.ABSTAIN, 7) if tag == "" else parse_tag(tag) for tags in sentences for tag in tags]
    place = np.array([place for place, _ in spelled], np.int8)
    kind = np.array([TAGS.types.index(n) if n in TAGS.types else 7 for _, n in spelled], np.int16)
    labels, illegal = to_bio(place, kind, lengths_to_offsets(map(len, sentences)), policy)
    return Reading([(*TAGS.names, "")[label] for label in labels], illegal.tolist())


@st.composite
def tag_sentences(draw: st.DrawFn) -> list[list[str]]:
    """Sentences of tags in one alphabet, mostly illegal, with abstain and empty sentences."""
    prefixes = draw(tag_alphabets)
    tags = ["O", "", *(f"{prefix}-{name}" for prefix in prefixes for name in TAGS.types)]
    return [
        draw(st.lists(st.sampled_from(tags), min_size=length, max_size=length)) for length in draw(sentence_lengths())
    ]


@given(tag_sentences(), st.sampled_from(["start", "drop"]))
def test_repair_matches_a_token_by_token_reader(sentences: list[list[str]], policy: RepairPolicy) -> None:
    assert read(sentences, policy) == walk(sentences, policy)


@given(tag_sentences())
def test_the_policy_error_raises_for_illegal_tags_only(sentences: list[list[str]]) -> None:
    expected = walk(sentences, "start")
    if not expected.illegal:
        assert read(sentences, "error") == expected
        return
    first, count = expected.illegal[0], len(expected.illegal)
    with pytest.raises(DataError, match=rf"at token {first} \({count} illegal tags in total\)"):
        read(sentences, "error")


@pytest.mark.parametrize(
    ("tags", "begin", "drop"),
    [
        ("O I-PER I-PER", "O B-PER I-PER", "O O O"),
        ("B-PER I-B-X", "B-PER B-B-X", "B-PER O"),
        ("S-PER I-PER E-PER", "B-PER B-PER I-PER", "B-PER O O"),
        ("B-PER O S-PER", "B-PER O B-PER", "O O B-PER"),
        ("B-PER I-PER O", "B-PER I-PER O", "B-PER I-PER O"),
        ("E-PER E-PER", "B-PER B-PER", "O O"),
        ("B-PER E-PER E-PER", "B-PER I-PER B-PER", "B-PER I-PER O"),
        ("S-PER B-PER I-PER", "B-PER B-PER I-PER", "B-PER O O"),
        ("B-PER B-PER L-PER", "B-PER B-PER I-PER", "O B-PER I-PER"),
    ],
)
def test_known_sequences(tags: str, begin: str, drop: str) -> None:
    assert read([tags.split()], "start").tags == begin.split()
    assert read([tags.split()], "drop").tags == drop.split()


def test_a_span_never_crosses_a_sentence_boundary() -> None:
    assert read([["B-PER"], [], ["I-PER"]], "start") == (["B-PER", "B-PER"], [1])
    assert read([["B-PER"], ["I-PER"]], "drop") == (["B-PER", "O"], [1])


def test_abstain_interrupts_a_span() -> None:
    assert read([["B-PER", "", "I-PER"]], "drop") == (["B-PER", "", "O"], [2])


@pytest.mark.parametrize("separator", ["-", "_"])
@pytest.mark.parametrize("name", ["PER", "O", "B-X", "-", "_", "a b", "病"])
@pytest.mark.parametrize("prefix", sorted(POSITION_BY_PREFIX))
def test_a_tag_is_a_prefix_and_a_type(prefix: str, name: str, separator: str) -> None:
    assert parse_tag(prefix + separator + name) == (POSITION_BY_PREFIX[prefix], name)


@pytest.mark.parametrize("tag", ["", "B", "B-", "-", "NNP", "X-PER", "b-PER", "BPER", "o", "O-PER"])
def test_other_tags_are_rejected(tag: str) -> None:
    with pytest.raises(DataError, match=f"'{tag}' is not a chunk tag: expected O"):
        parse_tag(tag)


@given(st.lists(st.integers(-1, 8)))
def test_from_bio_matches_parse_tag(labels: list[int]) -> None:
    names = TagSet(("a", "b", "c", "d")).names
    place, kind = from_bio(np.array(labels, np.int16))
    for label, where, number in zip(labels, place.tolist(), kind.tolist(), strict=True):
        if label < 0:
            assert where == ChunkPosition.ABSTAIN
            continue
        expected, name = parse_tag(names[label])
        assert where == expected
        assert expected == ChunkPosition.OUTSIDE or "abcd"[number] == name


@given(sentence_lengths(), st.integers(0, 3))
def test_sentence_starts_are_the_offsets(lengths: list[int], shift: int) -> None:
    expected = [position == 0 for length in lengths for position in range(length)]
    assert is_sentence_start(sum(lengths), lengths_to_offsets(lengths) + shift).tolist() == expected


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        (["O I-X I-X", "I-Y"], True),  # IO
        (["I-X I-X B-X I-X", "I-Y"], True),  # IOB1
        (["I-X I-Y B-Y"], True),
        (["O I-X", "B-X"], False),  # the sentence border parts the spans
        (["I-X B-Y"], False),
        (["I-X O B-X"], False),
        (["B-X I-X", "I-Y"], False),
        (["I-X E-X"], False),
        (["I-X", "S-X"], False),
        (["", "O O"], True),  # nothing tells
    ],
)
def test_io_and_iob1_are_recognized_by_b_tags(sentences: list[str], expected: bool) -> None:
    tags = [parse_tag(tag) for sentence in sentences for tag in sentence.split()]
    place = np.array([place for place, _ in tags], np.int8)
    kind = np.array(["XY".find(name) for _, name in tags], np.int16)
    offsets = lengths_to_offsets(len(sentence.split()) for sentence in sentences)
    assert is_io_or_iob1(place, kind, offsets) == expected


@given(st.data())
def test_tags_written_as_io_are_recognized(data: st.DataObject) -> None:
    lengths = data.draw(sentence_lengths())
    labels = data.draw(legal_labels(TAGS, lengths))
    offsets = lengths_to_offsets(lengths)
    tags = TAGS.decode(labels, offsets, scheme="io")
    place = np.array([parse_tag(tag)[0] for tag in tags], np.int8)
    assert is_io_or_iob1(place, (labels - 1) // 2, offsets)
