"""The cache: what makes a key, what is found again, what is pruned."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener import caching
from convener.encode import cache as caches
from convener.encode import get, store
from convener.encode.cache import Entry, entries, features_of, key_of, place_of, prunable, remove
from convener.errors import ConvenerWarning, DataError
from tests.generators import datasets

from .toys import Lengths, corpus, dataset

WORDS = [["Ada", "met", "Bob"], [], ["in", "Oslo"]]


# Keys


def key(sentences: list[list[str]], encoder: Any = None, dtype: Any = "float16") -> str:
    return key_of(dataset(sentences), encoder or get("hashing"), dtype)


@pytest.mark.parametrize(
    "other",
    [
        [["Ada", "met", "Bob"], [], ["in", "oslo"]],
        [["Ada", "met", "Bob"], [], ["in", "Oslo "]],
        [["Ada", "met", "Bob"], ["in", "Oslo"]],
        [["Ada", "met"], ["Bob"], ["in", "Oslo"]],
        [["Ada", "met", "Bob"], ["in", "Oslo"], []],
        [["Adam", "et", "Bob"], [], ["in", "Oslo"]],
        [["in", "Oslo"], [], ["Ada", "met", "Bob"]],
        [["Ada", "met", "Bob"], [], ["in", "Oslo", ""]],
        [],
    ],
)
def test_another_text_has_another_key(other: list[list[str]]) -> None:
    assert key(other) != key(WORDS)


def test_another_encoder_setting_or_type_has_another_key() -> None:
    keys = [
        key(WORDS),
        key(WORDS, get("hashing", width=64)),
        key(WORDS, get("hashing", seed=1)),
        key(WORDS, Lengths()),
        key(WORDS, Lengths(scale=2)),
        key(WORDS, dtype="bfloat16"),
        key(WORDS, dtype="float32"),
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(word) == 32 and word.isalnum() for word in keys)


def test_a_key_does_not_change_from_process_to_process() -> None:
    """To change what a key is made of is to throw away every cache there is."""
    assert key(WORDS, Lengths()) == "08331a83394aeddc963a865b28771083"


def test_votes_gold_and_sources_do_not_matter(toy: cv.Dataset) -> None:
    encoder = get("hashing")
    expected = key_of(toy, encoder, "float16")
    for same in (
        toy.without_gold(),
        toy.select_sources(["fair"]),
        toy.with_types(["LOC", "PER"]),
        replace(toy, votes=np.zeros_like(toy.votes)),
        toy.take(range(len(toy))),
        toy[:],
        cv.Dataset.concat([toy[:7], toy[7:]]),
    ):
        assert key_of(same, encoder, "float16") == expected
    assert key_of(toy[1:], encoder, "float16") != expected


@given(datasets(), st.integers(0, 5), st.integers(0, 5))
def test_a_slice_has_the_key_of_the_same_text_anywhere(
    data: cv.Dataset, start: int, length: int
) -> None:
    part = data[start : start + length]
    words = [sentence.tokens for sentence in part]
    assert key_of(part, Lengths(), "float16") == key(words, Lengths())


# Finding again


def test_features_are_computed_once(cache: Path) -> None:
    encoder, data = Lengths(), corpus()
    first = features_of(data, encoder, "float16", cache)
    again = features_of(data.without_gold(), encoder, "float16", cache)
    assert encoder.calls == 1
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert isinstance(again.tokens, np.memmap)
    features_of(data, encoder, "float32", cache)
    features_of(data[:3], encoder, "float16", cache)
    assert encoder.calls == 3
    assert len(entries(cache)) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda place: os.truncate(place / store.TOKENS, 7),
        lambda place: (place / store.SENTENCES).unlink(),
        lambda place: (place / store.FACTS).write_text("{"),
        lambda place: shutil.rmtree(place) or place.mkdir(),
    ],
)
def test_damaged_features_are_encoded_again_and_it_is_said(cache: Path, damage: Any) -> None:
    encoder, data = Lengths(), corpus()
    whole = np.array(features_of(data, encoder, "float16", cache).tokens)
    place = place_of(data, encoder, "float16", cache)
    damage(place)
    with pytest.warns(ConvenerWarning, match=f"{place}.*; encoding again"):
        found = features_of(data, encoder, "float16", cache)
    np.testing.assert_array_equal(found.tokens, whole)
    assert encoder.calls == 2
    features_of(data, encoder, "float16", cache)  # now it is whole, and nothing is said
    assert encoder.calls == 2


def test_a_cache_one_may_only_read_is_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: permissions do not bind an administrator."""
    encoder, data = Lengths(), corpus()
    features_of(data, encoder, "float16", cache)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    features_of(data, encoder, "float16", cache)
    assert encoder.calls == 1
    with pytest.raises(DataError, match="features cannot be written: Permission denied"):
        features_of(data[:3], encoder, "float16", cache)
    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(DataError, match="cannot be removed: Permission denied"):
        remove(entries(cache))


