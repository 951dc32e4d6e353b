"""Strict JSON: whole texts, and large objects read item by item."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any, BinaryIO

from convener.errors import DataError, FormatError

CHUNK_SIZE = 1 << 20
_WHITESPACE = re.compile(r"[ \t\n\r]*")


def _reject_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {duplicate!r} occurs twice")
    return result


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_reject_duplicate_keys, parse_constant=_reject_constant)


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON text; NaN, repeated keys and bottomless nesting are errors.

    >>> parse_json('{"a": NaN}', "x.jsonl:3")
    Traceback (most recent call last):
    convener.errors.DataError: x.jsonl:3: not JSON: NaN is not a JSON number
    """
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON at character {error.pos}: {error.msg}") from None
    except ValueError as error:
        raise DataError(f"{where}: not JSON: {error}") from None
    except RecursionError:
        raise DataError(f"{where}: not JSON: nested too deep") from None


def dump_json(value: object, where: str) -> str:
    """The JSON of a value on one line, plain UTF-8 unless it holds lone surrogates."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{where}: cannot be written as JSON: {error}") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value)
    return text


def iter_json_items(path: Path) -> Iterator[tuple[str, Any]]:
    """Names and values of the object that a JSON file holds, decoded one at a time."""
    with path.open("rb") as file:
        buffer = _JsonBuffer(file, str(path))
        if buffer.peek() == "":
            raise DataError(f"{path}: is empty: expected a JSON object of items")
        buffer.expect("{")
        seen: set[str] = set()
        while seen or buffer.peek() != "}":
            name = buffer.read_key()
            buffer.expect(":")
            value = buffer.read_value(name)
            if name in seen:
                raise DataError(f"{path}: item {name!r} occurs twice")
            seen.add(name)
            yield name, value
            if buffer.expect(",", "}") == "}":
                break
        else:
            buffer.expect("}")
        buffer.expect("")


class _JsonBuffer:
    """The part of a JSON file that is being decoded."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self._file, self._where = file, where
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._position, self._consumed, self._chunk_size = "", 0, 0, CHUNK_SIZE
        self._exhausted = False

    def _read_chunk(self) -> bool:
        """Read on; False at the end of the file."""
        if self._exhausted:
            return False
        raw = self._file.read(self._chunk_size)
        pending = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            byte = self._file.tell() - len(raw) - pending + error.start
            raise DataError(f"{self._where}: byte {byte}: not UTF-8 text ({error.object[error.start]:#04x})") from None
        self._exhausted = not raw
        self._consumed += self._position
        self._text, self._position = self._text[self._position :] + text, 0
        return True

    def peek(self) -> str:
        """The next character that is not white space; "" at the end of the file."""
        while True:
            match = _WHITESPACE.match(self._text, self._position)
            self._position = match.end() if match else self._position
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._read_chunk():
                return ""

    def expect(self, *expected: str) -> str:
        """Step over one of these characters; "" is the end of the file."""
        character = self.peek()
        if character not in expected:
            expected_text = " or ".join(repr(item) if item else "the end" for item in expected)
            got = repr(character) if character else "the end of the file"
            location = f"{self._where}: character {self._consumed + self._position}"
            raise DataError(f"{location}: expected {expected_text}, got {got}")
        self._position += len(character)
        return character

    def read_key(self) -> str:
        """The next name of the object."""
        self.expect('"')
        key: str = self._decode_next(lambda text, position: scanstring(text, position, True), "")
        return key

    def read_value(self, name: str) -> Any:
        """The next value."""
        self.peek()
        return self._decode_next(_DECODER.raw_decode, f" item {name!r}:")

    def _decode_next(self, decode: Callable[[str, int], tuple[Any, int]], context: str) -> Any:
        self._chunk_size = CHUNK_SIZE
        while True:
            try:
                value, end = decode(self._text, self._position)
            except json.JSONDecodeError as error:
                # Cut off by the end of the window, not wrong: read on and try again.
                truncated = error.msg.startswith("Unterminated") or error.pos > len(self._text) - 16
                if truncated and self._read_chunk():
                    self._chunk_size *= 2
                    continue
                location = f"{self._where}:{context} not JSON at character {self._consumed + error.pos}"
                raise DataError(f"{location}: {error.msg}") from None
            except ValueError as error:
                raise DataError(f"{self._where}:{context} not JSON: {error}") from None
            except RecursionError:
                raise DataError(f"{self._where}:{context} not JSON: nested too deep") from None
            if end < len(self._text) or not self._read_chunk():
                self._position = end
                return value
