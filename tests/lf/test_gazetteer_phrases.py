"""Lists of phrases in all their forms."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from convener.errors import ConfigError, ConvenerWarning, DataError
from convener.lf.gazetteer import read_phrase_labels

FORMS: dict[str, str] = {
    "a.txt": "Oslo\n  New York \n\nZürich\r\n",
    "a.tsv": "Oslo\tLOC\tmore\nNew York\tLOC\n\nZürich\tLOC\n",
    "a.json": json.dumps({"LOC": ["Oslo", "New York", "Zürich"]}),
    "b.json": json.dumps(["Oslo", "New York", "Zürich"]),
    "unknown.lst": "\ufeffOslo\nNew York\nZürich",
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", FORMS)
def test_all_input_forms_are_read(tmp_path: Path, name: str, packed: bool) -> None:
    raw = FORMS[name].encode()
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(raw) if packed else raw)
    expected = dict.fromkeys(["Oslo", "New York", "Zürich"], "LOC")
    assert read_phrase_labels(path, "LOC", "x") == expected
    assert read_phrase_labels(str(path), "LOC", "x") == expected


def test_labels_of_phrases_take_precedence(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("Oslo\tLOC\nAda\t\nBob", encoding="utf-8")
    assert read_phrase_labels(path, "PER", "x") == {"Oslo": "LOC", "Ada": "PER", "Bob": "PER"}
    with pytest.raises(ConfigError, match="x: phrase 'Ada' has no label"):
        read_phrase_labels(path, None, "x")


def test_the_first_of_several_labels_is_kept() -> None:
    with pytest.warns(ConvenerWarning, match="x: 1 phrases have several labels.*'Ray': PER, not"):
        found = read_phrase_labels({"PER": ["Ray", "Ada"], "LOC": ["Ray", "Ray"]}, None, "x")
    assert found == {"Ray": "PER", "Ada": "PER"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1], "got 1"),
        ({"LOC": "Oslo"}, "got 'Oslo'"),
        ({"LOC": None}, "got None"),
        (5, "got 5"),
    ],
)
def test_invalid_phrase_lists_are_rejected(given: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"expected a list of phrases.*{message}"):
        read_phrase_labels(given, "LOC", "x")


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("a.txt", b"\xff\n", r"a.txt:1: not UTF-8"),
        ("a.json", b"{", "invalid JSON"),
        ("a.json", b'{"LOC": 5}', "a.json: expected a list of phrases"),
        ("a.txt.gz", b"Oslo", "cannot read file"),
        ("a.txt.gz", gzip.compress(b"Oslo" * 99, mtime=0)[:-9], "cannot read file"),
        ("missing.txt", None, "phrase file not found"),
    ],
)
def test_an_unreadable_file_is_named(tmp_path: Path, name: str, raw: bytes | None, message: str) -> None:
    if raw is not None:
        (tmp_path / name).write_bytes(raw)
    with pytest.raises(DataError, match=message):
        read_phrase_labels(tmp_path / name, "LOC", "x")
