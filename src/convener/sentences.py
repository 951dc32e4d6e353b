"""BySentence: what has sentences can be sliced, chosen from and split by them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from convener.errors import DataError
from convener.packed import StringArray, as_indices, concat_ranges, factorize, lengths_to_offsets


class SentenceIndexed:
    """A packed value whose tokens belong to sentences, and these perhaps to documents.

    offsets (M+1,) where each sentence begins; documents (M,) ids, if known.
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

    def slice_sentences(self, start: int, stop: int) -> Self:
        """The sentences from one number to before another; a view."""
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        offsets = self.offsets[start : stop + 1] - first
        return self.subset(slice(start, stop), slice(first, last), offsets)

    def take(self, sentences: Iterable[int] | NDArray[Any]) -> Self:
        """The sentences at these numbers, in this order, or where a mask is true; copied."""
        indices = as_indices(sentences)
        lengths = self.lengths[indices]
        return self.subset(indices, concat_ranges(self.offsets[:-1][indices], lengths), lengths_to_offsets(lengths))

    def split(self, fraction: float, *, seed: int | None = None, by_document: bool = False) -> tuple[Self, Self]:
        """Two parts, the first with about this share of the sentences.

        Without a seed the first part is the beginning. With `by_document` no document is torn.
        """
        if not 0 <= fraction <= 1:
            raise DataError(f"a share must be in [0, 1], got {fraction}")
        groups = np.arange(len(self))
        if by_document:
            if self.doc_ids is None:
                raise DataError("a split by document needs document ids, and there are none")
            groups = factorize(self.doc_ids)
        sizes = np.bincount(groups)
        order = np.arange(len(sizes))
        if seed is not None:
            order = np.random.default_rng(seed).permutation(len(sizes))
        cut = int(np.argmin(np.abs(lengths_to_offsets(sizes[order]) - fraction * len(self))))
        if seed is None and not by_document:
            return self.slice_sentences(0, cut), self.slice_sentences(cut, len(self))
        in_first = np.isin(groups, order[:cut])
        return self.take(in_first), self.take(~in_first)
