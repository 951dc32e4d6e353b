"""Features from spelling and neighbours alone: no model, no download, nothing but numpy."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from convener.config import config_from_dict, config_to_dict
from convener.data import validation
from convener.data.features import EncoderSpec
from convener.data.ragged import StringArray, concat_ranges, lengths_to_offsets
from convener.encoders.base import EncodedBatch, Encoder, sentence_means
from convener.errors import ConfigError
from convener.storage import compute_digest

Floats = NDArray[np.float32]
Hashes = NDArray[np.uint64]
Indices = NDArray[np.int64]
VERSION = "1"
"""Part of the digest: to be raised whenever a number changes."""
TOKEN_BLOCK, WORD_BLOCK = 1 << 14, 1 << 10
"""So many tokens, and so many different words, are worked on together."""
AFFIX_BYTES = 64
"""Bytes looked at on either side of a word that is longer than both together."""
NEIGHBOR_DIVISOR = 16
"""A neighbour has one of so many parts of the width."""
WORD_START, WORD_END = 0x110000, 0x110001
"""The borders of a word; no character has these numbers."""
CODE_LIMIT = 0x20000
"""Characters from here on are taken for ideographs."""
CHAR_CLASSES = [
    "Lu Lt",
    "Ll",
    "Lo Lm",
    "Nd Nl No",
    "Mn Mc Me",
    "Pd",
    "Pc Ps Pe Pi Pf Po",
    "Sm Sc Sk So",
]
"""Kinds of characters, by their categories in Unicode; what is of none of them is of kind 0."""
CAPITAL, IDEOGRAPH, UNKNOWN = 1, 3, 9
LENGTH_BINS = (1, 2, 3, 4, 6, 9, 13)
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
        for name, minimum, maximum in (
            ("shortest", 1, 16),
            ("longest", self.shortest, 16),
            ("window", 0, 4),
            ("width", 2 * self.window + 1, 1 << 15),  # columns are drawn by fifteen bits
            ("seed", 0, (1 << 64) - 1),
        ):
            if not minimum <= (value := getattr(self, name)) <= maximum:
                raise ConfigError(f"{name} must be from {minimum} to {maximum}, got {value}")


class HashingEncoder(Encoder):
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

    >>> encoder = HashingEncoder(width=64)
    >>> words = StringArray.from_list(["Aspirin", "aspirin", "the"])
    >>> one, same, other = encoder.encode(words, np.array([0, 1, 2, 3])).tokens
    >>> bool(one @ same > 0.8 > 0.3 > one @ other)
    True
    """

    name = "hashing"

    def __init__(self, **settings: Any) -> None:
        self.config = config_from_dict(HashingConfig, settings, kind="setting of encoder hashing")
        self.dim = self.config.width

    @cached_property
    def spec(self) -> EncoderSpec:
        """By the settings and the version of what is done with them."""
        settings = config_to_dict(self.config)
        return EncoderSpec(self.name, compute_digest(self.name, VERSION, settings), settings)

    def encode(self, tokens: StringArray, offsets: NDArray[np.int64]) -> EncodedBatch:
        """Features of consecutive sentences; takes little more room than they do."""
        validation.check_offsets(offsets, len(tokens))
        features = np.empty((len(tokens), self.dim), np.float32)
        for start in range(0, len(tokens), TOKEN_BLOCK):
            self._fill(features[start : start + TOKEN_BLOCK], start, tokens, offsets)
        return EncodedBatch(features, sentence_means(features, offsets))

    def _fill(self, block: Floats, start: int, tokens: StringArray, offsets: Indices) -> None:
        """Write the features of the tokens from `start` on."""
        window, neighbor_dim = self.config.window, -(-self.dim // NEIGHBOR_DIVISOR)
        own_dim = self.dim - 2 * window * neighbor_dim
        # Neighbours may lie before and after the block.
        first = max(0, start - window)
        words, word_index = _unique_words(_truncate_long_words(tokens[first : start + len(block) + window]))
        vectors, neighbor_vectors = self._vectors(words, own_dim, neighbor_dim)
        positions = np.arange(start, start + len(block))
        # Whole rows at first, which is the fastest way to copy them.
        np.take(vectors, word_index[positions - first], axis=0, out=block, mode="clip")
        if window:
            sentence = np.searchsorted(offsets, positions, side="right")
            sentence_start, sentence_end = offsets[sentence - 1, None], offsets[sentence, None]
            neighbors = positions[:, None] + np.array([step for step in range(-window, window + 1) if step])
            inside = (neighbors >= sentence_start) & (neighbors < sentence_end)
            # The last row is nobody's, and zero.
            index = np.where(inside, word_index[np.where(inside, neighbors - first, 0)], len(words))
            block[:, own_dim:] = neighbor_vectors.take(index, axis=0).reshape(len(block), -1)

    def _vectors(self, words: StringArray, own_dim: int, neighbor_dim: int) -> tuple[Floats, Floats]:
        """Words as themselves, with room beside, and as neighbours, with a row of zeros below."""
        vectors = np.zeros((len(words), self.dim), np.float32)
        neighbor_vectors = np.zeros((len(words) + 1, neighbor_dim), np.float32)
        for start in range(0, len(words), WORD_BLOCK):
            block = words[start : start + WORD_BLOCK].compact()
            word_index, hashes = _feature_hashes(block, self.config)
            rows = slice(start, start + len(block))
            _sketch(word_index, hashes, out=vectors[rows, :own_dim])
            _sketch(word_index, _splitmix64(hashes), out=neighbor_vectors[rows])
        return vectors, neighbor_vectors


def _truncate_long_words(words: StringArray) -> StringArray:
    """Words of more than 2 * EDGE bytes without their middles, so that every word costs little."""
    words = words.compact()
    data, starts, ends = words.data, words.offsets[:-1], words.offsets[1:]
    long = np.flatnonzero(words.lengths > 2 * AFFIX_BYTES)
    if not len(long):
        return words
    left, right = starts[long] + AFFIX_BYTES, ends[long] - AFFIX_BYTES
    for _ in range(3):  # No character is cut: up to three bytes follow its first.
        left -= data[left] & 0xC0 == 0x80
        right += data[right] & 0xC0 == 0x80
    # Every word in two pieces, the second of which is empty where nothing is left out.
    segments = np.stack([starts, ends, ends, ends], axis=1)
    segments[long, 1], segments[long, 2] = left, right
    lengths = segments[:, 1::2] - segments[:, ::2]
    return StringArray(
        data[concat_ranges(segments[:, ::2].ravel(), lengths.ravel())],
        lengths_to_offsets(lengths.sum(1)),
    )


def _unique_words(words: StringArray) -> tuple[StringArray, Indices]:
    """The different words, and which of them each is.

    Words are told apart by 64 bits: that two of a million are taken for one has a chance of 3e-8.
    """
    _, first, inverse = np.unique(_hash_words(words), return_index=True, return_inverse=True)
    return words.take(first), inverse


def _hash_words(words: StringArray) -> Hashes:
    """A hash of the bytes of each word, eight at a time."""
    chunks = sliding_window_view(np.concatenate([words.data, np.zeros(8, np.uint8)]), 8)
    lengths = words.lengths
    keys = _splitmix64(lengths.astype(np.uint64))
    active = np.arange(len(words))
    for position in range(0, int(lengths.max(initial=0)), 8):
        active = active[lengths[active] > position]
        # In one order of bytes on every machine; those of the next word are pushed out.
        chunk = chunks[words.offsets[active] + position].view("<u8")[:, 0].astype(np.uint64)
        excess = np.maximum(position + 8 - lengths[active], 0).astype(np.uint64)
        keys[active] = _splitmix64(keys[active] ^ (chunk << (excess * np.uint64(8))))
    return keys


def _splitmix64(numbers: Hashes) -> Hashes:
    """Each number scattered over 64 bits, one to one: the output of SplitMix64."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers ^= numbers >> np.uint64(30)
    numbers *= np.uint64(0xBF58476D1CE4E5B9)
    numbers ^= numbers >> np.uint64(27)
    numbers *= np.uint64(0x94D049BB133111EB)
    numbers ^= numbers >> np.uint64(31)
    return numbers


def _sketch(word_index: Indices, hashes: Hashes, *, out: Floats) -> None:
    """Write the sum of each owner's properties, at length 1."""
    count, width = out.shape
    # Sixteen bits a column; which come first is the machine's affair, for all count alike.
    draws = hashes.view(np.uint16).astype(np.uint32)
    columns = (draws >> np.uint32(1)) * np.uint32(width) >> np.uint32(15)
    signs = 1.0 - 2.0 * (draws & np.uint32(1))
    cells = np.repeat(word_index * width, 4) + columns
    sums = np.bincount(cells, weights=signs, minlength=count * width).reshape(count, width)
    norms = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    # Whole numbers have a length below 1 only where all are zero.
    np.divide(sums, np.maximum(norms, 1)[:, None], out=out, casting="same_kind")


class _Characters(NamedTuple):
    """Words character by character, with their borders; T places in all."""

    chars: NDArray[np.uint32]
    """Lower-cased."""
    classes: Indices
    word_index: Indices
    remaining: Indices
    """Places from here to the end of the word."""
    lengths: Indices
    """Characters of each word."""


def _split_characters(words: StringArray) -> _Characters:
    text = words.data.tobytes().decode("utf-8", "surrogatepass")
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4").astype(np.uint32)
    lengths = words.character_lengths()
    bounds = lengths_to_offsets(lengths + 2)
    word_index = np.repeat(np.arange(len(words)), lengths + 2)
    inner = concat_ranges(bounds[:-1] + 1, lengths)
    lower, class_table = _character_tables()
    chars, classes = (
        np.full(len(word_index), WORD_START, np.uint32),
        np.zeros(len(word_index), np.int64),
    )
    chars[bounds[1:] - 1] = WORD_END
    capped = np.minimum(codes, CODE_LIMIT)
    chars[inner] = np.where(codes < CODE_LIMIT, lower[capped], codes)
    classes[inner] = class_table[capped]
    return _Characters(chars, classes, word_index, bounds[1:][word_index] - np.arange(len(word_index)), lengths)


@cache
def _character_tables() -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """The small letter and the kind of each character below PLANES, and of all others."""
    # By Unicode 3.2, which every Python keeps: features must not change with Python's version.
    # Characters that came later, most emoji among them, are of one kind and keep their case.
    category = unicodedata.ucd_3_2_0.category
    class_by_category = {name: char_class for char_class, names in enumerate(CHAR_CLASSES, 1) for name in names.split()}
    class_by_category["Cn"] = UNKNOWN
    kind = np.array([class_by_category.get(category(chr(code)), 0) for code in range(CODE_LIMIT)] + [IDEOGRAPH])
    lower = np.arange(CODE_LIMIT + 1)
    capitals = np.flatnonzero(kind == CAPITAL)
    lower[capitals] = [ord(chr(code).lower()[0]) for code in capitals.tolist()]
    return lower.astype(np.uint32), kind.astype(np.uint8)


def _feature_hashes(words: StringArray, config: HashingConfig) -> tuple[Indices, Hashes]:
    """All properties of all words: whose it is, and its hash."""
    chars, classes, word_index, remaining, lengths = _split_characters(words)
    seeds = _splitmix64(np.arange(3, dtype=np.uint64) ^ _splitmix64(np.array([config.seed], np.uint64)))
    char_hashes = _splitmix64(chars.astype(np.uint64) ^ seeds[0])
    ngrams, word_indices, hashes = char_hashes, [], []
    for size in range(1, config.longest + 1):
        if size > 1:
            ngrams = _splitmix64(ngrams[:-1] + char_hashes[size - 1 :])
        if size >= config.shortest:
            # Borders alone say nothing.
            kept = remaining[: len(ngrams)] >= size if size > 1 else chars < WORD_START
            word_indices.append(word_index[: len(ngrams)][kept])
            hashes.append(ngrams[kept])
    class_change = np.flatnonzero((classes[:-1] != classes[1:]) & (remaining[:-1] > 1))
    shapes = (classes[class_change] * (UNKNOWN + 1) + classes[class_change + 1]).astype(np.uint64)
    sizes = np.searchsorted(LENGTH_BINS, lengths, side="right").astype(np.uint64)
    word_indices += [word_index[class_change], np.arange(len(words))]
    hashes += [_splitmix64(shapes ^ seeds[1]), _splitmix64(sizes ^ seeds[2])]
    return np.concatenate(word_indices), np.concatenate(hashes)
