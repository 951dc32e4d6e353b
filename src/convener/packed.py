"""Packed sequences: many strings or many rows in one buffer, with offsets.

A hundred million tokens must not become a hundred million Python objects, so the
library keeps them as Arrow does: one array of values and one array of offsets.
Slices are views.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError

Array = np.ndarray[Any, Any]
BLOCK = 1 << 16
"""So many bytes are looked at together where each needs a place of its own."""


def offsets_of(lengths: Iterable[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Offsets of consecutive pieces of the given lengths, starting at 0.

    >>> offsets_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    sizes = np.asarray(
        lengths if isinstance(lengths, np.ndarray) else list(lengths), dtype=np.int64
    )
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])


def piece_at(offsets: NDArray[np.int64], position: int) -> int:
    """The number of the piece that a position falls into.

    >>> piece_at(offsets_of([2, 0, 3]), 2)
    2
    """
    return int(np.searchsorted(offsets, position, side="right")) - 1


def ranges(starts: NDArray[Any], lengths: NDArray[Any]) -> NDArray[np.int64]:
    """All indices of the given pieces, one after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    lengths = np.asarray(lengths, np.int64)
    before = offsets_of(lengths)
    steps = np.arange(before[-1], dtype=np.int64)
    return steps + np.repeat(np.asarray(starts, np.int64) - before[:-1], lengths)


def shard_bounds(offsets: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Numbers of pieces that bound shards of at most `size` items, a whole piece at least.

    >>> shard_bounds(np.array([0, 10, 20, 21, 21]), 16).tolist()
    [0, 1, 4]
    """
    bounds, count = [0], len(offsets) - 1
    while bounds[-1] < count:
        reach = offsets[bounds[-1]] + size
        last = int(np.searchsorted(offsets, reach, side="right")) - 1
        bounds.append(max(bounds[-1] + 1, last))
    return np.array(bounds)


def positions(index: Iterable[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Indices as an array; a mask stands for the places where it is true.

    >>> positions([3, 0]).tolist(), positions(np.array([False, True])).tolist()
    ([3, 0], [1])
    """
    array = np.asarray(index if isinstance(index, np.ndarray) else list(index))
    return np.flatnonzero(array) if array.dtype == bool else array.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Strings:
    """Many strings in one UTF-8 buffer: string i is `data[offsets[i]:offsets[i + 1]]`.

    >>> words = Strings.of(["Zoë", "", "🙂"])
    >>> words[0], len(words), list(words[1:])
    ('Zoë', 3, ['', '🙂'])
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        """Pack ordinary strings."""
        encoded = [text.encode("utf-8", "surrogatepass") for text in strings]
        data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        return cls(data, offsets_of(len(piece) for piece in encoded))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice | NDArray[Any]) -> Strings: ...
    def __getitem__(self, index: int | slice | NDArray[Any]) -> str | Strings:
        if isinstance(index, np.ndarray):
            return self.take(index)
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            return Strings(self.data, self.offsets[start : max(start, stop) + 1])
        if not -len(self) <= index < len(self):
            raise IndexError(f"string {index} of {len(self)}")
        index %= len(self)
        piece = self.data[self.offsets[index] : self.offsets[index + 1]]
        return piece.tobytes().decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_list())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Strings):
            return NotImplemented
        mine, theirs = self.compact(), other.compact()
        return np.array_equal(mine.offsets, theirs.offsets) and np.array_equal(
            mine.data, theirs.data
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Strings({len(self)} strings, {int(self.offsets[-1] - self.offsets[0])} bytes)"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Bytes of each string."""
        return np.diff(self.offsets)

    def character_lengths(self) -> NDArray[np.int64]:
        """Characters (code points) of each string."""
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        inner = np.zeros(len(self.offsets), np.int64)  # continuation bytes before each offset
        count = 0
        for start in range(first, last, BLOCK):
            # They are 0x80 to 0xBF: as signed numbers the lowest.
            at = np.flatnonzero(self.data[start : min(start + BLOCK, last)].view(np.int8) < -64)
            here = slice(*np.searchsorted(self.offsets, [start, start + BLOCK]).tolist())
            inner[here] = count + np.searchsorted(at, self.offsets[here] - start)
            count += len(at)
        inner[np.searchsorted(self.offsets, last) :] = count
        return self.lengths - np.diff(inner)

    def to_list(self) -> list[str]:
        """Ordinary strings, decoded in one pass."""
        compact = self.compact()
        raw = compact.data.tobytes()
        bounds = compact.offsets.tolist()
        if raw.isascii():
            text = raw.decode("ascii")
            return [text[a:b] for a, b in pairwise(bounds)]
        return [raw[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]

    def compact(self) -> Strings:
        """The same strings with a buffer of their own that starts at 0; itself if it has one."""
        first, last = int(self.offsets[0]), int(self.offsets[-1])
        if first == 0 and last == len(self.data):
            return self
        return Strings(self.data[first:last], self.offsets - first)

    def take(self, indices: Iterable[int] | NDArray[Any]) -> Strings:
        """The strings at these indices, or where a mask is true, copied."""
        chosen = positions(indices)
        lengths = self.lengths[chosen]
        return Strings(self.data[ranges(self.offsets[:-1][chosen], lengths)], offsets_of(lengths))

    @staticmethod
    def concat(parts: Iterable[Strings]) -> Strings:
        """All strings of all parts, one after the other."""
        compact = [part.compact() for part in parts]
        lengths = [part.lengths for part in compact]
        return Strings(
            np.concatenate([np.zeros(0, np.uint8), *(part.data for part in compact)]),
            offsets_of(np.concatenate([np.zeros(0, np.int64), *lengths])),
        )


@dataclass(frozen=True, eq=False)
class Ragged:
    """Rows of all sentences in one array; `ragged[m]` is the view of sentence m.

    >>> probabilities = Ragged(np.arange(6).reshape(3, 2), np.array([0, 1, 3]))
    >>> probabilities[1].tolist()
    [[2, 3], [4, 5]]
    """

    values: Array
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        if len(self.offsets) == 0 or self.offsets[-1] - self.offsets[0] != len(self.values):
            raise DataError(
                f"offsets must span the {len(self.values)} rows, "
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
