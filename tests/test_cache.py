"""The cache directory, and which of its entries are pruned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from convener import cache
from convener.cache import SECONDS_PER_DAY, CacheEntry, cache_dir, entries_to_prune, resolve_cache_dir


def test_the_variable_sets_the_cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONVENER_CACHE_DIR", str(tmp_path / "own"))
    assert cache_dir() == resolve_cache_dir(True) == tmp_path / "own"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONVENER_CACHE_DIR", "~/own")
    assert cache_dir() == tmp_path / "own"


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("linux", "x/convener"),
        ("darwin", "Library/Caches/convener"),
        ("win32", "local/convener/cache"),
    ],
)
def test_the_default_cache_dir_follows_the_operating_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, expected: str
) -> None:
    monkeypatch.delenv("CONVENER_CACHE_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setattr(sys, "platform", system)
    assert cache_dir() == tmp_path / expected
    if system == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        assert cache_dir() == tmp_path / ".cache" / "convener"


def entry(
    name: str, *, days: float = 0, size: int = 10, label: str = "a", kind: str = "features", in_use: bool = False
) -> CacheEntry:
    last_used = NOW - days * SECONDS_PER_DAY
    return CacheEntry(kind=kind, path=Path(name), label=label, size=size, last_used=last_used, in_use=in_use)


NOW = 2e9
FOUND = [
    entry("new", days=0, size=10),
    entry("half.partial", days=1, size=20),
    entry("week", days=7, size=30, label="b"),
    entry("old", days=100, size=5, kind="votes", label="b"),
    entry("now.partial", size=1000, in_use=True),
]


@pytest.mark.parametrize(
    ("conditions", "gone"),
    [
        ({}, []),
        ({"encoder": "b"}, ["week"]),
        ({"encoder": "c"}, []),
        ({"older_than": 7.5}, ["old"]),
        ({"older_than": 0.5}, ["half", "week", "old"]),
        ({"incomplete": True}, ["half"]),
        ({"encoder": "b", "incomplete": True}, ["half", "week"]),
        ({"max_bytes": 65}, []),
        ({"max_bytes": 64}, ["old"]),
        ({"max_bytes": 59}, ["week", "old"]),
        ({"max_bytes": 0}, ["new", "half", "week", "old"]),
        ({"max_bytes": 15, "incomplete": True, "encoder": "b"}, ["half", "week"]),
        ({"max_bytes": 14, "incomplete": True, "encoder": "b"}, ["half", "week", "old"]),
    ],
)
def test_conditions_select_entries_to_prune(
    monkeypatch: pytest.MonkeyPatch, conditions: dict[str, Any], gone: list[str]
) -> None:
    monkeypatch.setattr(cache.time, "time", lambda: NOW)
    assert [chosen.key for chosen in entries_to_prune(FOUND, **conditions)] == gone
