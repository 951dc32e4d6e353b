"""Hashing encoder: features of spelling and context that need neither a model nor a download."""

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
"""Part of the digest; increase it whenever a feature changes."""
TOKEN_BLOCK, WORD_BLOCK = 1 << 14, 1 << 10
"""Number of tokens, and of distinct words, that are processed together."""
AFFIX_BYTES = 64
"""Bytes kept at the start and at the end of longer words."""
NEIGHBOR_DIVISOR = 16
"""A neighbour gets 1 / NEIGHBOR_DIVISOR of the dimensions."""
WORD_START, WORD_END = 0x110000, 0x110001
"""Boundary symbols of a word; no character has these code points."""
CODE_LIMIT = 0x20000
"""Characters from this code point on count as ideographs."""
CHAR_CLASSES = ["Lu Lt", "Ll", "Lo Lm", "Nd Nl No", "Mn Mc Me", "Pd", "Pc Ps Pe Pi Pf Po", "Sm Sc Sk So"]
"""Character classes by Unicode category, numbered from 1; all other characters are of class 0."""
CAPITAL, IDEOGRAPH, UNKNOWN = 1, 3, 9
LENGTH_BINS = (1, 2, 3, 4, 6, 9, 13)
"""Lower bounds of the length classes, in characters."""


@dataclass(frozen=True, kw_only=True)
class HashingConfig:
    """Settings of the hashing encoder."""

    width: int = 256
    """Number of features."""
    shortest: int = 1
    """Length of the shortest character n-grams."""
    longest: int = 3
    """Length of the longest character n-grams, boundary symbols included."""
    window: int = 1
    """Number of neighbours on each side that contribute to the features of a token; 0 disables context."""
    seed: int = 0
    """Seed of the hash functions."""

    def __post_init__(self) -> None:
        for name, minimum, maximum in (
            ("shortest", 1, 16),
            ("longest", self.shortest, 16),
            ("window", 0, 4),
            ("width", 2 * self.window + 1, 1 << 15),  # a column is drawn with 15 bits
            ("seed", 0, (1 << 64) - 1),
        ):
            if not minimum <= (value := getattr(self, name)) <= maximum:
                raise ConfigError(f"{name} must be from {minimum} to {maximum}, got {value}")


