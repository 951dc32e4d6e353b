"""A dataset as labeling functions see it: as sentences, or as documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.lf.function import Scope
from convener.lf.view import Range, View
from convener.packed import numbered, offsets_of, ranges, stretches

SHARD = 1 << 12
"""So many words are handed to a function together."""


@dataclass(frozen=True, eq=False)
class Texts:
    """All texts of a dataset: its sentences, or its documents.

    data       the dataset, the sentences of one document next to each other
    sentences  (T+1,) where the sentences of each text begin
    tokens     (N,) where each token stood in the dataset, or None where all stand as they did
    numbers    (M,) which sentence of the dataset each sentence was
    """

    data: Dataset
    sentences: NDArray[np.int64]
    tokens: NDArray[np.int64] | None
    numbers: NDArray[np.int64]
    scope: Scope

    @classmethod
    def of(cls, data: Dataset, scope: Scope) -> Texts:
        """The texts of a dataset; where no documents are named, each sentence is one."""
        every = np.arange(len(data) + 1)
        if scope == "sentence" or data.documents is None:
            return cls(data, every, None, every[:-1], scope)
        document = numbered(data.documents)
        bounds = offsets_of(np.bincount(document))
        order = np.argsort(document, kind="stable")
        if np.array_equal(order, every[:-1]):
            return cls(data, bounds, None, order, scope)
        tokens = ranges(data.offsets[:-1][order], data.lengths[order])
        return cls(data.take(order), bounds, tokens, order, scope)

    def __len__(self) -> int:
        return len(self.sentences) - 1

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the words of each text begin.  (T+1,)"""
        offsets: NDArray[np.int64] = self.data.offsets[self.sentences]
        return offsets

    def shards(self) -> list[Range]:
        """Ranges of texts that are handled together."""
        return list(pairwise(stretches(self.offsets, SHARD).tolist()))

    def views(self, start: int, stop: int) -> list[View]:
        """What a function sees of some texts."""
        first, last = self.sentences[[start, stop]].tolist()
        sentences = list(_views(self.data[first:last]))
        if self.scope == "sentence":
            return sentences
        bounds = (self.sentences[start : stop + 1] - first).tolist()
        return [_document(sentences[a:b]) for a, b in pairwise(bounds)]

    def where(self, text: int) -> str:
        """A text's name in messages."""
        number = int(self.sentences[text])
        named = "" if self.data.documents is None else f"document {self.data.documents[number]}"
        if self.scope == "document" and named:
            return named
        place = f"sentence {self.numbers[number]}"
        return f"{named}, {place}" if named else place


def _views(data: Dataset) -> Iterator[View]:
    """A view of each sentence."""
    words, bounds = data.tokens.to_list(), data.offsets.tolist()
    documents = [None] * len(data) if data.documents is None else data.documents.to_list()
    if data.text is None:
        for (a, b), document in zip(pairwise(bounds), documents, strict=True):
            yield View(words[a:b], document=document)
        return
    texts, chars = data.text.text.to_list(), data.text.chars
    for (a, b), text, document in zip(pairwise(bounds), texts, documents, strict=True):
        yield View(words[a:b], text=text, chars=chars[a:b], document=document)


def _document(sentences: list[View]) -> View:
    """One view of the sentences of a document."""
    if len(sentences) == 1:
        return sentences[0]
    words = [word for view in sentences for word in view]
    starts = offsets_of(len(view) for view in sentences).tolist()
    name, bounds = sentences[0].document, list(pairwise(starts))
    if not sentences[0].has_text:
        return View(words, document=name, sentences=bounds)
    begins = offsets_of(len(view.text) + 1 for view in sentences).tolist()
    chars = [
        (begin + start, begin + end)
        for view, begin in zip(sentences, begins, strict=False)
        for start, end in view.chars
    ]
    text = " ".join(view.text for view in sentences)
    return View(words, text=text, chars=chars, document=name, sentences=bounds)
