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
from convener.packed import Strings, piece_at


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place to write a file or a folder; it moves to `path` when all went well.

    Whatever else is written beside it moves along. A folder is replaced only if all that it holds
    is replaced. If anything is raised inside, `path` and its
    neighbours are left as they were and nothing else remains.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        yield room / path.name
        _move(room, path)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(room, ignore_errors=True)


def neighbours(draft: Path, name: str) -> list[Path]:
    """Files of this name that a draft will stand beside: where it is, and where it will be."""
    places = (draft.parent / name, draft.parent.parent / name)
    return [place for place in places if place.is_file()]


def _move(room: Path, path: Path) -> None:
    """Move all that is in the room beside `path`, `path` itself last, or nothing."""
    drafts = sorted(room.iterdir(), key=lambda draft: draft.name == path.name)
    if path.is_dir() and not (room / path.name).is_dir():
        raise DataError(f"{path}: cannot be written: it is a folder")
    _refuse_strangers(room / path.name, path)
    for draft in drafts:
        if draft.is_file():
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
    kept = Path(tempfile.mkdtemp(dir=room))  # what is replaced; removed with the room
    moved: list[Path] = []
    try:
        for draft in drafts:
            target = path.parent / draft.name
            moved.append(target)
            if target.is_dir():
                target.rename(kept / draft.name)
            elif target.exists() and target != path:
                shutil.copy2(target, kept / draft.name)
            draft.replace(target)
        if path not in moved:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    except BaseException:
        for target in reversed(moved):
            _restore(target, kept / target.name, room / target.name)
        raise


def _refuse_strangers(draft: Path, path: Path) -> None:
    """Refuse to replace a folder that holds anything the new one does not."""
    if not path.is_dir():
        return
    new = {file.relative_to(draft) for file in draft.rglob("*")}
    strange = sorted(file for file in path.rglob("*") if file.relative_to(path) not in new)
    if strange:
        raise DataError(f"{path}: holds other things, such as {strange[0].name}; nothing written")


def _restore(target: Path, old: Path, draft: Path) -> None:
    """Put back what stood at the target before the draft moved there, if it did."""
    if old.exists():
        old.replace(target)
    elif not draft.exists():
        target.unlink(missing_ok=True)


def decoded(raw: bytes, where: str) -> str:
    """Text of UTF-8 bytes, without a byte order mark; an error names the line."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"{where}:{line}: not UTF-8 text (byte {raw[error.start]:#04x})") from None


def check_unicode(data: Dataset) -> None:
    """Refuse strings that are no Unicode text (lone surrogates), which most formats cannot hold."""
    checked = {
        "token": data.tokens,
        "name": Strings.of([*data.sources, *data.tags.types]),
        "the text of sentence": None if data.text is None else data.text.text,
        "the document of sentence": data.documents,
    }
    for what, strings in checked.items():
        packed = (strings or Strings.of([])).compact()
        try:
            packed.data.tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            at = piece_at(packed.offsets, error.start)
            raise FormatError(
                f"{what} {at} is not Unicode text ({packed[at]!r:.40}); npz can hold it"
            ) from None
