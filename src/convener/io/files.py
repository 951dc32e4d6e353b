"""Files and folders that are written whole or not at all, and their text."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from convener.data import Dataset
from convener.errors import DataError, FormatError
from convener.packed import StringArray, row_at


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A place to write a file or a folder; it moves to `path` when all went well.

    Whatever else is written beside it moves along. A folder is replaced only if all that it holds
    is replaced. If anything is raised inside, `path` and its
    neighbours are left as they were and nothing else remains.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temp_dir = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        yield temp_dir / path.name
        _move_into_place(temp_dir, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(temp_dir, ignore_errors=True)


def sibling_files(temp_path: Path, name: str) -> list[Path]:
    """Files of this name that a draft will stand beside: where it is, and where it will be."""
    candidates = (temp_path.parent / name, temp_path.parent.parent / name)
    return [candidate for candidate in candidates if candidate.is_file()]


def _move_into_place(temp_dir: Path, path: Path) -> None:
    """Move all that is in the room beside `path`, `path` itself last, or nothing."""
    temp_paths = sorted(temp_dir.iterdir(), key=lambda temp_path: temp_path.name == path.name)
    if path.is_dir() and not (temp_dir / path.name).is_dir():
        raise DataError(f"{path}: cannot be written: it is a folder")
    _refuse_unrelated_files(temp_dir / path.name, path)
    for temp_path in temp_paths:
        if temp_path.is_file():
            with temp_path.open("rb+") as file:
                os.fsync(file.fileno())
    backup_dir = Path(tempfile.mkdtemp(dir=temp_dir))  # what is replaced; removed with the room
    moved: list[Path] = []
    try:
        for temp_path in temp_paths:
            target = path.parent / temp_path.name
            moved.append(target)
            if target.is_dir():
                target.rename(backup_dir / temp_path.name)
            elif target.exists() and target != path:
                shutil.copy2(target, backup_dir / temp_path.name)
            temp_path.replace(target)
        if path not in moved:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    except BaseException:
        for target in reversed(moved):
            _restore(target, backup_dir / target.name, temp_dir / target.name)
        raise


def _refuse_unrelated_files(temp_path: Path, path: Path) -> None:
    """Refuse to replace a folder that holds anything the new one does not."""
    if not path.is_dir():
        return
    new_files = {file.relative_to(temp_path) for file in temp_path.rglob("*")}
    unrelated = sorted(file for file in path.rglob("*") if file.relative_to(path) not in new_files)
    if unrelated:
        raise DataError(f"{path}: holds other things, such as {unrelated[0].name}; nothing written")


def _restore(target: Path, backup: Path, temp_path: Path) -> None:
    """Put back what stood at the target before the draft moved there, if it did."""
    if backup.exists():
        backup.replace(target)
    elif not temp_path.exists():
        target.unlink(missing_ok=True)


def decode_utf8(raw: bytes, where: str) -> str:
    """Text of UTF-8 bytes, without a byte order mark; an error names the line."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"{where}:{line}: not UTF-8 text (byte {raw[error.start]:#04x})") from None


def check_unicode(data: Dataset) -> None:
    """Refuse strings that are no Unicode text (lone surrogates), which most formats cannot hold."""
    strings_by_kind = {
        "token": data.tokens,
        "name": StringArray.from_list([*data.sources, *data.tags.types]),
        "the text of sentence": None if data.text is None else data.text.sentences,
        "the document of sentence": data.doc_ids,
    }
    for kind, strings in strings_by_kind.items():
        packed = (strings or StringArray.from_list([])).compact()
        try:
            packed.data.tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            index = row_at(packed.offsets, error.start)
            raise FormatError(f"{kind} {index} is not Unicode text ({packed[index]!r:.40}); npz can hold it") from None
