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
from convener.io.files import decoded
from convener.io.messages import shown

Phrases = str | PathLike[str] | Iterable[str] | Mapping[str, Any]
"""A file, phrases, or phrases by label."""


def labelled_phrases(given: Phrases, label: str | None, name: str) -> dict[str, str]:
    """The label of each phrase; `label` where they come without.

    A phrase with several labels keeps the first, and a warning says how many there are.

    >>> labelled_phrases({"LOC": ["Oslo", "Lima"]}, None, "places")
    {'Oslo': 'LOC', 'Lima': 'LOC'}
    """
    pairs = _pairs_of_file(Path(given)) if isinstance(given, str | PathLike) else _pairs(given, "")
    found: dict[str, str] = {}
    ambiguous: dict[str, str] = {}
    for phrase, own in pairs:
        chosen = label if own is None else own
        if chosen is None:
            raise ConfigError(f"{name}: phrase {shown(phrase)} has no label; give label=...")
        if found.setdefault(phrase, chosen) != chosen:
            ambiguous.setdefault(phrase, chosen)
    if ambiguous:
        first, other = next(iter(ambiguous.items()))
        warnings.warn(
            f"{name}: {len(ambiguous)} phrases have several labels and keep the first, such as "
            f"{shown(first)}: {found[first]}, not {other}",
            ConvenerWarning,
            stacklevel=4,
        )
    return found


Pairs = Iterable[tuple[str, str | None]]


def _pairs_of_file(path: Path) -> Pairs:
    if not path.is_file():
        raise DataError(f"{path}: no such file of phrases")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    try:
        raw = path.read_bytes()
        if suffixes[-1:] == [".gz"]:
            raw = gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error
    text = decoded(raw, str(path))
    kind = [suffix for suffix in suffixes if suffix != ".gz"][-1:]
    if kind == [".json"]:
        try:
            return _pairs(json.loads(text), f"{path}: ")
        except ValueError as error:
            raise DataError(f"{path}: not JSON: {error}") from error
    lines = [line for line in text.splitlines() if line.strip()]
    if kind == [".tsv"]:
        return [_pair_of_line(line) for line in lines]
    return [(line.strip(), None) for line in lines]


def _pair_of_line(line: str) -> tuple[str, str | None]:
    """A phrase and, behind a tab, its label; more columns are not looked at."""
    phrase, _, rest = line.partition("\t")
    own = rest.partition("\t")[0].strip()
    return phrase.strip(), own or None


def _pairs(given: Any, where: str) -> Pairs:
    """Pairs from a list of phrases, or from a mapping of labels to such lists."""
    if isinstance(given, Mapping):
        return [
            (phrase, str(label))
            for label, phrases in given.items()
            for phrase in _phrases(phrases, where)
        ]
    return [(phrase, None) for phrase in _phrases(given, where)]


def _phrases(given: Any, where: str) -> list[str]:
    wrong = isinstance(given, str | bytes) or not isinstance(given, Iterable)
    phrases = [] if wrong else list(given)
    strange = [given] if wrong else [item for item in phrases if not isinstance(item, str)]
    if strange:
        raise DataError(
            f"{where}expected a list of phrases, or labels with lists of phrases, "
            f"got {shown(strange[0])}"
        )
    return phrases
