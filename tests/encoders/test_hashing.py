"""The hashing encoder, compared with a reference implementation in plain Python."""

from __future__ import annotations

import hashlib
import math
import os
import subprocess
import sys
import tracemalloc
import unicodedata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from convener.data.ragged import StringArray, lengths_to_offsets
from convener.encoders import hashing as module
from convener.encoders.base import EncodedBatch
from convener.encoders.hashing import HashingEncoder
from convener.errors import ConfigError, DataError
from tests.generators import SPACED, words

MANY = 1 << 64
GOLDEN = "1", "31b88c76787ada488e973082d523f64bac4d9e01b702f70ab86592b5f04ef805"
CHARACTERS = "2639e9859872c1178d72415522b57a4bda1bba31bfff3947a30e15bf3526b40f"
UNUSUAL = [
    "",
    "Ünïted",
    "DNA",
    "3.5-mg",
    "ΟΔΟΣ",
    "İx",
    "Ǆ",
    "x" * 200,
    "東京" * 40,
    "a🙂" * 30,
    "𠀀",
    "\0",
]
tokens = words | st.sampled_from(UNUSUAL) | st.sampled_from(SPACED)
sentences = st.lists(st.lists(tokens, max_size=7), max_size=6)
settings = st.fixed_dictionaries(
    {},
    optional={
        "width": st.integers(9, 80),
        "shortest": st.integers(1, 3),
        "longest": st.integers(3, 6),
        "window": st.integers(0, 4),
        "seed": st.integers(0, MANY - 1),
    },
)


def encoded(given_sentences: list[list[str]], **given_settings: Any) -> EncodedBatch:
    offsets = lengths_to_offsets([len(sentence) for sentence in given_sentences])
    packed = StringArray.from_list(word for sentence in given_sentences for word in sentence)
    return HashingEncoder(**given_settings).encode(packed, offsets)


def features_of_word(word: str, **given_settings: Any) -> NDArray[np.float32]:
    row: NDArray[np.float32] = encoded([[word]], **given_settings).tokens[0]
    return row


def mix_bits(number: int) -> int:
    number = (number + 0x9E3779B97F4A7C15) % MANY
    number = (number ^ (number >> 30)) * 0xBF58476D1CE4E5B9 % MANY
    number = (number ^ (number >> 27)) * 0x94D049BB133111EB % MANY
    return number ^ (number >> 31)


def shortened(word: str) -> str:
    """The complete characters of the first and last 64 bytes."""
    raw = word.encode("utf-8", "surrogatepass")
    if len(raw) <= 128:
        return word
    head, tail = word, word
    while len(head.encode("utf-8", "surrogatepass")) > 64:
        head = head[:-1]
    while len(tail.encode("utf-8", "surrogatepass")) > 64:
        tail = tail[1:]
    return head + tail


def kind(character: str) -> int:
    if ord(character) >= 0x20000:
        return 3
    category = unicodedata.ucd_3_2_0.category(character)
    if category == "Cn":
        return 9
    return next((k for k, names in enumerate(module.CHAR_CLASSES, 1) if category in names.split()), 0)


def properties(word: str, config: module.HashingConfig) -> list[int]:
    word = shortened(word)
    small = [ord(c.lower()[0] if kind(c) == 1 else c) for c in word]
    places = [0x110000, *small, 0x110001]
    seeds = [mix_bits(number ^ mix_bits(config.seed)) for number in range(3)]
    found = []
    for size in range(config.shortest, config.longest + 1):
        for start in range(len(places) - size + 1):
            piece = places[start : start + size]
            total = mix_bits(piece[0] ^ seeds[0])
            for place in piece[1:]:
                total = mix_bits((total + mix_bits(place ^ seeds[0])) % MANY)
            if size > 1 or piece[0] < 0x110000:
                found.append(total)
    for one, two in pairwise([0, *map(kind, word), 0]):
        if one != two:
            found.append(mix_bits((one * 10 + two) ^ seeds[1]))
    found.append(mix_bits(sum(len(word) >= least for least in (1, 2, 3, 4, 6, 9, 13)) ^ seeds[2]))
    return found


def sketch(hashes: list[int], width: int) -> list[float]:
    sums = [0] * width
    for number in hashes:
        for shift in range(0, 64, 16):
            drawn = (number >> shift) & 0xFFFF
            sums[(drawn >> 1) * width >> 15] += -1 if drawn & 1 else 1
    length = max(1.0, math.sqrt(sum(value**2 for value in sums)))
    return [value / length for value in sums]


