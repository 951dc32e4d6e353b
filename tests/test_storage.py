"""Atomic writes, strict JSON, saved models, the cache directory and digests."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from convener.errors import DataError
from convener.storage import (
    BLOCK_SIZE,
    arrays_digest,
    atomic_write,
    compute_digest,
    decode_line,
    decode_utf8,
    file_digest,
    read_json,
    read_metadata,
    sibling_files,
)


def listing(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir() if file.is_file()}


def test_a_file_and_its_siblings_are_moved_together(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a" / "x.json") as temp_path:
        temp_path.write_text("main")
        temp_path.with_name("meta.json").write_text("side")
        assert list((tmp_path / "a").glob("*.json")) == []
    assert listing(tmp_path / "a") == {"x.json": "main", "meta.json": "side"}
    assert len(list((tmp_path / "a").iterdir())) == 2


def write_files(path: Path, *, fails: bool = False, **texts: str) -> None:
    """Write NAME.json for each text in one atomic write; raise at its end if `fails`."""
    with atomic_write(path) as temp_path:
        for name, text in texts.items():
            temp_path.with_name(f"{name}.json").write_text(text)
        if fails:
            raise RuntimeError


def test_an_exception_leaves_existing_files_unchanged(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("old")
    (tmp_path / "meta.json").write_text("old meta")
    with pytest.raises(RuntimeError):
        write_files(tmp_path / "x.json", fails=True, x="new", meta="new meta")
    assert listing(tmp_path) == {"x.json": "old", "meta.json": "old meta"}


def test_a_failed_move_restores_sibling_files(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text("old meta")
    with pytest.raises(DataError, match=r"x\.json: cannot be written: No such file"):
        write_files(tmp_path / "x.json", meta="new meta", more="new")  # and no x.json
    assert listing(tmp_path) == {"meta.json": "old meta"}


def test_an_interrupted_move_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.json").write_text("old")
    (tmp_path / "meta.json").write_text("old meta")
    move = Path.replace

    def fails(self: Path, target: Path) -> Path:
        if self.name == "x.json":
            raise OSError(28, "No space left on device")
        return move(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(DataError, match="No space left on device"):
        write_files(tmp_path / "x.json", x="new", meta="new meta")
    assert listing(tmp_path) == {"x.json": "old", "meta.json": "old meta"}


def test_a_folder_replaces_a_folder_but_a_file_does_not(tmp_path: Path) -> None:
    target = tmp_path / "corpus"
    target.mkdir()
    (target / "old").write_text("old")
    with pytest.raises(DataError, match="it is a folder"), atomic_write(target) as temp_path:
        temp_path.write_text("file")
    assert listing(target) == {"old": "old"}
    with atomic_write(target) as temp_path:
        temp_path.mkdir()
        (temp_path / "old").write_text("replaced")
        (temp_path / "new").write_text("new")
    assert listing(target) == {"old": "replaced", "new": "new"}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_with_unrelated_files_is_never_replaced(tmp_path: Path) -> None:
    target = tmp_path / "project"
    (target / "inner").mkdir(parents=True)
    (target / "inner" / "thesis").write_text("years of work")

    def replace() -> None:
        with atomic_write(target) as temp_path:
            (temp_path / "inner").mkdir(parents=True)
            (temp_path / "inner" / "new").write_text("new")

    with pytest.raises(DataError, match=r"refusing to replace the folder: it contains other files, e\.g\. thesis$"):
        replace()
    assert listing(target / "inner") == {"thesis": "years of work"}
    assert len(list(tmp_path.iterdir())) == 1


def test_sibling_files_are_found_beside_the_destination(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text("")
    with atomic_write(tmp_path / "x.json") as temp_path:
        temp_path.write_text("")
        assert sibling_files(temp_path, "meta.json") == [tmp_path / "meta.json"]
        assert sibling_files(temp_path, "other.json") == []


def test_invalid_utf8_is_reported_with_its_line() -> None:
    assert decode_utf8(b"\xef\xbb\xbfab", "f") == "ab"
    with pytest.raises(DataError, match=r"^f:2: not UTF-8 text \(byte 0xff\)$"):
        decode_utf8(b"a\n\xff", "f")
    with pytest.raises(DataError, match=r"^f:7: not UTF-8 text \(byte 0xff\)$"):
        decode_line(b"a\xff", "f:7")


def test_read_json_names_file_and_problem(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": [1, null]}')
    assert read_json(path) == {"a": [1, None]}
    for raw, problem in (
        (b"{", "not valid JSON at character 1: Expecting property name enclosed in double quotes"),
        (b'{"a": Infinity}', "not valid JSON: Infinity is not a JSON number"),
        (b'{"a": 1, "a": 2}', "not valid JSON: duplicate key 'a'"),
        (b"[" * 99999, "not valid JSON: nested too deep"),
    ):
        path.write_bytes(raw)
        with pytest.raises(DataError) as caught:
            read_json(path)
        assert str(caught.value) == f"{path}: {problem}"
    path.write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"x\.json:1: not UTF-8 text \(byte 0xff\)$"):
        read_json(path)
    with pytest.raises(DataError, match=r"none\.json: cannot be read: No such file or directory$"):
        read_json(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (None, "not a saved model"),
        (b"{", "not valid JSON"),
        (b"\xff", "not UTF-8 text"),
        (b"[]", "expected a model of version 2, got list"),
        (b'{"version": 9}', "expected a model of version 2, got 9"),
    ],
)
def test_damaged_model_metadata_is_an_error(tmp_path: Path, raw: bytes | None, problem: str) -> None:
    if raw is not None:
        (tmp_path / "model.json").write_bytes(raw)
    with pytest.raises(DataError, match=problem):
        read_metadata(tmp_path)


def test_a_digest_depends_on_parts_and_their_bounds() -> None:
    assert compute_digest("ab", "c") != compute_digest("a", "bc")
    assert compute_digest({"a": 1, "b": 2}) == compute_digest({"b": 2, "a": 1})
    assert compute_digest(b"ab") == compute_digest("ab")


def test_the_digest_of_arrays_depends_on_values_and_bounds() -> None:
    values = np.arange(BLOCK_SIZE + 7)
    strided = np.arange(2 * BLOCK_SIZE + 14)[::2] // 2
    assert arrays_digest([values]) == arrays_digest([strided])
    assert arrays_digest([values]) != arrays_digest([values[:5], values[5:]])


@pytest.mark.parametrize("content", [b"", b"ab", bytes(range(256)) * (BLOCK_SIZE // 64)])
def test_file_digest_is_sha256(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert file_digest(tmp_path / "file") == hashlib.sha256(content).hexdigest()
