"""Lists of phrases: plain text, tab-separated values or JSON, also compressed."""

from __future__ import annotations

import gzip
import json
import warnings
import zlib
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from convener.errors import ConfigError, ConvenerWarning, DataError
from convener.io.files import decode_utf8
from convener.io.messages import short_repr

Phrases = str | PathLike[str] | Iterable[str] | Mapping[str, Any]
"""A file, phrases, or phrases by label."""


def read_phrase_labels(phrases: Phrases, label: str | None, name: str) -> dict[str, str]:
    """The label of each phrase; `label` where they come without.

    A phrase with several labels keeps the first, and a warning says how many there are.

    >>> read_phrase_labels({"LOC": ["Oslo", "Lima"]}, None, "places")
    {'Oslo': 'LOC', 'Lima': 'LOC'}
    """
    pairs = _read_pairs(Path(phrases)) if isinstance(phrases, str | PathLike) else _to_pairs(phrases, "")
    labels: dict[str, str] = {}
    ambiguous: dict[str, str] = {}
    for phrase, own_label in pairs:
        assigned = label if own_label is None else own_label
        if assigned is None:
            raise ConfigError(f"{name}: phrase {short_repr(phrase)} has no label; give label=...")
        if labels.setdefault(phrase, assigned) != assigned:
            ambiguous.setdefault(phrase, assigned)
    if ambiguous:
        first, other = next(iter(ambiguous.items()))
        warnings.warn(
            f"{name}: {len(ambiguous)} phrases have several labels and keep the first, such as "
            f"{short_repr(first)}: {labels[first]}, not {other}",
            ConvenerWarning,
            stacklevel=4,
        )
    return labels


Pairs = Iterable[tuple[str, str | None]]


def _read_pairs(path: Path) -> Pairs:
    if not path.is_file():
        raise DataError(f"{path}: no such file of phrases")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    try:
        raw = path.read_bytes()
        if suffixes[-1:] == [".gz"]:
            raw = gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    text = decode_utf8(raw, str(path))
    kind = [suffix for suffix in suffixes if suffix != ".gz"][-1:]
    if kind == [".json"]:
        try:
            return _to_pairs(json.loads(text), f"{path}: ")
        except ValueError as error:
            raise DataError(f"{path}: not JSON: {error}") from error
    lines = [line for line in text.splitlines() if line.strip()]
    if kind == [".tsv"]:
        return [_parse_line(line) for line in lines]
    return [(line.strip(), None) for line in lines]


def _parse_line(line: str) -> tuple[str, str | None]:
    """A phrase and, behind a tab, its label; more columns are not looked at."""
    phrase, _, rest = line.partition("\t")
    label = rest.partition("\t")[0].strip()
    return phrase.strip(), label or None


def _to_pairs(content: Any, location: str) -> Pairs:
    """Pairs from a list of phrases, or from a mapping of labels to such lists."""
    if isinstance(content, Mapping):
        return [
            (phrase, str(label)) for label, phrases in content.items() for phrase in _check_phrases(phrases, location)
        ]
    return [(phrase, None) for phrase in _check_phrases(content, location)]


def _check_phrases(content: Any, location: str) -> list[str]:
    not_a_list = isinstance(content, str | bytes) or not isinstance(content, Iterable)
    phrases = [] if not_a_list else list(content)
    invalid = [content] if not_a_list else [item for item in phrases if not isinstance(item, str)]
    if invalid:
        raise DataError(
            f"{location}expected a list of phrases, or labels with lists of phrases, got {short_repr(invalid[0])}"
        )
    return phrases
