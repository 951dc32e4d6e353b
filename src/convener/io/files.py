"""Files and folders that are written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from convener.errors import DataError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A place to write a file or a folder; it moves to `path` when all went well.

    If anything is raised inside, `path` is left as it was and nothing else remains.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        room = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    draft = room / path.name
    try:
        yield draft
        if draft.is_file():
            with draft.open("rb+") as file:
                os.fsync(file.fileno())
        _move(draft, path, room)
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(room, ignore_errors=True)


def _move(draft: Path, path: Path, room: Path) -> None:
    if path.is_dir():
        if not draft.is_dir():
            raise DataError(f"{path}: cannot be written: it is a folder")
        path.rename(room / "replaced")  # removed with the room
    draft.replace(path)


def decoded(raw: bytes, where: str) -> str:
    """Text of UTF-8 bytes, without a byte order mark; an error names the line."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(f"{where}:{line}: not UTF-8 text (byte {raw[error.start]:#04x})") from None