class HashingEncoder(Encoder):
    """Feature hashing of the spelling of a token and, in fewer dimensions, of its neighbours.

    A word w has binary features f in F(w): lower-cased character n-grams of one to three characters
    with boundary symbols, changes of character class (upper case, lower case, digit, ...), and the
    class of its length. A hash of f draws four columns c and signs s, with replacement:

        v(w) = sum_f sum_k s_k(f) e[c_k(f)]         x(i) = [v(w_i), u(w_i-1), u(w_i+1)]

    where v and u are normalized to unit length, and u is a sketch of lower dimension, zero outside
    the sentence. Sentence features are the mean of the token features.

    Dot products of sketches estimate those of the binary features (Weinberger et al., Feature
    hashing for large scale multitask learning, ICML 2009; several columns: Kane and Nelson, Sparser
    Johnson-Lindenstrauss transforms, J. ACM 2014). Sums of signs are integers, so results depend
    neither on the order of summation nor on the batch, on any machine.

    >>> encoder = HashingEncoder(width=64)
    >>> tokens = StringArray.from_list(["Aspirin", "aspirin", "the"])
    >>> word, similar, other = encoder.encode(tokens, np.array([0, 1, 2, 3])).tokens
    >>> bool(word @ similar > 0.8 > 0.3 > word @ other)
    True
    """

    name = "hashing"

    def __init__(self, **settings: Any) -> None:
        self.config = config_from_dict(HashingConfig, settings, kind="setting of encoder hashing")
        self.dim = self.config.width

    @cached_property
    def spec(self) -> EncoderSpec:
        """Identified by its settings and the version of the implementation."""
        settings = config_to_dict(self.config)
        return EncoderSpec(self.name, compute_digest(self.name, VERSION, settings), settings)

    def encode(self, tokens: StringArray, offsets: NDArray[np.int64]) -> EncodedBatch:
        """Encode consecutive sentences; needs little memory beyond the result."""
        validation.check_offsets(offsets, len(tokens))
        features = np.empty((len(tokens), self.dim), np.float32)
        for start in range(0, len(tokens), TOKEN_BLOCK):
            self._fill(features[start : start + TOKEN_BLOCK], start, tokens, offsets)
        return EncodedBatch(features, sentence_means(features, offsets))

    def _fill(self, block: Floats, start: int, tokens: StringArray, offsets: Indices) -> None:
        """Write the features of the tokens from `start` on into `block`."""
        window, neighbor_dim = self.config.window, -(-self.dim // NEIGHBOR_DIVISOR)
        own_dim = self.dim - 2 * window * neighbor_dim
        # Neighbours may be outside the block.
        first = max(0, start - window)
        words, word_index = _unique_words(_truncate_long_words(tokens[first : start + len(block) + window]))
        vectors, neighbor_vectors = self._vectors(words, own_dim, neighbor_dim)
        positions = np.arange(start, start + len(block))
        # Complete rows first: copying them is fastest.
        np.take(vectors, word_index[positions - first], axis=0, out=block, mode="clip")
        if window:
            sentence = np.searchsorted(offsets, positions, side="right")
            sentence_start, sentence_end = offsets[sentence - 1, None], offsets[sentence, None]
            neighbors = positions[:, None] + np.array([step for step in range(-window, window + 1) if step])
            inside = (neighbors >= sentence_start) & (neighbors < sentence_end)
            # The last row is zero and stands for positions outside the sentence.
            index = np.where(inside, word_index[np.where(inside, neighbors - first, 0)], len(words))
            block[:, own_dim:] = neighbor_vectors.take(index, axis=0).reshape(len(block), -1)

    def _vectors(self, words: StringArray, own_dim: int, neighbor_dim: int) -> tuple[Floats, Floats]:
        """Return the sketches of words, padded to `dim`, and their sketches as neighbours, with a zero row added."""
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
    """Remove the middle of words longer than 2 * AFFIX_BYTES bytes, which bounds the cost per word."""
    words = words.compact()
    data, starts, ends = words.data, words.offsets[:-1], words.offsets[1:]
    long = np.flatnonzero(words.lengths > 2 * AFFIX_BYTES)
    if not len(long):
        return words
    left, right = starts[long] + AFFIX_BYTES, ends[long] - AFFIX_BYTES
    for _ in range(3):  # Do not split a character: up to three bytes follow its first.
        left -= data[left] & 0xC0 == 0x80
        right += data[right] & 0xC0 == 0x80
    # Two segments per word; the second is empty if nothing is removed.
    segments = np.stack([starts, ends, ends, ends], axis=1)
    segments[long, 1], segments[long, 2] = left, right
    lengths = segments[:, 1::2] - segments[:, ::2]
    kept = concat_ranges(segments[:, ::2].ravel(), lengths.ravel())
    return StringArray(data[kept], lengths_to_offsets(lengths.sum(1)))


def _unique_words(words: StringArray) -> tuple[StringArray, Indices]:
    """Return the distinct words, and the index of each word among them.

    Words are compared by 64-bit hashes: among a million words a collision has probability 3e-8.
    """
    _, first, inverse = np.unique(_hash_words(words), return_index=True, return_inverse=True)
    return words.take(first), inverse


def _hash_words(words: StringArray) -> Hashes:
    """Return a hash of the bytes of each word, computed eight bytes at a time."""
    chunks = sliding_window_view(np.concatenate([words.data, np.zeros(8, np.uint8)]), 8)
    lengths = words.lengths
    keys = _splitmix64(lengths.astype(np.uint64))
    active = np.arange(len(words))
    for position in range(0, int(lengths.max(initial=0)), 8):
        active = active[lengths[active] > position]
        # Little-endian on every machine; the shift removes bytes of the next word.
        chunk = chunks[words.offsets[active] + position].view("<u8")[:, 0].astype(np.uint64)
        excess = np.maximum(position + 8 - lengths[active], 0).astype(np.uint64)
        keys[active] = _splitmix64(keys[active] ^ (chunk << (excess * np.uint64(8))))
    return keys


def _splitmix64(numbers: Hashes) -> Hashes:
    """Return the SplitMix64 hash of each number, a bijection on 64 bits."""
    numbers = numbers + np.uint64(0x9E3779B97F4A7C15)
    numbers ^= numbers >> np.uint64(30)
    numbers *= np.uint64(0xBF58476D1CE4E5B9)
    numbers ^= numbers >> np.uint64(27)
    numbers *= np.uint64(0x94D049BB133111EB)
    numbers ^= numbers >> np.uint64(31)
    return numbers


def _sketch(word_index: Indices, hashes: Hashes, *, out: Floats) -> None:
    """Write the signed sum of the features of each word, normalized to unit length."""
    count, width = out.shape
    # Sixteen bits per column; byte order does not matter, because all columns count alike.
    draws = hashes.view(np.uint16).astype(np.uint32)
    columns = (draws >> np.uint32(1)) * np.uint32(width) >> np.uint32(15)
    signs = 1.0 - 2.0 * (draws & np.uint32(1))
    cells = np.repeat(word_index * width, 4) + columns
    sums = np.bincount(cells, weights=signs, minlength=count * width).reshape(count, width)
    norms = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    # An integer vector has a norm below 1 only if it is zero.
    np.divide(sums, np.maximum(norms, 1)[:, None], out=out, casting="same_kind")


class _Characters(NamedTuple):
    """Words as characters with boundary symbols; T positions in total."""

    chars: NDArray[np.uint32]
    """Lower-cased code points (T,)."""
    classes: Indices
    word_index: Indices
    remaining: Indices
    """Positions from here to the end of the word (T,)."""
    lengths: Indices
    """Number of characters of each word."""


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
    """Return the lower case and the class of each character below CODE_LIMIT, and one entry for all others."""
    # Unicode 3.2, which every Python provides: features must not change with Python's version.
    # Later characters, most emoji among them, form one class and keep their case.
    category = unicodedata.ucd_3_2_0.category
    class_by_category = {name: char_class for char_class, names in enumerate(CHAR_CLASSES, 1) for name in names.split()}
    class_by_category["Cn"] = UNKNOWN
    classes = np.array([class_by_category.get(category(chr(code)), 0) for code in range(CODE_LIMIT)] + [IDEOGRAPH])
    lower = np.arange(CODE_LIMIT + 1)
    capitals = np.flatnonzero(classes == CAPITAL)
    lower[capitals] = [ord(chr(code).lower()[0]) for code in capitals.tolist()]
    return lower.astype(np.uint32), classes.astype(np.uint8)


def _feature_hashes(words: StringArray, config: HashingConfig) -> tuple[Indices, Hashes]:
    """Return word index and hash of all features of all words."""
    chars, classes, word_index, remaining, lengths = _split_characters(words)
    seeds = _splitmix64(np.arange(3, dtype=np.uint64) ^ _splitmix64(np.array([config.seed], np.uint64)))
    char_hashes = _splitmix64(chars.astype(np.uint64) ^ seeds[0])
    ngrams, word_indices, hashes = char_hashes, [], []
    for size in range(1, config.longest + 1):
        if size > 1:
            ngrams = _splitmix64(ngrams[:-1] + char_hashes[size - 1 :])
        if size >= config.shortest:
            # Single boundary symbols carry no information.
            kept = remaining[: len(ngrams)] >= size if size > 1 else chars < WORD_START
            word_indices.append(word_index[: len(ngrams)][kept])
            hashes.append(ngrams[kept])
    class_change = np.flatnonzero((classes[:-1] != classes[1:]) & (remaining[:-1] > 1))
    shapes = (classes[class_change] * (UNKNOWN + 1) + classes[class_change + 1]).astype(np.uint64)
    sizes = np.searchsorted(LENGTH_BINS, lengths, side="right").astype(np.uint64)
    word_indices += [word_index[class_change], np.arange(len(words))]
    hashes += [_splitmix64(shapes ^ seeds[1]), _splitmix64(sizes ^ seeds[2])]
    return np.concatenate(word_indices), np.concatenate(hashes)
