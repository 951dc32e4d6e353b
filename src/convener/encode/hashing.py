"""Features from spelling and neighbours alone: no model, no download, nothing but numpy."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from convener import expect
from convener.caching import digest_of
from convener.encode.base import Encoded, Encoder, sentence_means
from convener.errors import ConfigError
from convener.features import Encoding
from convener.packed import Strings, offsets_of, ranges
from convener.settings import from_mapping, to_mapping

__all__ = ["Hashing", "HashingConfig"]

Floats = NDArray[np.float32]
Hashes = NDArray[np.uint64]
Indices = NDArray[np.int64]

VERSION = "1"
"""Part of the digest: to be raised whenever a number changes."""
TOKENS, WORDS = 1 << 14, 1 << 10
"""So many tokens, and so many different words, are worked on together."""
EDGE = 64
"""Bytes looked at on either side of a word that is longer than both together."""
SHARE = 16
"""A neighbour has one of so many parts of the width."""

START, END = 0x110000, 0x110001
"""The borders of a word; no character has these numbers."""
PLANES = 0x20000
"""Characters from here on are taken for ideographs."""
KINDS = ["Lu Lt", "Ll", "Lo Lm", "Nd Nl No", "Mn Mc Me", "Pd", "Pc Ps Pe Pi Pf Po", "Sm Sc Sk So"]
"""Kinds of characters, by their categories in Unicode; what is of none of them is of kind 0."""
CAPITAL, IDEOGRAPH, UNKNOWN = 1, 3, 9
LENGTHS = (1, 2, 3, 4, 6, 9, 13)
"""Where a class of lengths begins, in characters."""


@dataclass(frozen=True, kw_only=True)
class HashingConfig:
    """Settings of the hashing encoder."""

    width: int = 256
    shortest: int = 1
    """Characters in the shortest pieces of words that are looked at."""
    longest: int = 3
    """Characters in the longest pieces; the borders of the word count."""
    window: int = 1
    """Neighbours on either side that have their part in a word's features."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least, most in (
            ("shortest", 1, 16),
            ("longest", self.shortest, 16),
            ("window", 0, 4),
            ("width", 2 * self.window + 1, 1 << 15),  # columns are drawn by fifteen bits
            ("seed", 0, (1 << 64) - 1),
        ):
            if not least <= (value := getattr(self, name)) <= most:
                raise ConfigError(f"{name} must be from {least} to {most}, got {value}")


