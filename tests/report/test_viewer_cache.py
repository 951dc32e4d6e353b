"""Views in the cache."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from convener.cache import (
    CACHE_METADATA_FILE,
    REPORTS_DIR,
    SECONDS_PER_HOUR,
    entries_to_prune,
    list_cache,
    remove_entries,
)
from convener.errors import DataError
from convener.report.run_summary import RunSummary
from convener.report.viewer import prepare_view, view_dir


def set_age(folder: Path, seconds: float) -> None:
    for file in folder.rglob("*"):
        os.utime(file, (time.time() - seconds,) * 2)


@pytest.fixture
def cache(vote: RunSummary, tmp_path: Path) -> Path:
    """Two views, one last used an hour ago, and the draft of a run interrupted two hours ago."""
    for name in ("old", "new"):
        prepare_view(view_dir(tmp_path, name * 20), lambda: vote)
    set_age(view_dir(tmp_path, "old" * 20), SECONDS_PER_HOUR)
    shutil.copytree(view_dir(tmp_path, "new" * 20), tmp_path / REPORTS_DIR / ".draft.x7" / "draft")
    set_age(tmp_path / REPORTS_DIR / ".draft.x7", 2 * SECONDS_PER_HOUR)
    return tmp_path


def test_entries_are_ordered_by_last_use(cache: Path, vote: RunSummary) -> None:
    new, old, draft = list_cache(cache)
    assert [new.key, old.key, draft.key] == [("new" * 20)[:32], ("old" * 20)[:32], ".draft.x7"]
    assert (new.label, new.details["sentences"], new.complete) == ("vote", len(vote.data), True)
    assert new.size == sum(file.stat().st_size for file in new.path.iterdir())
    assert new.last_used == pytest.approx(time.time(), abs=60)
    assert old.last_used == pytest.approx(time.time() - SECONDS_PER_HOUR, abs=60)
    assert (draft.label, draft.details, draft.complete) == ("?", {}, False)
    assert draft.size == new.size


def test_an_empty_cache(tmp_path: Path) -> None:
    assert list_cache(tmp_path) == []
    (tmp_path / REPORTS_DIR).mkdir()
    (tmp_path / REPORTS_DIR / "a file").write_text("")
    assert list_cache(tmp_path) == []


@pytest.mark.parametrize("metadata", [None, "", "[1]", "{", "{}"])
def test_a_view_without_metadata_is_listed(cache: Path, metadata: str | None) -> None:
    view = list_cache(cache)[0].path
    (view / CACHE_METADATA_FILE).unlink()
    if metadata is not None:
        (view / CACHE_METADATA_FILE).write_text(metadata)
    entry = next(entry for entry in list_cache(cache) if entry.path == view)
    assert (entry.label, entry.details) == ("?", {})


def test_entries_to_prune(cache: Path) -> None:
    new, old, draft = found = list_cache(cache)
    assert entries_to_prune(found) == []
    assert entries_to_prune(found, incomplete=True) == [draft]
    assert entries_to_prune(found, older_than=0.5 / 24) == [old, draft]
    assert entries_to_prune(found, older_than=0.5 / 24, incomplete=True) == [old, draft]
    assert entries_to_prune(found, max_bytes=new.size) == [old, draft]
    assert entries_to_prune(found, max_bytes=-1, incomplete=True) == found


def test_a_recent_draft_is_kept(cache: Path) -> None:
    set_age(cache / REPORTS_DIR / ".draft.x7", 0)
    assert entries_to_prune(list_cache(cache), incomplete=True) == []


def test_remove(cache: Path) -> None:
    _, old, _ = found = list_cache(cache)
    remove_entries([old])
    assert [entry.key for entry in list_cache(cache)] == [x.key for x in found if x is not old]
    remove_entries(found)  # one of them does not exist any more
    assert list_cache(cache) == []


def test_a_failed_removal_is_reported(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(DataError, match="cannot be removed: Permission denied"):
        remove_entries(list_cache(cache))
