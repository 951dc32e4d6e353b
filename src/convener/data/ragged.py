"""Packed rows with offsets: string arrays, ragged arrays, and values indexed by sentence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError

Array = np.ndarray[Any, Any]
BLOCK_SIZE = 1 << 16
"""Number of bytes processed at a time, which bounds temporary memory."""


def lengths_to_offsets(lengths: Iterable[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Offsets of consecutive rows of the given lengths, starting at 0.

    >>> lengths_to_offsets([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    sizes = np.asarray(lengths if isinstance(lengths, np.ndarray) else list(lengths), dtype=np.int64)
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def locate(offsets: NDArray[np.int64], position: int) -> tuple[int, int]:
    """Index of the row that contains a position, and the position counted from the start of the row.

    >>> locate(lengths_to_offsets([2, 0, 3]), 3)
    (2, 1)
    """
    row = int(np.searchsorted(offsets, position, side="right")) - 1
    return row, int(position - offsets[row])


def concat_ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Concatenated index ranges.

    >>> concat_ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    lengths = np.asarray(lengths, np.int64)
    offsets = lengths_to_offsets(lengths)
    steps = np.arange(offsets[-1], dtype=np.int64)
    return steps + np.repeat(np.asarray(starts, np.int64) - offsets[:-1], lengths)


def chunk_bounds(offsets: NDArray[np.int64], max_size: int) -> NDArray[np.int64]:
    """Bounds of chunks of consecutive rows; a chunk has at most `max_size` elements or is a single row.

    >>> chunk_bounds(np.array([0, 10, 20, 21, 21]), 16).tolist()
    [0, 1, 4]
    """
    bounds, count = [0], len(offsets) - 1
    while bounds[-1] < count:
        limit = offsets[bounds[-1]] + max_size
        last = int(np.searchsorted(offsets, limit, side="right")) - 1
        bounds.append(max(bounds[-1] + 1, last))
    return np.array(bounds)


def as_indices(index: Iterable[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Indices as an array; a mask is converted to the indices where it is true.

    >>> as_indices([3, 0]).tolist(), as_indices(np.array([False, True])).tolist()
    ([3, 0], [1])
    """
    array = np.asarray(index if isinstance(index, np.ndarray) else list(index))
    return np.flatnonzero(array) if array.dtype == bool else array.astype(np.int64)


def factorize(names: Iterable[str]) -> NDArray[np.int64]:
    """Codes of names, numbered in the order of first occurrence.

    >>> factorize(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    codes: dict[str, int] = {}
    return np.array([codes.setdefault(name, len(codes)) for name in names], np.int64)


@dataclass(frozen=True, eq=False)
class StringArray:
    """Many strings in one UTF-8 buffer: string i is `data[offsets[i]:offsets[i + 1]]`.

    >>> words = StringArray.from_list(["Zoë", "", "🙂"])
    >>> words[0], len(words), list(words[1:])
    ('Zoë', 3, ['', '🙂'])
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def from_list(cls, strings: Iterable[str]) -> StringArray:
        """Pack Python strings."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in strings]
        data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return cls(data, lengths_to_offsets(len(piece) for piece in encoded))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice | NDArray[Any]) -> StringArray: ...
    def __getitem__(self, index: int | slice | NDArray[Any]) -> str | StringArray:
        if isinstance(index, np.ndarray):
            return self.take(index)
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            return StringArray(self.data, self.offsets[start : max(start, stop) + 1])
        if not -len(self) <= index < len(self):
            raise IndexError(f"string {index} of {len(self)}")
        index %= len(self)
        value = self.data[self.offsets[index] : self.offsets[index + 1]]
        return value.tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_list())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StringArray):
            return NotImplemented
        left, right = self.compact(), other.compact()
        return np.array_equal(left.offsets, right.offsets) and np.array_equal(left.data, right.data)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"StringArray({len(self)} strings, {int(self.offsets[-1] - self.offsets[0])} bytes)"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of bytes of each string."""
        return np.diff(self.offsets)

    def character_lengths(self) -> NDArray[np.int64]:
        """Number of characters (code points) of each string."""
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        continuation_before = np.zeros(len(self.offsets), np.int64)  # continuation bytes before each offset
        count = 0
        for start in range(first, last, BLOCK_SIZE):
            # Continuation bytes are 0x80 to 0xBF: below -64 as signed integers.
            continuation_bytes = np.flatnonzero(self.data[start : min(start + BLOCK_SIZE, last)].view(np.int8) < -64)
            covered = slice(*np.searchsorted(self.offsets, [start, start + BLOCK_SIZE]).tolist())
            continuation_before[covered] = count + np.searchsorted(continuation_bytes, self.offsets[covered] - start)
            count += len(continuation_bytes)
        continuation_before[np.searchsorted(self.offsets, last) :] = count
        return self.lengths - np.diff(continuation_before)

    def to_list(self) -> list[str]:
        """Python strings, decoded in one pass."""
        compact = self.compact()
        raw = compact.data.tobytes()
        bounds = compact.offsets.tolist()
        if raw.isascii():
            text = raw.decode("ascii")
            return [text[a:b] for a, b in pairwise(bounds)]
        return [raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]

    def compact(self) -> StringArray:
        """The same strings with offsets that start at 0 and a buffer without unused bytes."""
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        if first == 0 and last == len(self.data):
            return self
        return StringArray(self.data[first:last], self.offsets - first)

    def take(self, indices: Iterable[int] | NDArray[Any]) -> StringArray:
        """A copy of the strings at these indices, or where a mask is true."""
        index = as_indices(indices)
        lengths = self.lengths[index]
        return StringArray(self.data[concat_ranges(self.offsets[:-1][index], lengths)], lengths_to_offsets(lengths))

    @staticmethod
    def concat(parts: Iterable[StringArray]) -> StringArray:
        """Concatenate the strings of all parts."""
        compact = [part.compact() for part in parts]
        lengths = [part.lengths for part in compact]
        return StringArray(
            np.concatenate([np.zeros(0, np.uint8), *(part.data for part in compact)]),
            lengths_to_offsets(np.concatenate([np.zeros(0, np.int64), *lengths])),
        )


