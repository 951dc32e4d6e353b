"""Encodings of text files: UTF-16 and Windows-1252 are named with the remedy, and read on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import convener as cv
from convener.encodings import open_text, recognize_wide_encoding
from convener.errors import ConfigError, DataError

TEXT = "Ad\u00e9le left \u00c5rhus.\n"
FILES = {
    "a.txt": TEXT,
    "a.jsonl": json.dumps({"text": TEXT, "gold": []}, ensure_ascii=False) + "\n",
    "a.conll": "Ad\u00e9le B-PER\nleft O\n\n",
    "a.csv": "doc_id,source,start,end,label,text\nd,,,,,Ad\u00e9le left\n",
    "a.json": json.dumps({"0": {"label": [], "data": {"text": ["Ad\u00e9le"]}, "weak_labels": []}}, ensure_ascii=False),
}


def write(folder: Path, name: str, encoding: str) -> Path:
    path = folder / name
    path.write_bytes(FILES[name].encode(encoding))
    return path


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1", "utf-32"])
def test_other_encodings_are_read_on_request(tmp_path: Path, name: str, encoding: str) -> None:
    expected = cv.read(write(tmp_path, name, "utf-8"), types=["PER"])
    assert cv.read(write(tmp_path, name, encoding), types=["PER"], encoding=encoding) == expected


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("encoding", "named"),
    [
        ("utf-16", "UTF-16 text, expected UTF-8; pass encoding='utf-16' \\(--encoding utf-16\\)"),
        ("utf-16-le", "UTF-16-LE text, expected UTF-8; pass encoding='utf-16-le'"),
        ("utf-16-be", "UTF-16-BE text, expected UTF-8; pass encoding='utf-16-be'"),
        ("cp1252", "not UTF-8 text .*if it is Latin-1 or Windows-1252, pass encoding='cp1252' \\(--encoding cp1252\\)"),
    ],
)
def test_the_error_names_the_encoding(tmp_path: Path, name: str, encoding: str, named: str) -> None:
    with pytest.raises(DataError, match=f"{name}.*{named}"):
        cv.read(write(tmp_path, name, encoding), types=["PER"])


def test_a_wrong_or_unknown_encoding_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "cp1252")
    with pytest.raises(DataError, match=r"a\.txt: not ascii text"):
        cv.read(path, encoding="ascii")
    for name in ("utf-99", "base64"):
        with pytest.raises(ConfigError, match=f"encoding: no text encoding '{name}'"):
            cv.read(path, encoding=name)


@pytest.mark.parametrize("text", ["", "a", "\0", "Ada left.", "北京大学", "\ufeffAda"])
def test_utf_8_is_not_taken_for_another_encoding(tmp_path: Path, text: str) -> None:
    assert recognize_wide_encoding(text.encode()) is None or text == "\0"
    path = tmp_path / "x"
    path.write_text(text, encoding="utf-8")
    if text != "\0":
        with open_text(path) as file:
            assert file.read() == text.encode()
