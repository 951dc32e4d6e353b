"""Gazetteer: marks the phrases of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from os import PathLike
from pathlib import PurePath
from typing import Any

import numpy as np
from ahocorasick_rs import AhoCorasick
from numpy.typing import NDArray

from convener.errors import ConfigError
from convener.kernels.overlap import longest_first, rivals
from convener.lf.function import LabelingFunction, Span
from convener.lf.phrases import Phrases, labelled_phrases
from convener.lf.version import version_of
from convener.lf.view import View
from convener.lf.words import Lemma, Nearest, normal_form
from convener.packed import offsets_of

# Every piece of a phrase is one character to the automaton; these two mean no phrase's piece.
_OTHER, _EDGE = "\x00", "\x01"
_FIRST = 2
_SURROGATES = 0xD800, 0xE000
_MOST = 0x110000 - _FIRST - (_SURROGATES[1] - _SURROGATES[0])
_REMEMBERED = 1 << 20
Form = Callable[[str], Sequence[str]]


def gazetteer(
    phrases: Phrases,
    label: str | None = None,
    *,
    name: str | None = None,
    ignore_case: bool = False,
    lemma: Lemma | str | None = None,
    fuzzy: int = 0,
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
    labelled = labelled_phrases(phrases, label, name)
    if not labelled:
        raise ConfigError(f"{name}: a list without phrases")
    if fuzzy < 0:
        raise ConfigError(f"{name}: fuzzy must be at least 0, got {fuzzy}")
    form = normal_form(ignore_case=ignore_case, lemma=lemma)
    return LabelingFunction(
        name=name,
        labels=tuple(dict.fromkeys(labelled.values())),
        find_all=Matcher(labelled, form, slips=fuzzy),
        version=version_of("gazetteer 1", labelled, ignore_case, lemma, fuzzy),
        **settings,
    )


class Matcher:
    """Finds the phrases in many texts at once: one pass of an automaton over their pieces."""

    def __init__(self, labelled: Mapping[str, str], form: Form, *, slips: int = 0) -> None:
        letters = _Letters()
        words = _Spelling(lambda word: "".join(map(letters.__getitem__, form(word))))
        spelled: dict[str, str] = {}
        for phrase, label in labelled.items():
            spelled.setdefault("".join(map(words.__getitem__, phrase.split())), label)
        spelled.pop("", None)
        self._labels = list(spelled.values())
        self._automaton = AhoCorasick(spelled, store_patterns=False) if spelled else None
        nearest = Nearest(letters, slips=slips) if slips else None

        def letter(piece: str) -> str:
            known = letters.get(piece)
            if known is None and nearest is not None:
                known = letters.get(nearest(piece) or "")
            return known or _OTHER

        self._words = _Spelling(lambda word: "".join(map(letter, form(word))))

    def __call__(self, views: Sequence[View]) -> list[list[Span]]:
        """The spans in each of the texts."""
        found: list[list[Span]] = [[] for _ in views]
        if self._automaton is None:
            return found
        spelled: list[str] = []
        for view in views:
            spelled += map(self._words.__getitem__, view.tokens)
            spelled.append(_EDGE)
        matches = self._automaton.find_matches_as_indexes("".join(spelled), overlapping=True)
        if not matches:
            return found
        table = np.fromiter(chain.from_iterable(matches), np.int64, 3 * len(matches)).reshape(-1, 3)
        bounds = offsets_of(len(view) + 1 for view in views)
        which, text, start, end = _whole_words(table, list(map(len, spelled)), bounds)
        stays = np.flatnonzero(rivals(text, start, end, longest_first(start, end, start)) < 0)
        stays = stays[np.lexsort((start[stays], text[stays]))]
        for number, first, last, kind in zip(
            *(column[stays].tolist() for column in (text, start, end, which)), strict=True
        ):
            found[number].append((first, last, self._labels[kind]))
        return found


class _Letters(dict[str, str]):
    """The character that stands for each piece of a phrase; a new piece gets the next."""

    def __missing__(self, piece: str) -> str:
        if len(self) >= _MOST:
            raise ConfigError(f"a gazetteer can hold {_MOST:,} different words; use two")
        number = len(self) + _FIRST
        gap = _SURROGATES[1] - _SURROGATES[0] if number >= _SURROGATES[0] else 0
        letter = self[piece] = chr(number + gap)
        return letter


class _Spelling(dict[str, str]):
    """Words as the automaton reads them, remembered for the next time."""

    def __init__(self, spell: Callable[[str], str]) -> None:
        self._spell = spell

    def __missing__(self, word: str) -> str:
        if len(self) >= _REMEMBERED:
            self.clear()
        spelled = self[word] = self._spell(word)
        return spelled


def _whole_words(
    matches: NDArray[np.int64], lengths: Iterable[int], bounds: NDArray[np.int64]
) -> tuple[NDArray[np.int64], ...]:
    """Matches that begin and end with words: phrase, text, first word, last word (exclusive).

    matches (S, 3): phrase, first and last place in the spelling; lengths of the spelling of each
    word, those between texts included; bounds of the texts among these words.
    """
    places = offsets_of(lengths)
    spoken = np.flatnonzero(np.diff(places))  # a word of nothing but space begins and ends nothing
    begins, ends = np.full((2, int(places[-1]) + 1), -1, np.int64)
    begins[places[spoken]], ends[places[spoken + 1]] = spoken, spoken + 1
    which, start, end = matches[:, 0], begins[matches[:, 1]], ends[matches[:, 2]]
    whole = (start >= 0) & (end >= 0)
    which, start, end = which[whole], start[whole], end[whole]
    text: NDArray[np.int64] = np.searchsorted(bounds, start, side="right") - 1
    return which, text, start - bounds[text], end - bounds[text]
