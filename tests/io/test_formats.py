"""Files of other tools are named, with the remedy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import convener as cv
from convener.errors import FormatError


def test_a_label_studio_export_is_named(tmp_path: Path) -> None:
    value = {"start": 0, "end": 3, "text": "Ada", "labels": ["PER"]}
    task = {"id": 1, "data": {"text": "Ada left."}}
    task |= {"annotations": [{"result": [{"value": value, "from_name": "label", "to_name": "text", "type": "labels"}]}]}
    path = tmp_path / "project-1.json"
    path.write_text(json.dumps([task], indent=2))
    with pytest.raises(FormatError, match=r"project-1\.json: a JSON export of Label Studio.*CONLL2003"):
        cv.read(path)


def test_another_json_array_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"text": "Ada"}]')
    with pytest.raises(FormatError, match=r"a\.json: a JSON array; .* one object per line as \.jsonl"):
        cv.read(tmp_path / "a.json")


def test_brat_files_and_folders_are_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Ada left.")
    (tmp_path / "notes.ann").write_text("T1\tPER 0 3\tAda\n")
    for path in (tmp_path / "notes.ann", tmp_path):
        with pytest.raises(FormatError, match="brat standoff annotations"):
            cv.read(path)
    assert len(cv.read(tmp_path / "notes.txt")) == 1
