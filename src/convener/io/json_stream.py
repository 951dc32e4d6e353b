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

CHUNK = 1 << 20
_SPACE = re.compile(r"[ \t\n\r]*")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def parsed(text: str, where: str) -> Any:
    """The value of a JSON text; NaN, repeated keys and bottomless nesting are errors.

    >>> parsed('{"a": NaN}', "x.jsonl:3")
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


def dumped(value: object, where: str) -> str:
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


def json_items(path: Path) -> Iterator[tuple[str, Any]]:
    """Names and values of the object that a JSON file holds, decoded one at a time."""
    with path.open("rb") as file:
        window = _Window(file, str(path))
        if window.peek() == "":
            raise DataError(f"{path}: is empty: expected a JSON object of items")
        window.expect("{")
        seen: set[str] = set()
        while seen or window.peek() != "}":
            name = window.name()
            window.expect(":")
            value = window.value(name)
            if name in seen:
                raise DataError(f"{path}: item {name!r} occurs twice")
            seen.add(name)
            yield name, value
            if window.expect(",", "}") == "}":
                break
        else:
            window.expect("}")
        window.expect("")


class _Window:
    """The part of a JSON file that is being decoded."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self._file, self._where = file, where
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._text, self._at, self._before, self._size = "", 0, 0, CHUNK
        self._ended = False

    def _more(self) -> bool:
        """Read on; False at the end of the file."""
        if self._ended:
            return False
        raw = self._file.read(self._size)
        pending = len(self._decoder.getstate()[0])
        try:
            text = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            byte = self._file.tell() - len(raw) - pending + error.start
            raise DataError(
                f"{self._where}: byte {byte}: not UTF-8 text ({error.object[error.start]:#04x})"
            ) from None
        self._ended = not raw
        self._before += self._at
        self._text, self._at = self._text[self._at :] + text, 0
        return True

    def peek(self) -> str:
        """The next character that is not white space; "" at the end of the file."""
        while True:
            match = _SPACE.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def expect(self, *wanted: str) -> str:
        """Step over one of these characters; "" is the end of the file."""
        found = self.peek()
        if found not in wanted:
            listed = " or ".join(repr(sign) if sign else "the end" for sign in wanted)
            got = repr(found) if found else "the end of the file"
            place = f"{self._where}: character {self._before + self._at}"
            raise DataError(f"{place}: expected {listed}, got {got}")
        self._at += len(found)
        return found

    def name(self) -> str:
        """The next name of the object."""
        self.expect('"')
        found: str = self._taken(lambda text, at: scanstring(text, at, True), "")
        return found

    def value(self, name: str) -> Any:
        """The next value."""
        self.peek()
        return self._taken(_DECODER.raw_decode, f" item {name!r}:")

    def _taken(self, decode: Callable[[str, int], tuple[Any, int]], item: str) -> Any:
        self._size = CHUNK
        while True:
            try:
                value, end = decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # Cut off by the end of the window, not wrong: read on and try again.
                cut = error.msg.startswith("Unterminated") or error.pos > len(self._text) - 16
                if cut and self._more():
                    self._size *= 2
                    continue
                place = f"{self._where}:{item} not JSON at character {self._before + error.pos}"
                raise DataError(f"{place}: {error.msg}") from None
            except ValueError as error:
                raise DataError(f"{self._where}:{item} not JSON: {error}") from None
            except RecursionError:
                raise DataError(f"{self._where}:{item} not JSON: nested too deep") from None
            if end < len(self._text) or not self._more():
                self._at = end
                return value
