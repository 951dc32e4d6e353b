"""Where caches lie, and their keys."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest

from convener.storage import BLOCK_SIZE, arrays_digest, cache_dir, compute_digest, file_digest, resolve_cache_dir


def test_the_cache_lies_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVENER_CACHE", str(tmp_path / "own"))
    assert cache_dir() == resolve_cache_dir(True) == tmp_path / "own"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONVENER_CACHE", "~/own")
    assert cache_dir() == tmp_path / "own"


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
    assert cache_dir() == tmp_path / place
    if system == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        assert cache_dir() == tmp_path / ".cache" / "convener"


def test_a_digest_is_of_the_parts_and_where_they_end() -> None:
    assert compute_digest("ab", "c") != compute_digest("a", "bc")
    assert compute_digest({"a": 1, "b": 2}) == compute_digest({"b": 2, "a": 1})
    assert compute_digest(b"ab") == compute_digest("ab")


def test_arrays_are_digested_by_what_they_hold() -> None:
    numbers = np.arange(BLOCK_SIZE + 7)
    again = np.arange(2 * BLOCK_SIZE + 14)[::2] // 2
    assert arrays_digest([numbers]) == arrays_digest([again])
    assert arrays_digest([numbers]) != arrays_digest([numbers[:5], numbers[5:]])


@pytest.mark.parametrize("content", [b"", b"ab", bytes(range(256)) * (BLOCK_SIZE // 64)])
def test_a_file_is_digested_by_its_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert file_digest(tmp_path / "file") == hashlib.sha256(content).hexdigest()
