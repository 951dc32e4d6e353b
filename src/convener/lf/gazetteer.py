"""Gazetteer: marks the phrases of a list in text, with an Aho-Corasick automaton over subtokens.

A subtoken is a run of letters, a run of digits or a single sign. Phrases and text are compared subtoken by subtoken,
so the tokenization of either does not matter.
"""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from os import PathLike
from pathlib import Path, PurePath
from typing import Any, Unpack

import numpy as np
import regex
from ahocorasick_rs import AhoCorasick
from numpy.typing import NDArray

from convener.data.alignment import longest_first, resolve_overlaps
from convener.data.issues import short_repr
from convener.data.ragged import lengths_to_offsets
from convener.data.tokenize import UNSEGMENTED_SCRIPTS
from convener.errors import ConfigError, ConvenerWarning, DataError, require
from convener.lf.doc import Doc
from convener.lf.fingerprint import NotFingerprintable, fingerprint
from convener.lf.function import LabelingFunction, LFSettings
from convener.lf.validation import Span
from convener.storage import decode_utf8

Phrases = str | PathLike[str] | Iterable[str] | Mapping[str, Any]
"""A file, a list of phrases, or lists of phrases by label."""
Pairs = Iterable[tuple[str, str | None]]
WordNormalizer = Callable[[str], str]
Normalizer = Callable[[str], Sequence[str]]
# In scripts with spaces, tokenizers separate letters, digits and signs, but nothing smaller.
_SUBTOKEN = regex.compile(
    rf"[{UNSEGMENTED_SCRIPTS}]\p{{M}}*|(?:(?![{UNSEGMENTED_SCRIPTS}])[\p{{L}}\p{{M}}])+|\p{{N}}+|[^\s\x1c-\x1f]"
)
_ASCII_SUBTOKEN = re.compile(r"[A-Za-z]+|[0-9]+|\S")  # equivalent for ASCII, and faster
LETTERS_PER_EDIT = 4
# The automaton reads one character per subtoken; these two stand for no subtoken of a phrase.
_UNKNOWN_SYMBOL, _BOUNDARY_SYMBOL = "\x00", "\x01"
_FIRST_CODE = 2
_SURROGATES = 0xD800, 0xE000
_MAX_SYMBOLS = 0x110000 - _FIRST_CODE - (_SURROGATES[1] - _SURROGATES[0])
_MAX_CACHED_WORDS = 1 << 20


def gazetteer(
    phrases: Phrases,
    label: str | None = None,
    *,
    name: str | None = None,
    ignore_case: bool = False,
    normalize: WordNormalizer | str | None = None,
    max_edits: int = 0,
    **settings: Unpack[LFSettings],
) -> LabelingFunction:
    """Return a labeling function that marks the phrases of a list at token boundaries.

    phrases      a list, a mapping from labels to lists, or a file: text with one phrase per line,
                 .tsv with phrase and label, .json with a list or a mapping; each also as .gz
    label        label of phrases without one
    ignore_case  compare words regardless of case
    normalize    function applied to each word before comparison; "english" removes plural endings
    max_edits    maximum number of edits per word, at most one per four letters; needs rapidfuzz
    settings     other fields of `LabelingFunction`

    Words are compared by runs of letters, runs of digits and single signs, so the tokenization of
    text and phrases does not matter. Of overlapping matches the longest is kept, then the first.

    >>> cities = gazetteer(["New York", "York"], "LOC", name="cities")
    >>> cities("From New York to York")
    From [New York](LOC) to [York](LOC)
    """
    is_file = isinstance(phrases, str | PathLike)
    name = name or (PurePath(phrases).name.partition(".")[0] if is_file else "gazetteer")  # type: ignore[arg-type]
    phrase_labels = read_phrase_labels(phrases, label, name)
    if not phrase_labels:
        raise ConfigError(f"{name}: the list contains no phrases")
    if max_edits < 0:
        raise ConfigError(f"{name}: max_edits must be at least 0, got {max_edits}")
    normalizer = make_normalizer(ignore_case=ignore_case, normalize=normalize)
    with suppress(NotFingerprintable):  # normalize comes from a library: no caching
        settings.setdefault("version", fingerprint("gazetteer 1", phrase_labels, ignore_case, normalize, max_edits))
    return LabelingFunction(
        name=name,
        labels=tuple(dict.fromkeys(phrase_labels.values())),
        batch_func=PhraseMatcher(phrase_labels, normalizer, max_edits=max_edits),
        **settings,
    )


