"""Gazetteer: marks the phrases of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from os import PathLike
from pathlib import PurePath
from typing import Any

import numpy as np
from ahocorasick_rs import AhoCorasick
from numpy.typing import NDArray

from convener.errors import ConfigError
from convener.kernels.overlap import longest_first, resolve_overlaps
from convener.lf.function import LabelingFunction, Span
from convener.lf.phrases import Phrases, read_phrase_labels
from convener.lf.version import NotFingerprintable, fingerprint
from convener.lf.view import Doc
from convener.lf.words import NearestWord, WordNormalizer, make_normalizer
from convener.packed import lengths_to_offsets

# Every piece of a phrase is one character to the automaton; these two mean no phrase's piece.
_UNKNOWN_SYMBOL, _BOUNDARY_SYMBOL = "\x00", "\x01"
_FIRST_CODE = 2
_SURROGATES = 0xD800, 0xE000
_MAX_SYMBOLS = 0x110000 - _FIRST_CODE - (_SURROGATES[1] - _SURROGATES[0])
_MAX_CACHED_WORDS = 1 << 20
Normalizer = Callable[[str], Sequence[str]]


def gazetteer(
    phrases: Phrases,
    label: str | None = None,
    *,
    name: str | None = None,
    ignore_case: bool = False,
    normalize: WordNormalizer | str | None = None,
    max_edits: int = 0,
    **settings: Any,
) -> LabelingFunction:
    """Marks the phrases of a list, longest first, at word boundaries.

    phrases      a file (text: one a line; .tsv: phrase, tab, label; .json: a list, or labels with
                 lists; each also .gz), a list, or labels with lists
    label        of phrases that come without
    ignore_case  compare words with their case left aside
    lemma        compare words after this function; "english" takes the plural ending off nouns
    fuzzy        so many letters of a word may be wrong, one in every four; needs rapidfuzz
    settings     other fields of `LabelingFunction`

    Words are compared piece by piece (letters, digits, signs), so it does not matter how the text
    or the phrases are cut into words. Of matches that overlap the longest stays, then the first.

    >>> cities = gazetteer(["New York", "York"], "LOC", name="cities")
    >>> cities("From New York to York")
    [(1, 3, 'LOC'), (4, 5, 'LOC')]
    """
    is_file = isinstance(phrases, str | PathLike)
    name = name or (PurePath(phrases).name.partition(".")[0] if is_file else "gazetteer")  # type: ignore[arg-type]
    phrase_labels = read_phrase_labels(phrases, label, name)
    if not phrase_labels:
        raise ConfigError(f"{name}: a list without phrases")
    if max_edits < 0:
        raise ConfigError(f"{name}: fuzzy must be at least 0, got {max_edits}")
    normalizer = make_normalizer(ignore_case=ignore_case, normalize=normalize)
    version = None
    with suppress(NotFingerprintable):  # a lemma of some library: such a gazetteer is not kept
        version = fingerprint("gazetteer 1", phrase_labels, ignore_case, normalize, max_edits)
    return LabelingFunction(
        name=name,
        labels=tuple(dict.fromkeys(phrase_labels.values())),
        batch_func=PhraseMatcher(phrase_labels, normalizer, max_edits=max_edits),
        version=version,
        **settings,
    )


class PhraseMatcher:
    """Finds the phrases in many texts at once: one pass of an automaton over their pieces."""

    def __init__(self, phrase_labels: Mapping[str, str], normalizer: Normalizer, *, max_edits: int = 0) -> None:
        symbols = _SymbolTable()
        encoder = _WordEncoder(lambda word: "".join(map(symbols.__getitem__, normalizer(word))))
        encoded: dict[str, str] = {}
        for phrase, label in phrase_labels.items():
            encoded.setdefault("".join(map(encoder.__getitem__, phrase.split())), label)
        encoded.pop("", None)
        self._labels = list(encoded.values())
        self._automaton = AhoCorasick(encoded, store_patterns=False) if encoded else None
        nearest = NearestWord(symbols, max_edits=max_edits) if max_edits else None

        def symbol_of(subtoken: str) -> str:
            symbol = symbols.get(subtoken)
            if symbol is None and nearest is not None:
                symbol = symbols.get(nearest(subtoken) or "")
            return symbol or _UNKNOWN_SYMBOL

        self._encoder = _WordEncoder(lambda word: "".join(map(symbol_of, normalizer(word))))

    def __call__(self, docs: Sequence[Doc]) -> list[list[Span]]:
        """The spans in each of the texts."""
        spans: list[list[Span]] = [[] for _ in docs]
        if self._automaton is None:
            return spans
        encoded: list[str] = []
        for doc in docs:
            encoded += map(self._encoder.__getitem__, doc.tokens)
            encoded.append(_BOUNDARY_SYMBOL)
        matches = self._automaton.find_matches_as_indexes("".join(encoded), overlapping=True)
        if not matches:
            return spans
        table = np.fromiter(chain.from_iterable(matches), np.int64, 3 * len(matches)).reshape(-1, 3)
        bounds = lengths_to_offsets(len(view) + 1 for view in docs)
        phrase_index, doc_index, start, end = _whole_word_matches(table, list(map(len, encoded)), bounds)
        kept = np.flatnonzero(resolve_overlaps(doc_index, start, end, longest_first(start, end, start)) < 0)
        kept = kept[np.lexsort((start[kept], doc_index[kept]))]
        for index, first, last, kind in zip(
            *(column[kept].tolist() for column in (doc_index, start, end, phrase_index)),
            strict=True,
        ):
            spans[index].append((first, last, self._labels[kind]))
        return spans


class _SymbolTable(dict[str, str]):
    """The character that stands for each piece of a phrase; a new piece gets the next."""

    def __missing__(self, subtoken: str) -> str:
        if len(self) >= _MAX_SYMBOLS:
            raise ConfigError(f"a gazetteer can hold {_MAX_SYMBOLS:,} different words; use two")
        number = len(self) + _FIRST_CODE
        gap = _SURROGATES[1] - _SURROGATES[0] if number >= _SURROGATES[0] else 0
        symbol = self[subtoken] = chr(number + gap)
        return symbol


class _WordEncoder(dict[str, str]):
    """Words as the automaton reads them, remembered for the next time."""

    def __init__(self, encode: Callable[[str], str]) -> None:
        self._encode = encode

    def __missing__(self, word: str) -> str:
        if len(self) >= _MAX_CACHED_WORDS:
            self.clear()
        encoded = self[word] = self._encode(word)
        return encoded


def _whole_word_matches(
    matches: NDArray[np.int64], lengths: Iterable[int], bounds: NDArray[np.int64]
) -> tuple[NDArray[np.int64], ...]:
    """Matches that begin and end with words: phrase, text, first word, last word (exclusive).

    matches (S, 3): phrase, first and last place in the spelling; lengths of the spelling of each
    word, those between texts included; bounds of the texts among these words.
    """
    offsets = lengths_to_offsets(lengths)
    nonempty = np.flatnonzero(np.diff(offsets))  # a word of nothing but space begins and ends nothing
    token_starts, token_ends = np.full((2, int(offsets[-1]) + 1), -1, np.int64)
    token_starts[offsets[nonempty]], token_ends[offsets[nonempty + 1]] = nonempty, nonempty + 1
    phrase_index, start, end = matches[:, 0], token_starts[matches[:, 1]], token_ends[matches[:, 2]]
    whole = (start >= 0) & (end >= 0)
    phrase_index, start, end = phrase_index[whole], start[whole], end[whole]
    doc_index: NDArray[np.int64] = np.searchsorted(bounds, start, side="right") - 1
    return phrase_index, doc_index, start - bounds[doc_index], end - bounds[doc_index]
