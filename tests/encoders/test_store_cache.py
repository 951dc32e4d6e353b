"""The feature cache: keys, lookup, pruning."""

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
from convener.cache import (
    CACHE_METADATA_FILE,
    FEATURES_DIR,
    PARTIAL_SUFFIX,
    entries_to_prune,
    list_cache,
    lock_path,
    remove_entries,
)
from convener.encoders import get_encoder, store
from convener.encoders.store import cache_key, features_path, load_or_encode
from convener.errors import ConvenerWarning, DataError
from tests.generators import datasets

from .toys import Lengths, corpus, dataset

WORDS = [["Ada", "met", "Bob"], [], ["in", "Oslo"]]


# Keys


def key(sentences: list[list[str]], encoder: Any = None, dtype: Any = "float16") -> str:
    return cache_key(dataset(sentences), encoder or get_encoder("hashing"), dtype)


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
        key(WORDS, get_encoder("hashing", width=64)),
        key(WORDS, get_encoder("hashing", seed=1)),
        key(WORDS, Lengths()),
        key(WORDS, Lengths(scale=2)),
        key(WORDS, dtype="bfloat16"),
        key(WORDS, dtype="float32"),
    ]
    assert len(set(keys)) == len(keys)
    assert all(len(word) == 32 and word.isalnum() for word in keys)


def test_a_key_is_the_same_in_every_process() -> None:
    """A change of the key invalidates every existing cache."""
    assert key(WORDS, Lengths()) == "ad239f9ca0952399fcdcdd4af10edb6c"


def test_the_key_ignores_votes_gold_and_sources(toy: cv.Dataset) -> None:
    encoder = get_encoder("hashing")
    expected = cache_key(toy, encoder, "float16")
    for same in (
        toy.without_gold(),
        toy.select_sources(["fair"]),
        toy.with_types(["LOC", "PER"]),
        replace(toy, votes=np.zeros_like(toy.votes)),
        toy.take(range(len(toy))),
        toy[:],
        cv.Dataset.concat([toy[:7], toy[7:]]),
    ):
        assert cache_key(same, encoder, "float16") == expected
    assert cache_key(toy[1:], encoder, "float16") != expected


@given(datasets(), st.integers(0, 5), st.integers(0, 5))
def test_a_slice_has_the_key_of_the_same_text_anywhere(data: cv.Dataset, start: int, length: int) -> None:
    part = data[start : start + length]
    words = [list(sentence.tokens) for sentence in part]
    assert cache_key(part, Lengths(), "float16") == key(words, Lengths())


# Finding again


def test_features_are_computed_once(cache: Path) -> None:
    encoder, data = Lengths(), corpus()
    first = load_or_encode(data, encoder, "float16", cache)
    again = load_or_encode(data.without_gold(), encoder, "float16", cache)
    assert encoder.calls == 1
    np.testing.assert_array_equal(first.tokens, again.tokens)
    assert isinstance(again.tokens, np.memmap)
    load_or_encode(data, encoder, "float32", cache)
    load_or_encode(data[:3], encoder, "float16", cache)
    assert encoder.calls == 3
    assert len(list_cache(cache)) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda place: os.truncate(place / store.TOKENS_FILE, 7),
        lambda place: (place / store.SENTENCES_FILE).unlink(),
        lambda place: (place / CACHE_METADATA_FILE).write_text("{"),
        lambda place: shutil.rmtree(place) or place.mkdir(),
    ],
)
def test_damaged_features_are_computed_again_with_a_warning(cache: Path, damage: Any) -> None:
    encoder, data = Lengths(), corpus()
    whole = np.array(load_or_encode(data, encoder, "float16", cache).tokens)
    place = features_path(data, encoder, "float16", cache)
    damage(place)
    with pytest.warns(ConvenerWarning, match=f"{place}.*; computing the features again"):
        found = load_or_encode(data, encoder, "float16", cache)
    np.testing.assert_array_equal(found.tokens, whole)
    assert encoder.calls == 2
    load_or_encode(data, encoder, "float16", cache)  # now it is whole, and nothing is message
    assert encoder.calls == 2


def test_a_read_only_cache_is_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated, because permissions do not apply to an administrator."""
    encoder, data = Lengths(), corpus()
    load_or_encode(data, encoder, "float16", cache)

    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(Path, "mkdir", refuse)
    load_or_encode(data, encoder, "float16", cache)
    assert encoder.calls == 1
    with pytest.raises(DataError, match="cannot write features: Permission denied"):
        load_or_encode(data[:3], encoder, "float16", cache)
    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(DataError, match="cannot be removed: Permission denied"):
        remove_entries(list_cache(cache))


# Listing and pruning


def test_entries_are_listed_most_recently_used_first(cache: Path) -> None:
    assert list_cache(cache) == []
    encoder = Lengths()
    for number, data in enumerate([corpus(), corpus()[:5], corpus()[:9]]):
        load_or_encode(data, encoder, "bfloat16", cache)
        place = features_path(data, encoder, "bfloat16", cache)
        for file in place.iterdir():
            os.utime(file, (1e9 + number, 1e9 + number))
    found = list_cache(cache)
    assert [entry.details["sentences"] for entry in found] == [9, 5, 100]
    last = found[-1]
    assert (last.kind, last.label) == ("features", "lengths")
    assert [last.details[name] for name in ("tokens", "dim", "dtype")] == [len(corpus().tokens), 3, "bfloat16"]
    assert last.size > (len(corpus().tokens) + len(corpus())) * 3 * 2
    assert last.complete
    assert last.key == cache_key(corpus(), encoder, "bfloat16")
    load_or_encode(corpus(), encoder, "bfloat16", cache)  # to use it is to be the last that did
    assert [entry.details["sentences"] for entry in list_cache(cache)] == [100, 9, 5]


def test_other_files_are_ignored(cache: Path) -> None:
    load_or_encode(corpus(), Lengths(), "float16", cache)
    home = cache / FEATURES_DIR
    (home / "stray.txt").write_text("not ours")
    (home / "empty").mkdir()
    (home / "odd").mkdir()
    (home / "odd" / CACHE_METADATA_FILE).write_text('{"encoder": 7, "version": 1}')
    labels = {entry.key: entry.label for entry in list_cache(cache)}
    assert labels.pop("empty") == labels.pop("odd") == "?"
    assert list(labels.values()) == ["lengths"]


def test_removed_features_are_gone(cache: Path) -> None:
    for data in (corpus(), corpus()[:5]):
        load_or_encode(data, Lengths(), "float16", cache)
    chosen = [entry for entry in list_cache(cache) if entry.details["sentences"] == 5]
    remove_entries(chosen)
    assert [entry.details["sentences"] for entry in list_cache(cache)] == [100]
    remove_entries(chosen)  # gone already, by another process perhaps


def test_entries_being_written_are_not_pruned(cache: Path) -> None:
    encoder = Lengths()
    draft = features_path(corpus(), encoder, "float16", cache)
    draft = draft.with_name(draft.name + PARTIAL_SUFFIX)
    draft.mkdir(parents=True)
    everything = {"max_bytes": -1, "incomplete": True}
    with store._write_lock(draft):
        assert [entry.in_use for entry in list_cache(cache)] == [True]
        assert entries_to_prune(list_cache(cache), **everything) == []
    lock_path(draft).write_text("")  # as a process that was killed leaves it
    left = list_cache(cache)
    assert [(entry.in_use, entry.complete, entry.label) for entry in left] == [(False, False, "?")]
    assert entries_to_prune(left, **everything) == left
    remove_entries(left)
    assert list((cache / FEATURES_DIR).iterdir()) == []