class PhraseMatcher:
    """Finds phrases in a batch of texts with one pass of an automaton over their subtokens."""

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
        """Return the spans of each text."""
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
        bounds = lengths_to_offsets(len(doc) + 1 for doc in docs)
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
    """The character that represents each subtoken; a new subtoken gets the next free character."""

    def __missing__(self, subtoken: str) -> str:
        if len(self) >= _MAX_SYMBOLS:
            raise ConfigError(f"a gazetteer holds at most {_MAX_SYMBOLS:,} different words; split the list")
        number = len(self) + _FIRST_CODE
        gap = _SURROGATES[1] - _SURROGATES[0] if number >= _SURROGATES[0] else 0
        symbol = self[subtoken] = chr(number + gap)
        return symbol


class _WordEncoder(dict[str, str]):
    """Cache of words encoded for the automaton."""

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
    """Return the matches at token boundaries: phrase, text, first token, last token (exclusive).

    matches (S, 3)  phrase, start and end in the encoded text
    lengths         encoded length of each token, text separators included
    bounds          offsets of the texts in these tokens
    """
    offsets = lengths_to_offsets(lengths)
    nonempty = np.flatnonzero(np.diff(offsets))  # tokens of white space only cannot bound a match
    token_starts, token_ends = np.full((2, int(offsets[-1]) + 1), -1, np.int64)
    token_starts[offsets[nonempty]], token_ends[offsets[nonempty + 1]] = nonempty, nonempty + 1
    phrase_index, start, end = matches[:, 0], token_starts[matches[:, 1]], token_ends[matches[:, 2]]
    whole = (start >= 0) & (end >= 0)
    phrase_index, start, end = phrase_index[whole], start[whole], end[whole]
    doc_index: NDArray[np.int64] = np.searchsorted(bounds, start, side="right") - 1
    return phrase_index, doc_index, start - bounds[doc_index], end - bounds[doc_index]


def split_subtokens(words: str) -> list[str]:
    """Split text into runs of letters, runs of digits and single signs, which no tokenizer splits further.

    >>> split_subtokens("non-small U.S. B12 北京")
    ['non', '-', 'small', 'U', '.', 'S', '.', 'B', '12', '北', '京']
    """
    if words.isascii():
        return _ASCII_SUBTOKEN.findall(words)
    return _SUBTOKEN.findall(unicodedata.normalize("NFC", words))


def fold_case(word: str) -> str:
    """Return the word with its case folded.

    >>> fold_case("STRASSE") == fold_case("Straße")
    True
    """
    return unicodedata.normalize("NFC", word.casefold())


def singular(word: str) -> str:
    """Return an English noun without its plural ending, by three rules (Harman's S stemmer).

    >>> [singular(word) for word in ("diseases", "allergies", "virus", "glass", "was", "CATS")]
    ['disease', 'allergy', 'virus', 'glass', 'was', 'CAT']
    """
    end = word.casefold()
    if len(end) < 4 or end.endswith(("us", "ss")):
        return word
    if end.endswith("ies") and not end.endswith(("eies", "aies")):
        return word[:-3] + ("Y" if word.isupper() else "y")
    if end.endswith("es") and not end.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word[:-1] if end.endswith("s") else word


