"""Where caches lie, and their keys."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest

from convener.caching import BLOCK, chosen, digest_of, digest_of_arrays, digest_of_file, root


def test_the_cache_lies_where_the_variable_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONVENER_CACHE", str(tmp_path / "own"))
    assert root() == chosen(True) == tmp_path / "own"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONVENER_CACHE", "~/own")
    assert root() == tmp_path / "own"


@pytest.mark.parametrize(
    ("system", "place"),
    [
        ("linux", "x/convener"),
        ("darwin", "Library/Caches/convener"),
        ("win32", "local/convener/cache"),
    ],
)
def test_without_the_variable_it_lies_where_systems_keep_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, place: str
) -> None:
    monkeypatch.delenv("CONVENER_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setattr(sys, "platform", system)
    assert root() == tmp_path / place
    if system == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        assert root() == tmp_path / ".cache" / "convener"


def test_a_digest_is_of_the_parts_and_where_they_end() -> None:
    assert digest_of("ab", "c") != digest_of("a", "bc")
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of(b"ab") == digest_of("ab")


def test_arrays_are_digested_by_what_they_hold() -> None:
    numbers = np.arange(BLOCK + 7)
    again = np.arange(2 * BLOCK + 14)[::2] // 2
    assert digest_of_arrays([numbers]) == digest_of_arrays([again])
    assert digest_of_arrays([numbers]) != digest_of_arrays([numbers[:5], numbers[5:]])


@pytest.mark.parametrize("content", [b"", b"ab", bytes(range(256)) * (BLOCK // 64)])
def test_a_file_is_digested_by_its_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert digest_of_file(tmp_path / "file") == hashlib.sha256(content).hexdigest()
