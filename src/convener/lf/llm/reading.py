"""A model's answer read as a list of quotes, however it was wrapped."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from convener.errors import DataError
from convener.lf.llm.quotes import Quote

_DECODER = json.JSONDecoder()
_THOUGHT = "</think>"
_OBJECTS = re.compile(r"\[\s*\{|\{\s*\"")
"""What begins a list of objects, or an object."""
TRIES = 1000
"""Brackets that begin nothing, at most: prose has few."""


class Read(NamedTuple):
    """The quotes of an answer, and how many entries of its list are none."""

    quotes: list[Quote]
    unreadable: int


def read_answer(answer: str) -> Read:
    r"""The quotes that an answer holds: its last list of objects, bare or inside an object.

    Code fences, sentences and thoughts around the JSON do not matter. An answer that was cut off
    is no list: its silence about the rest would say something.

    >>> read_answer('Sure! ```json\n{"entities": [{"text": "Oslo", "type": "LOC"}, 7]}\n```')
    Read(quotes=[Quote(text='Oslo', type='LOC')], unreadable=1)
    >>> read_answer('[{"text": "Oslo", "type": "LOC"}, {"text": "Ber')
    Traceback (most recent call last):
    convener.errors.DataError: expected a JSON list of quotes, got '[{"text": "Oslo", ...
    """
    values, broken = _values_in(answer.rpartition(_THOUGHT)[2])
    lists = [found for value in values if (found := _list_of(value)) is not None]
    filled = [found for found in lists if any(isinstance(entry, dict) for entry in found)]
    chosen = filled or [found for found in lists if not found and not broken]
    if not chosen:
        raise DataError(f"expected a JSON list of quotes, got {answer!r:.60}")
    entries = chosen[-1]
    quotes = [quote for entry in entries if (quote := _quote(entry)) is not None]
    return Read(quotes, len(entries) - len(quotes))


def _values_in(answer: str) -> tuple[list[Any], bool]:
    """Lists and objects that a text holds as JSON, and whether some began that did not end."""
    values: list[Any] = []
    broken, tries, at = False, 0, 0
    while at < len(answer) and tries < TRIES:
        if answer[at] not in "[{":
            at += 1
            continue
        try:
            value, at = _DECODER.raw_decode(answer, at)
            values.append(value)
        except (ValueError, RecursionError):
            broken = broken or _OBJECTS.match(answer, at) is not None
            tries, at = tries + 1, at + 1
    return values, broken


def _list_of(value: Any) -> list[Any] | None:
    """A list, or the only list among an object's values."""
    if isinstance(value, list):
        return value
    lists = [item for item in value.values() if isinstance(item, list)]
    return lists[0] if len(lists) == 1 else None


def _quote(entry: Any) -> Quote | None:
    if not isinstance(entry, dict):
        return None
    text, kind = entry.get("text"), entry.get("type")
    return Quote(text, kind) if isinstance(text, str) and isinstance(kind, str) else None
