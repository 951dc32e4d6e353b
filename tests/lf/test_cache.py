"""The cache of votes: damaged entries are computed again, old ones can be removed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors import numpy as safetensors

from convener.cache import SECONDS_PER_DAY, entries_to_prune, list_cache, remove_entries
from convener.data.dataset import Dataset
from convener.errors import ConvenerWarning
from convener.lf.apply import ApplyOptions, VoteColumn, apply_with_report
from convener.lf.cache import load_column, save_column
from convener.lf.gazetteer import gazetteer
from convener.lf.workers import LocatedIssue

LABELS = np.array([0, 1, -1], np.int16)
oslo = gazetteer(["Oslo"], "LOC", name="oslo")


def test_a_column_survives_saving_and_loading(tmp_path: Path) -> None:
    path = tmp_path / "votes" / "x.safetensors"
    column = VoteColumn(LABELS, (LocatedIssue(2, "invalid", "a\nb \ud800 é"),))
    save_column(path, "oslo", column)
    found = load_column(path, 3)
    assert found is not None
    np.testing.assert_array_equal(found.labels, LABELS)
    assert found.issues == column.issues
    assert load_column(tmp_path / "votes" / "y.safetensors", 3) is None


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"nonsense",
        safetensors.save({"labels": LABELS}, {"issues": "["}),
        safetensors.save({"labels": LABELS}),
        safetensors.save({"labels": LABELS}, {"issues": "[[1]]"}),
        safetensors.save({"others": LABELS}, {"issues": "[]"}),
        safetensors.save({"labels": LABELS[:2]}, {"issues": "[]"}),
        safetensors.save({"labels": LABELS.astype(np.int32)}, {"issues": "[]"}),
    ],
)
def test_a_damaged_file_is_ignored_with_a_warning(tmp_path: Path, raw: bytes) -> None:
    data = Dataset.from_spans(["LOC"], [["in", "Oslo", "."]], {})
    settings = ApplyOptions(cache=tmp_path)
    first = apply_with_report([oslo], data, settings)
    (entry,) = list_cache(tmp_path)
    assert entry.label == "oslo"
    entry.path.write_bytes(raw)
    with pytest.warns(ConvenerWarning, match="damaged cache entry.*runs again"):
        again = apply_with_report([oslo], data, settings)
    assert again.data == first.data
    assert apply_with_report([oslo], data, settings).stats[0].status == "cached"


def test_loading_a_column_updates_its_last_use(tmp_path: Path) -> None:
    path = tmp_path / "votes" / "x.safetensors"
    save_column(path, "oslo", VoteColumn(LABELS, ()))
    os.utime(path, (1000, 1000))
    load_column(path, 3)
    assert path.stat().st_mtime > 1e9


def test_old_entries_and_entries_over_the_size_limit_can_be_pruned(tmp_path: Path) -> None:
    now = path_time = 0.0
    for number, name in enumerate(["new", "old", "older"]):
        path = tmp_path / "votes" / f"{name}.safetensors"
        save_column(path, name, VoteColumn(LABELS, ()))
        now = now or path.stat().st_mtime
        path_time = now - number * 10 * SECONDS_PER_DAY
        os.utime(path, (path_time, path_time))
    (tmp_path / "votes" / "broken.safetensors").write_bytes(b"x")
    found = list_cache(tmp_path)
    assert sorted(entry.label for entry in found) == ["?", "new", "old", "older"]
    assert [entry.label for entry in entries_to_prune(found, older_than=5)] == ["old", "older"]
    size = max(entry.size for entry in found)
    two = entries_to_prune(found, max_bytes=2 * size)
    assert {entry.label for entry in two} == {"old", "older"}
    assert entries_to_prune(found) == []
    remove_entries(entries_to_prune(found, max_bytes=-1))
    assert list_cache(tmp_path) == []
    remove_entries(found)  # gone already
    assert list_cache(tmp_path / "nowhere") == []


def test_metadata_is_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    save_column(path, "a\ud800", VoteColumn(LABELS, ()))
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    assert json.loads(raw[8 : 8 + size])["__metadata__"]["issues"] == "[]"