def reference_features(sentence: list[str], config: module.HashingConfig) -> NDArray[np.float32]:
    side = math.ceil(config.width / 16)
    own = config.width - 2 * config.window * side
    rows = []
    for at, word in enumerate(sentence):
        row = sketch(properties(word, config), own)
        for step in [*range(-config.window, 0), *range(1, config.window + 1)]:
            if 0 <= at + step < len(sentence):
                hashes = properties(sentence[at + step], config)
                row += sketch([mix_bits(number) for number in hashes], side)
            else:
                row += [0.0] * side
        rows.append(row)
    return np.array(rows, np.float32).reshape(len(sentence), config.width)


@given(sentences, settings)
def test_features_equal_those_of_a_naive_encoder(
    given_sentences: list[list[str]], given_settings: dict[str, int]
) -> None:
    found = encoded(given_sentences, **given_settings)
    expected = [reference_features(each, HashingEncoder(**given_settings).config) for each in given_sentences]
    width = HashingEncoder(**given_settings).dim
    assert found.tokens.dtype == found.sentences.dtype == np.float32
    assert np.array_equal(found.tokens, np.concatenate([np.zeros((0, width)), *expected]))
    means = [rows.mean(axis=0) if len(rows) else np.zeros(width) for rows in expected]
    np.testing.assert_allclose(found.sentences, np.reshape(means, (-1, width)), atol=1e-6)