class Hashing(Encoder):
    """Words by their spelling, and a little of their neighbours': a sketch of both.

    A word w has properties f in F(w): its pieces of one to three characters, lower-cased, with
    the borders of the word; the changes of kind in it (capital, small, digit, ...); the class of
    its length. A hash of f draws four columns c and signs s; columns may be drawn twice.

        v(w) = sum_f sum_k s_k(f) e[c_k(f)]         x(i) = [v(w_i), u(w_i-1), u(w_i+1)]

    each of v and u at length 1. u is another, shorter sketch; it is zero beyond the sentence. The
    feature of a sentence is the mean of its words'.

    Dot products of sketches estimate those of the properties (Weinberger et al., Feature hashing
    for large scale multitask learning, ICML 2009; several columns: Kane and Nelson, Sparser
    Johnson-Lindenstrauss transforms, J. ACM 2014). Sums of signs are whole numbers, so that
    neither their order nor the words around can change a bit, on any machine.

    >>> encoder = Hashing(width=64)
    >>> words = Strings.of(["Aspirin", "aspirin", "the"])
    >>> one, same, other = encoder.encode(words, np.array([0, 1, 2, 3])).tokens
    >>> bool(one @ same > 0.8 > 0.3 > one @ other)
    True
    """

    name = "hashing"

    def __init__(self, **settings: Any) -> None:
        self.config = from_mapping(HashingConfig, settings, what="setting of encoder hashing")
        self.width = self.config.width

    @cached_property
    def encoding(self) -> Encoding:
        """By the settings and the version of what is done with them."""
        settings = to_mapping(self.config)
        return Encoding(self.name, digest_of(self.name, VERSION, settings), settings)

    def encode(self, tokens: Strings, offsets: NDArray[np.int64]) -> Encoded:
        """Features of consecutive sentences; takes little more room than they do."""
        expect.offsets(offsets, len(tokens))
        features = np.empty((len(tokens), self.width), np.float32)
        for start in range(0, len(tokens), TOKENS):
            self._fill(features[start : start + TOKENS], start, tokens, offsets)
        return Encoded(features, sentence_means(features, offsets))

    def _fill(self, block: Floats, start: int, tokens: Strings, offsets: Indices) -> None:
        """Write the features of the tokens from `start` on."""
        window, side = self.config.window, -(-self.width // SHARE)
        own = self.width - 2 * window * side
        # Neighbours may lie before and after the block.
        first = max(0, start - window)
        words, which = _distinct(_shortened(tokens[first : start + len(block) + window]))
        vectors, others = self._vectors(words, own, side)
        here = np.arange(start, start + len(block))
        # Whole rows at first, which is the fastest way to copy them.
        np.take(vectors, which[here - first], axis=0, out=block, mode="clip")
        if window:
            sentence = np.searchsorted(offsets, here, side="right")
            begin, end = offsets[sentence - 1, None], offsets[sentence, None]
            there = here[:, None] + np.array([step for step in range(-window, window + 1) if step])
            inside = (there >= begin) & (there < end)
            # The last row is nobody's, and zero.
            index = np.where(inside, which[np.where(inside, there - first, 0)], len(words))
            block[:, own:] = others.take(index, axis=0).reshape(len(block), -1)

    def _vectors(self, words: Strings, own: int, side: int) -> tuple[Floats, Floats]:
        """Words as themselves, with room beside, and as neighbours, with a row of zeros below."""
        vectors = np.zeros((len(words), self.width), np.float32)
        others = np.zeros((len(words) + 1, side), np.float32)
        for start in range(0, len(words), WORDS):
            some = words[start : start + WORDS].compact()
            owner, hashes = _properties(some, self.config)
            rows = slice(start, start + len(some))
            _sketch(owner, hashes, out=vectors[rows, :own])
            _sketch(owner, _mixed(hashes), out=others[rows])
        return vectors, others


def _shortened(words: Strings) -> Strings:
    """Words of more than 2 * EDGE bytes without their middles, so that every word costs little."""
    words = words.compact()
    data, starts, ends = words.data, words.offsets[:-1], words.offsets[1:]
    long = np.flatnonzero(words.lengths > 2 * EDGE)
    if not len(long):
        return words
    left, right = starts[long] + EDGE, ends[long] - EDGE
    for _ in range(3):  # No character is cut: up to three bytes follow its first.
        left -= data[left] & 0xC0 == 0x80
        right += data[right] & 0xC0 == 0x80
    # Every word in two pieces, the second of which is empty where nothing is left out.
    pieces = np.stack([starts, ends, ends, ends], axis=1)
    pieces[long, 1], pieces[long, 2] = left, right
    lengths = pieces[:, 1::2] - pieces[:, ::2]
    return Strings(
        data[ranges(pieces[:, ::2].ravel(), lengths.ravel())], offsets_of(lengths.sum(1))
    )


def _distinct(words: Strings) -> tuple[Strings, Indices]:
    """The different words, and which of them each is.

    Words are told apart by 64 bits: that two of a million are taken for one has a chance of 3e-8.
    """
    _, first, which = np.unique(_keys(words), return_index=True, return_inverse=True)
    return words.take(first), which


def _keys(words: Strings) -> Hashes:
    """A hash of the bytes of each word, eight at a time."""
    eights = sliding_window_view(np.concatenate([words.data, np.zeros(8, np.uint8)]), 8)
    lengths = words.lengths
    keys = _mixed(lengths.astype(np.uint64))
    at = np.arange(len(words))
    for done in range(0, int(lengths.max(initial=0)), 8):
        at = at[lengths[at] > done]
        # In one order of bytes on every machine; those of the next word are pushed out.
        eight = eights[words.offsets[at] + done].view("<u8")[:, 0].astype(np.uint64)
        foreign = np.maximum(done + 8 - lengths[at], 0).astype(np.uint64)
        keys[at] = _mixed(keys[at] ^ (eight << (foreign * np.uint64(8))))
    return keys


def _mixed(numbers: Hashes) -> Hashes:
    """Each number scattered over 64 bits, one to one: the output of SplitMix64."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers ^= numbers >> np.uint64(30)
    numbers *= np.uint64(0xBF58476D1CE4E5B9)
    numbers ^= numbers >> np.uint64(27)
    numbers *= np.uint64(0x94D049BB133111EB)
    numbers ^= numbers >> np.uint64(31)
    return numbers


def _sketch(owner: Indices, hashes: Hashes, *, out: Floats) -> None:
    """Write the sum of each owner's properties, at length 1."""
    count, width = out.shape
    # Sixteen bits a column; which come first is the machine's affair, for all count alike.
    drawn = hashes.view(np.uint16).astype(np.uint32)
    columns = (drawn >> np.uint32(1)) * np.uint32(width) >> np.uint32(15)
    signs = 1.0 - 2.0 * (drawn & np.uint32(1))
    places = np.repeat(owner * width, 4) + columns
    sums = np.bincount(places, weights=signs, minlength=count * width).reshape(count, width)
    lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    # Whole numbers have a length below 1 only where all are zero.
    np.divide(sums, np.maximum(lengths, 1)[:, None], out=out, casting="same_kind")


class _Spelling(NamedTuple):
    """Words character by character, with their borders; T places in all."""

    letters: NDArray[np.uint32]
    """Lower-cased."""
    kinds: Indices
    owner: Indices
    rest: Indices
    """Places from here to the end of the word."""
    lengths: Indices
    """Characters of each word."""


def _spelling(words: Strings) -> _Spelling:
    text = words.data.tobytes().decode("utf-8", "surrogatepass")
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint32)
    lengths = words.character_lengths()
    bounds = offsets_of(lengths + 2)
    owner = np.repeat(np.arange(len(words)), lengths + 2)
    inner = ranges(bounds[:-1] + 1, lengths)
    lower, kind = _characters()
    letters, kinds = np.full(len(owner), START, np.uint32), np.zeros(len(owner), np.int64)
    letters[bounds[1:] - 1] = END
    known = np.minimum(codes, PLANES)
    letters[inner] = np.where(codes < PLANES, lower[known], codes)
    kinds[inner] = kind[known]
    return _Spelling(letters, kinds, owner, bounds[1:][owner] - np.arange(len(owner)), lengths)


