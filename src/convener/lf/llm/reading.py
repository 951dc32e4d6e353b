"""A model's answer read as a list of quotes, however it was wrapped."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from convener.errors import DataError
from convener.lf.llm.quotes import Quote

_DECODER = json.JSONDecoder()
_END_OF_REASONING = "</think>"
_OBJECT_START = re.compile(r"\[\s*\{|\{\s*\"")
"""What begins a list of objects, or an object."""
MAX_PARSE_ATTEMPTS = 1000
"""Brackets that begin nothing, at most: prose has few."""


class ParsedResponse(NamedTuple):
    """The quotes of an answer, and how many entries of its list are none."""

    quotes: list[Quote]
    invalid_entries: int


def parse_response(response: str) -> ParsedResponse:
    r"""The quotes that an answer holds: its last list of objects, bare or inside an object.

    Code fences, sentences and thoughts around the JSON do not matter. An answer that was cut off
    is no list: its silence about the rest would say something.

    >>> parse_response('Sure! ```json\n{"entities": [{"text": "Oslo", "type": "LOC"}, 7]}\n```')
    ParsedResponse(quotes=[Quote(text='Oslo', type='LOC')], invalid_entries=1)
    >>> parse_response('[{"text": "Oslo", "type": "LOC"}, {"text": "Ber')
    Traceback (most recent call last):
    convener.errors.DataError: expected a JSON list of quotes, got '[{"text": "Oslo", ...
    """
    values, truncated = _find_json_values(response.rpartition(_END_OF_REASONING)[2])
    lists = [candidate for value in values if (candidate := _extract_list(value)) is not None]
    with_objects = [found for found in lists if any(isinstance(entry, dict) for entry in found)]
    usable = with_objects or [found for found in lists if not found and not truncated]
    if not usable:
        raise DataError(f"expected a JSON list of quotes, got {response!r:.60}")
    entries = usable[-1]
    quotes = [quote for entry in entries if (quote := _parse_quote(entry)) is not None]
    return ParsedResponse(quotes, len(entries) - len(quotes))


def _find_json_values(response: str) -> tuple[list[Any], bool]:
    """Lists and objects that a text holds as JSON, and whether some began that did not end."""
    values: list[Any] = []
    truncated, attempts, position = False, 0, 0
    while position < len(response) and attempts < MAX_PARSE_ATTEMPTS:
        if response[position] not in "[{":
            position += 1
            continue
        try:
            value, position = _DECODER.raw_decode(response, position)
            values.append(value)
        except (ValueError, RecursionError):
            truncated = truncated or _OBJECT_START.match(response, position) is not None
            attempts, position = attempts + 1, position + 1
    return values, truncated


def _extract_list(value: Any) -> list[Any] | None:
    """A list, or the only list among an object's values."""
    if isinstance(value, list):
        return value
    lists = [item for item in value.values() if isinstance(item, list)]
    return lists[0] if len(lists) == 1 else None


def _parse_quote(entry: Any) -> Quote | None:
    if not isinstance(entry, dict):
        return None
    text, kind = entry.get("text"), entry.get("type")
    return Quote(text, kind) if isinstance(text, str) and isinstance(kind, str) else None