# Listing and pruning


def test_entries_tell_what_is_there_the_last_used_first(cache: Path) -> None:
    assert entries(cache) == []
    encoder = Lengths()
    for number, data in enumerate([corpus(), corpus()[:5], corpus()[:9]]):
        features_of(data, encoder, "bfloat16", cache)
        place = place_of(data, encoder, "bfloat16", cache)
        for file in place.iterdir():
            os.utime(file, (1e9 + number, 1e9 + number))
    found = entries(cache)
    assert [entry.sentences for entry in found] == [9, 5, 100]
    last = found[-1]
    assert (last.encoder, last.tokens, last.width, last.dtype) == (
        "lengths",
        len(corpus().tokens),
        3,
        "bfloat16",
    )
    assert last.bytes > (last.tokens + last.sentences) * 3 * 2
    assert last.finished
    assert last.key == key_of(corpus(), encoder, "bfloat16")
    features_of(corpus(), encoder, "bfloat16", cache)  # to use it is to be the last that did
    assert [entry.sentences for entry in entries(cache)] == [100, 9, 5]


def test_what_is_no_entry_is_passed_over(cache: Path) -> None:
    features_of(corpus(), Lengths(), "float16", cache)
    home = cache / caches.FEATURES
    (home / "stray.txt").write_text("not ours")
    (home / "empty").mkdir()
    (home / "odd").mkdir()
    (home / "odd" / store.FACTS).write_text('{"encoding": 7, "version": 1}')
    kinds = {entry.key: entry.encoder for entry in entries(cache)}
    assert kinds.pop("empty") == kinds.pop("odd") == "?"
    assert list(kinds.values()) == ["lengths"]


def entry(name: str, *, days: float = 0, size: int = 10, encoder: str = "a") -> Entry:
    return Entry(Path(name), encoder, 1, 1, 1, "float16", size, NOW - days * caching.DAY)


NOW = 2e9
FOUND = [
    entry("new", days=0, size=10),
    entry("half.partial", days=1, size=20),
    entry("week", days=7, size=30, encoder="b"),
    entry("old", days=100, size=5),
]


@pytest.mark.parametrize(
    ("conditions", "gone"),
    [
        ({}, []),
        ({"encoder": "b"}, ["week"]),
        ({"encoder": "c"}, []),
        ({"older_than": 7.5}, ["old"]),
        ({"older_than": 0.5}, ["half", "week", "old"]),
        ({"unfinished": True}, ["half"]),
        ({"encoder": "b", "unfinished": True}, ["half", "week"]),
        ({"keep_bytes": 65}, []),
        ({"keep_bytes": 64}, ["old"]),
        ({"keep_bytes": 59}, ["week", "old"]),
        ({"keep_bytes": 0}, ["new", "half", "week", "old"]),
        ({"keep_bytes": 15, "unfinished": True, "encoder": "b"}, ["half", "week"]),
        ({"keep_bytes": 14, "unfinished": True, "encoder": "b"}, ["half", "week", "old"]),
    ],
)
def test_conditions_choose_what_is_pruned(
    monkeypatch: pytest.MonkeyPatch, conditions: dict[str, Any], gone: list[str]
) -> None:
    monkeypatch.setattr(caching.time, "time", lambda: NOW)
    assert [chosen.key for chosen in prunable(FOUND, **conditions)] == gone


def test_removing_frees_what_it_says(cache: Path) -> None:
    for data in (corpus(), corpus()[:5]):
        features_of(data, Lengths(), "float16", cache)
    chosen = [entry for entry in entries(cache) if entry.sentences == 5]
    assert remove(chosen) == chosen[0].bytes > 0
    assert [entry.sentences for entry in entries(cache)] == [100]
    assert remove(chosen) == chosen[0].bytes  # gone already, by another process perhaps


def test_what_a_process_is_writing_is_not_pruned(cache: Path) -> None:
    encoder = Lengths()
    draft = place_of(corpus(), encoder, "float16", cache)
    draft = draft.with_name(draft.name + store.PARTIAL)
    draft.mkdir(parents=True)
    everything = {"keep_bytes": -1, "unfinished": True}
    with store._locked(draft):
        assert [entry.busy for entry in entries(cache)] == [True]
        assert prunable(entries(cache), **everything) == []
    store.lock_of(draft).write_text("")  # as a process that was killed leaves it
    left = entries(cache)
    assert [(entry.busy, entry.finished, entry.encoder) for entry in left] == [(False, False, "?")]
    assert prunable(left, **everything) == left
    remove(left)
    assert list((cache / caches.FEATURES).iterdir()) == []
