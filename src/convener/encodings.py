"""Encodings of text files: UTF-8 unless another one is stated, and the remedy where a file has another one."""

from __future__ import annotations

import io
from pathlib import Path
from typing import BinaryIO

from convener.errors import ConfigError, DataError


class UndecodableError(DataError):
    """The bytes of a file are not UTF-8."""


SAMPLE_BYTES = 4096
"""Number of bytes that are looked at to recognize UTF-16 and UTF-32."""
BYTE_ORDER_MARKS = {b"\xff\xfe\0\0": "utf-32", b"\0\0\xfe\xff": "utf-32", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""Encodings by the bytes that a file starts with; the longer ones first."""


def check_encoding(name: str | None) -> None:
    """Raise ConfigError unless Python has a text encoding of this name.

    >>> check_encoding("cp1252")
    """
    try:
        "".encode(name or "utf-8")
    except LookupError:
        raise ConfigError(f"encoding: no text encoding {name!r}; examples: utf-8, utf-16, cp1252, latin-1") from None


def recognize_wide_encoding(sample: bytes) -> str | None:
    """Return "utf-16" or "utf-32", with the byte order if there is no byte order mark; None for other text.

    >>> recognize_wide_encoding("Ada left.".encode("utf-16-le"))
    'utf-16-le'
    """
    for mark, name in BYTE_ORDER_MARKS.items():
        if sample.startswith(mark):
            return name
    first_bytes, second_bytes = sample[::2], sample[1::2]
    if second_bytes and 2 * second_bytes.count(0) > len(second_bytes) and 10 * first_bytes.count(0) < len(first_bytes):
        return "utf-16-le"
    if second_bytes and 2 * first_bytes.count(0) > len(first_bytes) and 10 * second_bytes.count(0) < len(second_bytes):
        return "utf-16-be"
    return None


def open_text(path: Path, encoding: str | None = None) -> BinaryIO:
    """Open a text file as UTF-8 bytes; `encoding` is that of the file, UTF-8 by default.

    DataError if the file has another encoding.
    """
    if encoding is not None and encoding.lower().replace("_", "-") not in ("utf-8", "utf8", "utf-8-sig"):
        try:
            text = path.read_bytes().decode(encoding)
        except (UnicodeDecodeError, UnicodeError) as error:
            raise DataError(f"{path}: not {encoding} text: {error}") from None
        return io.BytesIO(text.removeprefix("\ufeff").encode("utf-8", "surrogatepass"))
    file = path.open("rb")
    wide = recognize_wide_encoding(file.read(SAMPLE_BYTES))
    if wide is not None:
        file.close()
        raise DataError(f"{path}: {wide.upper()} text, expected UTF-8; {_remedy(wide)}")
    file.seek(0)
    return file


def with_remedy(error: UndecodableError) -> DataError:
    """Return an error that also names the encoding that the file probably has.

    >>> str(with_remedy(UndecodableError("notes.txt:3: not UTF-8 text")))
    "notes.txt:3: not UTF-8 text; if it is Latin-1 or Windows-1252, pass encoding='cp1252' (--encoding cp1252)"
    """
    return DataError(f"{error}; if it is Latin-1 or Windows-1252, {_remedy('cp1252')}")


def _remedy(encoding: str) -> str:
    return f"pass encoding={encoding!r} (--encoding {encoding})"