@given(sentences, st.data())
def test_a_sentence_has_the_same_features_in_any_batch(given_sentences: list[list[str]], data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TOKEN_BLOCK", data.draw(st.integers(1, 9), "tokens at a time"))
        patch.setattr(module, "WORD_BLOCK", data.draw(st.integers(1, 9), "words at a time"))
        together = encoded(given_sentences, width=33, window=2)
    apart = [encoded([sentence], width=33, window=2) for sentence in given_sentences]
    nothing = np.zeros((0, 33), np.float32)
    for found, parts in zip(together, zip(*apart, strict=True), strict=False):
        assert found.tobytes() == np.concatenate([nothing, *parts]).tobytes()


def test_an_encoder_keeps_no_state() -> None:
    words, offsets = StringArray.from_list(["Ada", "wrote", "it"]), np.array([0, 3])
    encoder = HashingEncoder(width=24)
    before = encoder.encode(words, offsets)
    encoder.encode(StringArray.from_list(["it", "Ada", "was"]), np.array([0, 1, 3]))
    again = encoder.encode(StringArray.from_list(["x", "Ada", "wrote", "it"])[1:], offsets)
    assert before.tokens.tobytes() == again.tokens.tobytes()
    assert before.sentences.tobytes() == again.sentences.tobytes()


def test_features_are_the_same_in_every_process() -> None:
    """A changed feature must be intended and increase VERSION."""
    code = (
        "import hashlib\n"
        "from tests.encoders.test_hashing import UNUSUAL, encoded\n"
        "found = encoded([UNUSUAL, ['Aspirin', 'helps']], width=48)\n"
        "print(hashlib.sha256(found.tokens.tobytes()).hexdigest())\n"
    )
    child = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    here = encoded([UNUSUAL, ["Aspirin", "helps"]], width=48).tokens
    assert (module.VERSION, hashlib.sha256(here.tobytes()).hexdigest()) == GOLDEN
    assert child.stdout.strip() == GOLDEN[1]


def test_character_tables_do_not_change() -> None:
    """Python versions have different Unicode tables; ours must not change."""
    lower, kinds = module._character_tables()
    assert hashlib.sha256(lower.tobytes() + kinds.tobytes()).hexdigest() == CHARACTERS


def test_neighbours_outside_the_sentence_are_ignored() -> None:
    plain, left, right, border = encoded(
        [["the", "dose", "was"], ["a", "dose", "was"], ["the", "dose", "is"], ["the"], ["dose"]]
    ).tokens[[1, 4, 7, 10]]
    assert np.array_equal(plain[:224], left[:224])
    assert np.array_equal(plain[240:], left[240:])
    assert not np.array_equal(plain[224:240], left[224:240])
    assert np.array_equal(plain[:240], right[:240])
    assert not np.array_equal(plain[240:], right[240:])
    assert not border[224:].any()


def test_neighbours_in_other_blocks_are_used() -> None:
    long = [f"word{number}" for number in range(3 * module.TOKEN_BLOCK // 2)]
    found = encoded([long], width=32).tokens
    around = [
        module.TOKEN_BLOCK - 2,
        module.TOKEN_BLOCK - 1,
        module.TOKEN_BLOCK,
        module.TOKEN_BLOCK + 1,
    ]
    for at in around:
        assert np.array_equal(found[at], encoded([long[at - 1 : at + 2]], width=32).tokens[1])


def test_similar_spellings_have_similar_features() -> None:
    def likeness(one: str, two: str) -> float:
        return float(features_of_word(one) @ features_of_word(two))

    assert likeness("Aspirin", "Aspirin") == pytest.approx(1, abs=1e-6)
    assert likeness("Aspirin", "aspirin") > likeness("Aspirin", "warfarin")
    assert likeness("Aspirin", "warfarin") > likeness("Aspirin", "the")
    assert likeness("hepatitis", "nephritis") > likeness("hepatitis", "Wednesday")
    assert likeness("1984", "2001") > likeness("1984", "were")
    assert likeness("東京都", "東京") > likeness("東京都", "北海道")
    assert likeness("Αθήνα", "αθήνα") > likeness("Αθήνα", "και")
    assert likeness("Москва", "Москвы") > likeness("Москва", "река")


@given(words)
def test_features_have_the_norm_of_their_parts(word: str) -> None:
    found = encoded([[word, word, word]], width=128).tokens
    np.testing.assert_allclose((found[1, :112] ** 2).sum(), 1, rtol=1e-5)
    assert np.array_equal(found[1, 112:120], found[1, 120:])


@pytest.mark.parametrize("width", [3, 4, 15, 16, 17, 31, 100, 255])
def test_any_width(width: int) -> None:
    found = encoded([["a", "b"], [], ["c"]], width=width)
    assert found.tokens.shape == found.sentences.shape == (3, width)
    assert HashingEncoder(width=width).dim == width


def test_empty_input_gives_empty_features() -> None:
    assert [rows.shape for rows in encoded([])] == [(0, 256), (0, 256)]
    nobody = encoded([[], []])
    assert nobody.tokens.shape == (0, 256)
    assert nobody.sentences.shape == (2, 256)
    assert not nobody.sentences.any()


def test_offsets_must_fit() -> None:
    with pytest.raises(DataError, match="offsets must run from 0 to the 2 tokens"):
        HashingEncoder().encode(StringArray.from_list(["a", "b"]), np.array([0, 1]))


def test_unusual_words_have_distinct_features() -> None:
    unusual = ["", "\ud83d", "\ude42", "🙂", "🙃", "e\u0301", "é", "\0", "\0\0", "a", "a\0", "北", "京"]
    found = encoded([[word] for word in unusual])
    assert np.isfinite(found.tokens).all()
    assert len(np.unique(found.tokens, axis=0)) == len(unusual)
    assert np.array_equal(found.tokens, found.sentences)


@pytest.mark.parametrize("filling", ["x", "é", "漢", "🙂", "\ud83d"])
def test_only_the_ends_of_a_long_word_matter(filling: str) -> None:
    for shift in range(4):
        head, tail = "H" * shift + filling * 70, filling * 70 + "T" * shift
        one, two = features_of_word(head + "abc" * 3000 + tail), features_of_word(head + "xyz" + tail)
        assert np.array_equal(one, two)
        assert not np.array_equal(one, features_of_word("B" + head[1:] + tail))


def test_settings_are_part_of_the_digest() -> None:
    plain = HashingEncoder().spec
    assert plain == HashingEncoder(width=256, seed="0").spec
    assert plain.name == "hashing"
    assert HashingEncoder(**plain.settings).spec == plain
    others = [{"width": 255}, {"seed": 1}, {"shortest": 2}, {"longest": 4}, {"window": 2}]
    assert len({plain.digest, *(HashingEncoder(**some).spec.digest for some in others)}) == 6
    shorter = features_of_word("Aspirin", window=0)
    for some in ({"seed": 1}, {"shortest": 2}, {"longest": 4}):
        assert not np.array_equal(shorter, features_of_word("Aspirin", window=0, **some))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"width": 2}, "width must be from 3 to 32768, got 2"),
        ({"width": 1 << 16}, "width must be from 3 to 32768, got 65536"),
        ({"shortest": 0}, "shortest must be from 1 to 16, got 0"),
        ({"shortest": 5, "longest": 4}, "longest must be from 5 to 16, got 4"),
        ({"window": -1}, "window must be from 0 to 4, got -1"),
        ({"seed": -1}, "seed must be from 0 to 18446744073709551615, got -1"),
        ({"widht": 64}, "no setting of encoder hashing 'widht'; did you mean 'width'?"),
    ],
)
def test_invalid_settings_are_rejected(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HashingEncoder(**wrong)
    assert str(caught.value) == message


@pytest.mark.parametrize(("size", "count"), [(7, 4000), (2000, 1000)])
def test_memory_beyond_the_result_is_bounded(size: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if all words differ or are long."""
    monkeypatch.setattr(module, "TOKEN_BLOCK", 500)
    features_of_word("", width=64)  # tables are made once

    def room(times: int) -> int:
        many = StringArray.from_list(f"{number:0{size}}" for number in range(count * times))
        tracemalloc.start()
        found = HashingEncoder(width=64).encode(many, np.arange(0, count * times + 1, 20))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak - sum(rows.nbytes for rows in found)

    assert room(times=4) < 1.1 * room(times=1) + (1 << 20)