@cache
def _characters() -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """The small letter and the kind of each character below PLANES, and of all others."""
    # By Unicode 3.2, which every Python keeps: features must not change with Python's version.
    # Characters that came later, most emoji among them, are of one kind and keep their case.
    category = unicodedata.ucd_3_2_0.category
    kinds = {name: kind for kind, names in enumerate(KINDS, 1) for name in names.split()}
    kinds["Cn"] = UNKNOWN
    kind = np.array([kinds.get(category(chr(code)), 0) for code in range(PLANES)] + [IDEOGRAPH])
    lower = np.arange(PLANES + 1)
    capitals = np.flatnonzero(kind == CAPITAL)
    lower[capitals] = [ord(chr(code).lower()[0]) for code in capitals.tolist()]
    return lower.astype(np.uint32), kind.astype(np.uint8)


def _properties(words: Strings, config: HashingConfig) -> tuple[Indices, Hashes]:
    """All properties of all words: whose it is, and its hash."""
    letters, kinds, owner, rest, lengths = _spelling(words)
    seeds = _mixed(np.arange(3, dtype=np.uint64) ^ _mixed(np.array([config.seed], np.uint64)))
    hashed = _mixed(letters.astype(np.uint64) ^ seeds[0])
    pieces, owners, found = hashed, [], []
    for size in range(1, config.longest + 1):
        if size > 1:
            pieces = _mixed(pieces[:-1] + hashed[size - 1 :])
        if size >= config.shortest:
            # Borders alone say nothing.
            kept = rest[: len(pieces)] >= size if size > 1 else letters < START
            owners.append(owner[: len(pieces)][kept])
            found.append(pieces[kept])
    change = np.flatnonzero((kinds[:-1] != kinds[1:]) & (rest[:-1] > 1))
    shapes = (kinds[change] * (UNKNOWN + 1) + kinds[change + 1]).astype(np.uint64)
    sizes = np.searchsorted(LENGTHS, lengths, side="right").astype(np.uint64)
    owners += [owner[change], np.arange(len(words))]
    found += [_mixed(shapes ^ seeds[1]), _mixed(sizes ^ seeds[2])]
    return np.concatenate(owners), np.concatenate(found)