class NearestWord:
    """Finds the nearest word of a vocabulary by edit distance.

    A word of n letters may differ by n / 4 edits (insertion, deletion, substitution,
    transposition), and by at most `max_edits`. Ties go to the alphabetically first word.

    >>> near = NearestWord(["aspirin", "codeine"], max_edits=1)
    >>> near("asprin"), near("codiene"), near("code")
    ('aspirin', 'codeine', None)
    """

    def __init__(self, vocabulary: Iterable[str], *, max_edits: int) -> None:
        self._extract: Any = require("rapidfuzz.process", extra="fuzzy", purpose="max_edits").extract
        self._distance: Any = require("rapidfuzz.distance.OSA", extra="fuzzy", purpose="").distance
        self._max_edits = max_edits
        self._by_length: dict[int, list[str]] = {}
        for word in sorted(vocabulary):
            self._by_length.setdefault(len(word), []).append(word)

    def __call__(self, word: str) -> str | None:
        """Return the nearest word of the vocabulary, or None."""
        max_edits = min(self._max_edits, len(word) // LETTERS_PER_EDIT)
        candidates: list[tuple[int, str]] = []
        for length in range(len(word) - max_edits, len(word) + max_edits + 1) if max_edits else ():
            matches = self._extract(
                word,
                self._by_length.get(length, ()),
                scorer=self._distance,
                score_cutoff=max_edits,
                limit=None,
            )
            candidates += [(int(distance), candidate) for candidate, distance, _ in matches]
        return min(candidates)[1] if candidates else None


def make_normalizer(*, ignore_case: bool, normalize: WordNormalizer | str | None) -> Callable[[str], Sequence[str]]:
    """Return a function that maps text to the normalized subtokens by which it is compared."""
    if isinstance(normalize, str):
        if normalize != "english":
            raise ConfigError(f"normalize must be 'english' or a function of a word, got {normalize!r}")
        normalize = singular
    steps: list[WordNormalizer] = [
        *([fold_case] if ignore_case else []),
        *([normalize] if normalize else []),
    ]

    def normalize_words(words: str) -> Sequence[str]:
        subtokens = split_subtokens(words)
        for step in steps:
            # A step may return several subtokens or none, so its result is split again.
            subtokens = [part for subtoken in subtokens for part in split_subtokens(step(subtoken))]
        return subtokens

    return normalize_words


def read_phrase_labels(phrases: Phrases, label: str | None, name: str) -> dict[str, str]:
    """Return the label of each phrase; `label` applies to phrases without one.

    A phrase with several labels keeps the first; one warning counts such phrases.

    >>> read_phrase_labels({"LOC": ["Oslo", "Lima"]}, None, "places")
    {'Oslo': 'LOC', 'Lima': 'LOC'}
    """
    pairs = _read_pairs(Path(phrases)) if isinstance(phrases, str | PathLike) else _to_pairs(phrases, "")
    labels: dict[str, str] = {}
    ambiguous: dict[str, str] = {}
    for phrase, own_label in pairs:
        assigned = label if own_label is None else own_label
        if assigned is None:
            raise ConfigError(f"{name}: phrase {short_repr(phrase)} has no label; pass label=...")
        if labels.setdefault(phrase, assigned) != assigned:
            ambiguous.setdefault(phrase, assigned)
    if ambiguous:
        first, other = next(iter(ambiguous.items()))
        warnings.warn(
            f"{name}: {len(ambiguous)} phrases have several labels; the first is used, e.g. "
            f"{short_repr(first)}: {labels[first]}, not {other}",
            ConvenerWarning,
            stacklevel=4,
        )
    return labels


def _read_pairs(path: Path) -> Pairs:
    if not path.is_file():
        raise DataError(f"{path}: phrase file not found")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    try:
        raw = path.read_bytes()
        if suffixes[-1:] == [".gz"]:
            raw = gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot read file: {error}") from error
    text = decode_utf8(raw, str(path))
    kind = [suffix for suffix in suffixes if suffix != ".gz"][-1:]
    if kind == [".json"]:
        try:
            return _to_pairs(json.loads(text), f"{path}: ")
        except ValueError as error:
            raise DataError(f"{path}: invalid JSON: {error}") from error
    lines = [line for line in text.splitlines() if line.strip()]
    if kind == [".tsv"]:
        return [_parse_line(line) for line in lines]
    return [(line.strip(), None) for line in lines]


def _parse_line(line: str) -> tuple[str, str | None]:
    """Parse a phrase and, after a tab, its label; further columns are ignored."""
    phrase, _, rest = line.partition("\t")
    label = rest.partition("\t")[0].strip()
    return phrase.strip(), label or None


def _to_pairs(content: Any, location: str) -> Pairs:
    """Return (phrase, label) pairs of a list of phrases or of a mapping from labels to lists."""
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
            f"{location}expected a list of phrases or a mapping from labels to such lists, got {short_repr(invalid[0])}"
        )
    return phrases
