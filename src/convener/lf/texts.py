"""A dataset as labeling functions see it: as sentences, or as documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.lf.function import Scope
from convener.lf.view import Doc, Range
from convener.packed import chunk_bounds, concat_ranges, factorize, lengths_to_offsets

SHARD_TOKENS = 1 << 12
"""So many words are handed to a function together."""


@dataclass(frozen=True, eq=False)
class Docs:
    """All texts of a dataset: its sentences, or its documents.

    data       the dataset, the sentences of one document next to each other
    sentences  (T+1,) where the sentences of each text begin
    tokens     (N,) where each token stood in the dataset, or None where all stand as they did
    numbers    (M,) which sentence of the dataset each sentence was
    """

    data: Dataset
    sentence_offsets: NDArray[np.int64]
    token_order: NDArray[np.int64] | None
    sentence_order: NDArray[np.int64]
    scope: Scope

    @classmethod
    def from_dataset(cls, data: Dataset, scope: Scope) -> Docs:
        """The texts of a dataset; where no documents are named, each sentence is one."""
        indices = np.arange(len(data) + 1)
        if scope == "sentence" or data.doc_ids is None:
            return cls(data, indices, None, indices[:-1], scope)
        doc_index = factorize(data.doc_ids)
        bounds = lengths_to_offsets(np.bincount(doc_index))
        order = np.argsort(doc_index, kind="stable")
        if np.array_equal(order, indices[:-1]):
            return cls(data, bounds, None, order, scope)
        token_order = concat_ranges(data.offsets[:-1][order], data.lengths[order])
        return cls(data.take(order), bounds, token_order, order, scope)

    def __len__(self) -> int:
        return len(self.sentence_offsets) - 1

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Where the words of each text begin.  (T+1,)"""
        offsets: NDArray[np.int64] = self.data.offsets[self.sentence_offsets]
        return offsets

    def shards(self) -> list[Range]:
        """Ranges of texts that are handled together."""
        return list(pairwise(chunk_bounds(self.offsets, SHARD_TOKENS).tolist()))

    def make_docs(self, start: int, stop: int) -> list[Doc]:
        """What a function sees of some texts."""
        first, last = self.sentence_offsets[[start, stop]].tolist()
        sentence_docs = list(_sentence_docs(self.data[first:last]))
        if self.scope == "sentence":
            return sentence_docs
        bounds = (self.sentence_offsets[start : stop + 1] - first).tolist()
        return [_join_sentences(sentence_docs[a:b]) for a, b in pairwise(bounds)]

    def location(self, doc_index: int) -> str:
        """A text's name in messages."""
        sentence = int(self.sentence_offsets[doc_index])
        doc_name = "" if self.data.doc_ids is None else f"document {self.data.doc_ids[sentence]}"
        if self.scope == "document" and doc_name:
            return doc_name
        position = f"sentence {self.sentence_order[sentence]}"
        return f"{doc_name}, {position}" if doc_name else position


def _sentence_docs(data: Dataset) -> Iterator[Doc]:
    """A view of each sentence."""
    words, bounds = data.tokens.to_list(), data.offsets.tolist()
    doc_ids = [None] * len(data) if data.doc_ids is None else data.doc_ids.to_list()
    if data.text is None:
        for (a, b), doc_id in zip(pairwise(bounds), doc_ids, strict=True):
            yield Doc(words[a:b], doc_id=doc_id)
        return
    texts, token_offsets = data.text.sentences.to_list(), data.text.token_offsets
    for (a, b), text, doc_id in zip(pairwise(bounds), texts, doc_ids, strict=True):
        yield Doc(words[a:b], text=text, token_offsets=token_offsets[a:b], doc_id=doc_id)


def _join_sentences(docs: list[Doc]) -> Doc:
    """One view of the sentences of a document."""
    if len(docs) == 1:
        return docs[0]
    words = [word for doc in docs for word in doc]
    starts = lengths_to_offsets(len(view) for view in docs).tolist()
    doc_id, bounds = docs[0].doc_id, list(pairwise(starts))
    if not docs[0].has_text:
        return Doc(words, doc_id=doc_id, sentences=bounds)
    char_starts = lengths_to_offsets(len(view.text) + 1 for view in docs).tolist()
    token_offsets = [
        (char_start + start, char_start + end)
        for view, char_start in zip(docs, char_starts, strict=False)
        for start, end in view.token_offsets
    ]
    text = " ".join(view.text for view in docs)
    return Doc(words, text=text, token_offsets=token_offsets, doc_id=doc_id, sentences=bounds)
