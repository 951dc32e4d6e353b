"""Views in the cache."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from convener.errors import DataError
from convener.report import Account
from convener.report.viewer import prepare
from convener.report.views import FACTS, HOUR, VIEWS, entries, place_of, prunable, remove


def aged(folder: Path, seconds: float) -> None:
    for file in folder.rglob("*"):
        os.utime(file, (time.time() - seconds,) * 2)


@pytest.fixture
def cache(vote: Account, tmp_path: Path) -> Path:
    """Two views, one of them used an hour ago, and a draft that was left two hours ago."""
    for name in ("old", "new"):
        prepare(place_of(tmp_path, name * 20), lambda: vote)
    aged(place_of(tmp_path, "old" * 20), HOUR)
    shutil.copytree(place_of(tmp_path, "new" * 20), tmp_path / VIEWS / ".gone.x7" / "gone")
    aged(tmp_path / VIEWS / ".gone.x7", 2 * HOUR)
    return tmp_path


def test_entries_are_the_last_used_first(cache: Path, vote: Account) -> None:
    new, old, gone = entries(cache)
    assert [new.key, old.key, gone.key] == [("new" * 20)[:32], ("old" * 20)[:32], ".gone.x7"]
    assert (new.title, new.sentences, new.finished) == ("vote", len(vote.data), True)
    assert new.bytes == sum(file.stat().st_size for file in new.folder.iterdir())
    assert new.used == pytest.approx(time.time(), abs=60)
    assert old.used == pytest.approx(time.time() - HOUR, abs=60)
    assert (gone.title, gone.sentences, gone.finished) == ("?", None, False)
    assert gone.bytes == new.bytes


def test_there_may_be_none(tmp_path: Path) -> None:
    assert entries(tmp_path) == []
    (tmp_path / VIEWS).mkdir()
    (tmp_path / VIEWS / "a file").write_text("")
    assert entries(tmp_path) == []


@pytest.mark.parametrize("facts", [None, "", "[1]", "{", "{}"])
def test_a_view_that_says_nothing_of_itself_is_listed(cache: Path, facts: str | None) -> None:
    view = entries(cache)[0].folder
    (view / FACTS).unlink()
    if facts is not None:
        (view / FACTS).write_text(facts)
    entry = next(entry for entry in entries(cache) if entry.folder == view)
    assert (entry.title, entry.sentences) == ("?", None)


def test_what_may_go(cache: Path) -> None:
    new, old, gone = found = entries(cache)
    assert prunable(found) == []
    assert prunable(found, unfinished=True) == [gone]
    assert prunable(found, older_than=0.5 / 24) == [old, gone]
    assert prunable(found, older_than=0.5 / 24, unfinished=True) == [old, gone]
    assert prunable(found, keep_bytes=new.bytes) == [old, gone]
    assert prunable(found, keep_bytes=-1, unfinished=True) == found


def test_a_draft_that_is_being_written_stays(cache: Path) -> None:
    aged(cache / VIEWS / ".gone.x7", 0)
    assert prunable(entries(cache), unfinished=True) == []


def test_what_is_removed_is_gone(cache: Path) -> None:
    _, old, _ = found = entries(cache)
    remove([old])
    assert [entry.key for entry in entries(cache)] == [x.key for x in found if x is not old]
    remove(found)  # one of them is gone already
    assert entries(cache) == []


def test_what_cannot_be_removed_is_said(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(DataError, match="cannot be removed: Permission denied"):
        remove(entries(cache))
