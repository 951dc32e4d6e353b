"""Files appear whole, with all that belongs to them, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from convener.errors import DataError
from convener.storage import atomic_write, decode_utf8, sibling_files


def listing(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir() if file.is_file()}


def test_a_file_and_what_is_beside_it_arrive_together(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "a" / "x.json") as draft:
        draft.write_text("main")
        draft.with_name("meta.json").write_text("side")
        assert list((tmp_path / "a").glob("*.json")) == []
    assert listing(tmp_path / "a") == {"x.json": "main", "meta.json": "side"}
    assert len(list((tmp_path / "a").iterdir())) == 2


def written(path: Path, *, fails: bool = False, **texts: str) -> None:
    """Write x.json, meta.json, ... in one go; then fail if told to."""
    with atomic_write(path) as draft:
        for name, text in texts.items():
            draft.with_name(f"{name}.json").write_text(text)
        if fails:
            raise RuntimeError


def test_what_fails_leaves_everything_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("old")
    (tmp_path / "meta.json").write_text("old meta")
    with pytest.raises(RuntimeError):
        written(tmp_path / "x.json", fails=True, x="new", meta="new meta")
    assert listing(tmp_path) == {"x.json": "old", "meta.json": "old meta"}


def test_a_failing_move_puts_the_neighbours_back(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text("old meta")
    with pytest.raises(DataError, match=r"x\.json: cannot be written: No such file"):
        written(tmp_path / "x.json", meta="new meta", more="new")  # and no x.json
    assert listing(tmp_path) == {"meta.json": "old meta"}


def test_a_move_that_breaks_half_way_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.json").write_text("old")
    (tmp_path / "meta.json").write_text("old meta")
    move = Path.replace

    def fails(self: Path, target: Path) -> Path:
        if self.name == "x.json":
            raise OSError(28, "No space left on device")
        return move(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(DataError, match="No space left on device"):
        written(tmp_path / "x.json", x="new", meta="new meta")
    assert listing(tmp_path) == {"x.json": "old", "meta.json": "old meta"}


def test_a_folder_replaces_a_folder_but_a_file_does_not(tmp_path: Path) -> None:
    target = tmp_path / "corpus"
    target.mkdir()
    (target / "old").write_text("old")
    with pytest.raises(DataError, match="it is a folder"), atomic_write(target) as draft:
        draft.write_text("file")
    assert listing(target) == {"old": "old"}
    with atomic_write(target) as draft:
        draft.mkdir()
        (draft / "old").write_text("replaced")
        (draft / "new").write_text("new")
    assert listing(target) == {"old": "replaced", "new": "new"}
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_with_other_things_in_it_is_never_replaced(tmp_path: Path) -> None:
    target = tmp_path / "project"
    (target / "inner").mkdir(parents=True)
    (target / "inner" / "thesis").write_text("years of work")

    def replace() -> None:
        with atomic_write(target) as draft:
            (draft / "inner").mkdir(parents=True)
            (draft / "inner" / "new").write_text("new")

    with pytest.raises(DataError, match="holds other things, such as thesis"):
        replace()
    assert listing(target / "inner") == {"thesis": "years of work"}
    assert len(list(tmp_path.iterdir())) == 1


def test_neighbours_are_seen_where_the_draft_is_and_where_it_goes(tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text("")
    with atomic_write(tmp_path / "x.json") as draft:
        draft.write_text("")
        assert sibling_files(draft, "meta.json") == [tmp_path / "meta.json"]
        assert sibling_files(draft, "other.json") == []


def test_bytes_that_are_no_text_are_named_by_line() -> None:
    assert decode_utf8(b"\xef\xbb\xbfab", "f") == "ab"
    with pytest.raises(DataError, match=r"^f:2: not UTF-8 text \(byte 0xff\)$"):
        decode_utf8(b"a\n\xff", "f")
