"""Views in the cache."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from convener.errors import DataError
from convener.report.run_summary import RunSummary
from convener.report.viewer import (
    HOUR,
    METADATA_FILE,
    VIEWS_DIR,
    entries,
    entries_to_prune,
    prepare_view,
    remove,
    view_dir,
)


def aged(folder: Path, seconds: float) -> None:
    for file in folder.rglob("*"):
        os.utime(file, (time.time() - seconds,) * 2)


@pytest.fixture
def cache(vote: RunSummary, tmp_path: Path) -> Path:
    """Two views, one of them used an hour ago, and a draft that was left two hours ago."""
    for name in ("old", "new"):
        prepare_view(view_dir(tmp_path, name * 20), lambda: vote)
    aged(view_dir(tmp_path, "old" * 20), HOUR)
    shutil.copytree(view_dir(tmp_path, "new" * 20), tmp_path / VIEWS_DIR / ".gone.x7" / "gone")
    aged(tmp_path / VIEWS_DIR / ".gone.x7", 2 * HOUR)
    return tmp_path


def test_entries_are_the_last_used_first(cache: Path, vote: RunSummary) -> None:
    new, old, gone = entries(cache)
    assert [new.key, old.key, gone.key] == [("new" * 20)[:32], ("old" * 20)[:32], ".gone.x7"]
    assert (new.title, new.sentences, new.finished) == ("vote", len(vote.data), True)
    assert new.size == sum(file.stat().st_size for file in new.folder.iterdir())
    assert new.last_used == pytest.approx(time.time(), abs=60)
    assert old.last_used == pytest.approx(time.time() - HOUR, abs=60)
    assert (gone.title, gone.sentences, gone.finished) == ("?", None, False)
    assert gone.size == new.size


def test_there_may_be_none(tmp_path: Path) -> None:
    assert entries(tmp_path) == []
    (tmp_path / VIEWS_DIR).mkdir()
    (tmp_path / VIEWS_DIR / "a file").write_text("")
    assert entries(tmp_path) == []


@pytest.mark.parametrize("facts", [None, "", "[1]", "{", "{}"])
def test_a_view_that_says_nothing_of_itself_is_listed(cache: Path, facts: str | None) -> None:
    view = entries(cache)[0].folder
    (view / METADATA_FILE).unlink()
    if facts is not None:
        (view / METADATA_FILE).write_text(facts)
    entry = next(entry for entry in entries(cache) if entry.folder == view)
    assert (entry.title, entry.sentences) == ("?", None)


def test_what_may_go(cache: Path) -> None:
    new, old, gone = found = entries(cache)
    assert entries_to_prune(found) == []
    assert entries_to_prune(found, unfinished=True) == [gone]
    assert entries_to_prune(found, older_than=0.5 / 24) == [old, gone]
    assert entries_to_prune(found, older_than=0.5 / 24, unfinished=True) == [old, gone]
    assert entries_to_prune(found, keep_bytes=new.size) == [old, gone]
    assert entries_to_prune(found, keep_bytes=-1, unfinished=True) == found


def test_a_draft_that_is_being_written_stays(cache: Path) -> None:
    aged(cache / VIEWS_DIR / ".gone.x7", 0)
    assert entries_to_prune(entries(cache), unfinished=True) == []


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