@dataclass(frozen=True, eq=False)
class RaggedArray:
    """Rows of all sentences in one array; `ragged[m]` is the view of sentence m.

    >>> probabilities = RaggedArray(np.arange(6).reshape(3, 2), np.array([0, 1, 3]))
    >>> probabilities[1].tolist()
    [[2, 3], [4, 5]]
    """

    values: Array
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.offsets) == 0 or self.offsets[-1] - self.offsets[0] != len(self.values):
            raise DataError(
                f"offsets must cover the {len(self.values)} rows, "
                f"got {self.offsets[[0, -1]].tolist() if len(self.offsets) else 'none'}"
            )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Array:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self)}")
        index %= len(self)
        first = self.offsets[0]
        return self.values[self.offsets[index] - first : self.offsets[index + 1] - first]

    def __iter__(self) -> Iterator[Array]:
        return (self[index] for index in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.values, dtype=dtype) if copy else np.asarray(self.values, dtype)


class SentenceIndexed:
    """Base of packed values whose tokens belong to sentences: slicing, selection and splitting.

    offsets (M+1,) token offsets of the sentences; doc_ids (M,) document ids, if known.
    """

    offsets: NDArray[np.int64]
    doc_ids: StringArray | None

    @abstractmethod
    def subset(
        self,
        sentences: slice | NDArray[np.int64],
        tokens: slice | NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> Self:
        """These sentences, with these tokens; slices give views."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of tokens of each sentence."""
        return np.diff(self.offsets)

    def sentence_of_token(self) -> NDArray[np.int64]:
        """Index of the sentence of each token.  -> (N,)"""
        return np.repeat(np.arange(len(self)), self.lengths)

    def slice_sentences(self, start: int, stop: int) -> Self:
        """Sentences `start` to `stop` (exclusive), as a view."""
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        offsets = self.offsets[start : stop + 1] - first
        return self.subset(slice(start, stop), slice(first, last), offsets)

    def take(self, sentences: Iterable[int] | NDArray[Any]) -> Self:
        """A copy of the sentences at these indices, in this order, or where a mask is true."""
        indices = as_indices(sentences)
        lengths = self.lengths[indices]
        return self.subset(indices, concat_ranges(self.offsets[:-1][indices], lengths), lengths_to_offsets(lengths))

    def split(self, fraction: float, *, seed: int | None = None, by_document: bool = False) -> tuple[Self, Self]:
        """Split into two parts, the first with about this fraction of the sentences.

        Without a seed the first part is the beginning. With `by_document`, documents are kept together.
        """
        first, second = self.split_indices(fraction, seed=seed, by_document=by_document)
        if seed is None and not by_document:
            return self.slice_sentences(0, len(first)), self.slice_sentences(len(first), len(self))
        return self.take(first), self.take(second)

    def split_indices(
        self, fraction: float, *, seed: int | None = None, by_document: bool = False
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Indices of the sentences of both parts of `split`, each in the order of the text."""
        if not 0 <= fraction <= 1:
            raise DataError(f"fraction must be in [0, 1], got {fraction}")
        groups = np.arange(len(self))
        if by_document:
            if self.doc_ids is None:
                raise DataError("by_document=True needs document ids; this data has none")
            groups = factorize(self.doc_ids)
        sizes = np.bincount(groups)
        order = np.arange(len(sizes))
        if seed is not None:
            order = np.random.default_rng(seed).permutation(len(sizes))
        cut = int(np.argmin(np.abs(lengths_to_offsets(sizes[order]) - fraction * len(self))))
        in_first = np.isin(groups, order[:cut])
        return np.flatnonzero(in_first), np.flatnonzero(~in_first)


S = TypeVar("S", bound=SentenceIndexed)
HELD_OUT_FRACTION = 0.1
"""Fraction of train held out for early stopping if there is no validation split."""


def hold_out(train: S, valid: S | None, seed: int) -> tuple[S, S]:
    """Sentences to train on and sentences for early stopping: `valid`, or a held-out part of train if it is None."""
    return train.split(1 - HELD_OUT_FRACTION, seed=seed) if valid is None else (train, valid)
