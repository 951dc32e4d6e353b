"""BySentence: what has sentences can be sliced, chosen from and split by them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.packed import Strings, numbered, offsets_of, positions, ranges


class BySentence:
    """A packed value whose tokens belong to sentences, and these perhaps to documents.

    offsets (M+1,) where each sentence begins; documents (M,) ids, if known.
    """

    offsets: NDArray[np.int64]
    documents: Strings | None

    @abstractmethod
    def part(
        self,
        sentences: slice | NDArray[np.int64],
        tokens: slice | NDArray[np.int64],
        offsets: NDArray[np.int64],
    ) -> Self:
        """These sentences, whose tokens are these; slices give views."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each sentence."""
        return np.diff(self.offsets)

    def sentence_of_token(self) -> NDArray[np.int64]:
        """The number of each token's sentence.  -> (N,)"""
        return np.repeat(np.arange(len(self)), self.lengths)

    def between(self, start: int, stop: int) -> Self:
        """The sentences from one number to before another; a view."""
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        offsets = self.offsets[start : stop + 1] - first
        return self.part(slice(start, stop), slice(first, last), offsets)

    def take(self, sentences: Iterable[int] | NDArray[Any]) -> Self:
        """The sentences at these numbers, in this order, or where a mask is true; copied."""
        chosen = positions(sentences)
        lengths = self.lengths[chosen]
        return self.part(chosen, ranges(self.offsets[:-1][chosen], lengths), offsets_of(lengths))

    def split(
        self, share: float, *, seed: int | None = None, by_document: bool = False
    ) -> tuple[Self, Self]:
        """Two parts, the first with about this share of the sentences.

        Without a seed the first part is the beginning. With `by_document` no document is torn.
        """
        if not 0 <= share <= 1:
            raise DataError(f"a share must be in [0, 1], got {share}")
        units = np.arange(len(self))
        if by_document:
            if self.documents is None:
                raise DataError("a split by document needs document ids, and there are none")
            units = numbered(self.documents)
        sizes = np.bincount(units)
        order = np.arange(len(sizes))
        if seed is not None:
            order = np.random.default_rng(seed).permutation(len(sizes))
        cut = int(np.argmin(np.abs(offsets_of(sizes[order]) - share * len(self))))
        if seed is None and not by_document:
            return self.between(0, cut), self.between(cut, len(self))
        first = np.isin(units, order[:cut])
        return self.take(first), self.take(~first)
