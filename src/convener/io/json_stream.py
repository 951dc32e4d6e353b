"""JSON of data files: values written on one line, and large objects read item by item."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any, BinaryIO

from convener.encodings import UndecodableError, open_text
from convener.errors import DataError, FormatError
from convener.storage import JSON_DECODER

CHUNK_SIZE = 1 << 20
"""Number of bytes read at a time."""
_WHITESPACE = re.compile(r"[ \t\n\r]*")


def dump_json(value: object, where: str) -> str:
    """Return a value as one line of JSON: plain UTF-8, or escaped ASCII if it contains lone surrogates."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{where}: cannot be written as JSON: {error}") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def iter_json_items(path: Path, encoding: str | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of the object in a JSON file, decoded one at a time."""
    with open_text(path, encoding) as file:
        buffer = _JsonBuffer(file, str(path))
        if buffer.peek() == "":
            raise DataError(f"{path}: the file is empty: expected a JSON object of items")
        buffer.expect("{")
        seen: set[str] = set()
        while seen or buffer.peek() != "}":
            name = buffer.read_key()
            buffer.expect(":")
            value = buffer.read_value(name)
            if name in seen:
                raise DataError(f"{path}: duplicate item {name!r}")
            seen.add(name)
            yield name, value
            if buffer.expect(",", "}") == "}":
                break
        else:
            buffer.expect("}")
        buffer.expect("")


class _JsonBuffer:
    """Window over a JSON file: the decoded text from the current position on."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self._file, self._where = file, where
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._position, self._consumed, self._chunk_size = "", 0, 0, CHUNK_SIZE
        self._exhausted = False

    def _read_chunk(self) -> bool:
        """Append the next chunk to the window; False at the end of the file."""
        if self._exhausted:
            return False
        raw = self._file.read(self._chunk_size)
        pending = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            byte = self._file.tell() - len(raw) - pending + error.start
            raise UndecodableError(
                f"{self._where}: byte {byte}: not UTF-8 text ({error.object[error.start]:#04x})"
            ) from None
        self._exhausted = not raw
        self._consumed += self._position
        self._text, self._position = self._text[self._position :] + text, 0
        return True

    def peek(self) -> str:
        """Return the next character that is not white space; "" at the end of the file."""
        while True:
            match = _WHITESPACE.match(self._text, self._position)
            self._position = match.end() if match else self._position
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._read_chunk():
                return ""

    def expect(self, *expected: str) -> str:
        """Consume and return one of the expected characters; "" stands for the end of the file."""
        character = self.peek()
        if character not in expected:
            expected_text = " or ".join(repr(item) if item else "the end of the file" for item in expected)
            got = repr(character) if character else "the end of the file"
            location = f"{self._where}: character {self._consumed + self._position}"
            raise DataError(f"{location}: expected {expected_text}, got {got}")
        self._position += len(character)
        return character

    def read_key(self) -> str:
        """Decode the next key of the object."""
        self.expect('"')
        key: str = self._decode_next(lambda text, position: scanstring(text, position, True), "")
        return key

    def read_value(self, name: str) -> Any:
        """Decode the next value; `name` is its key, for messages."""
        self.peek()
        return self._decode_next(JSON_DECODER.raw_decode, f" item {name!r}:")

    def _decode_next(self, decode: Callable[[str, int], tuple[Any, int]], context: str) -> Any:
        """Decode at the current position; extend the window while the value is cut off by its end."""
        self._chunk_size = CHUNK_SIZE
        while True:
            try:
                value, end = decode(self._text, self._position)
            except json.JSONDecodeError as error:
                # An error near the end of the window may only mean that the value is cut off: read more and retry.
                truncated = error.msg.startswith("Unterminated") or error.pos > len(self._text) - 16
                if truncated and self._read_chunk():
                    self._chunk_size *= 2
                    continue
                location = f"{self._where}:{context} not valid JSON at character {self._consumed + error.pos}"
                raise DataError(f"{location}: {error.msg}") from None
            except ValueError as error:
                raise DataError(f"{self._where}:{context} not valid JSON: {error}") from None
            except RecursionError:
                raise DataError(f"{self._where}:{context} not valid JSON: nested too deep") from None
            if end < len(self._text) or not self._read_chunk():
                self._position = end
                return value
