"""The texts that labeling functions see: sentences or documents of a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.ragged import chunk_bounds, concat_ranges, factorize, lengths_to_offsets
from convener.data.tokenize import word_spans
from convener.errors import DataError

Range = tuple[int, int]
"""Start and end (exclusive)."""
Scope = Literal["sentence", "document"]
SHARD_TOKENS = 1 << 12
"""Number of tokens that a function receives in one batch."""


class DocIssue(NamedTuple):
    """An issue found while a function runs on a text; its location is added when results are collected."""

    kind: str
    detail: str


class Doc(Sequence[str]):
    """One sentence or one document: a sequence of tokens with their text.

    All functions share the same `Doc`, so it is read-only; `report_issue` adds to the report.

    tokens         the tokens
    text           the original text, or the tokens joined by spaces if it is unknown. The text of
                   a document is that of its sentences, joined by spaces
    token_offsets  start and end of each token in `text`
    doc_id         id of the document, if known
    sentences      start and end of each sentence, in tokens
    issues         issues reported so far

    >>> doc = Doc.from_input("Ada left  Oslo.")
    >>> list(doc), doc[1], doc.token_offsets[2], doc.text[10:14]
    (['Ada', 'left', 'Oslo', '.'], 'left', (10, 14), 'Oslo')
    """

    __slots__ = (
        "_char_to_token",
        "_given_offsets",
        "_text",
        "_token_offsets",
        "doc_id",
        "issues",
        "sentences",
        "tokens",
    )

    def __init__(
        self,
        tokens: Sequence[str],
        *,
        text: str | None = None,
        token_offsets: NDArray[Any] | Sequence[Range] | None = None,
        doc_id: str | None = None,
        sentences: Sequence[Range] | None = None,
    ) -> None:
        if (text is None) != (token_offsets is None):
            raise DataError("text and token_offsets must be given together")
        self.tokens = tuple(tokens)
        self.doc_id = doc_id
        self.sentences = ((0, len(self.tokens)),) if sentences is None else tuple(sentences)
        self.issues: list[DocIssue] = []
        self._text, self._given_offsets = text, token_offsets
        self._token_offsets: tuple[Range, ...] | None = None
        self._char_to_token: tuple[dict[int, int], dict[int, int]] | None = None

    @classmethod
    def from_input(cls, content: Doc | Sequence[str] | str) -> Doc:
        """Make a `Doc` from a list of tokens or from a text, which is tokenized."""
        if isinstance(content, Doc):
            return content
        if isinstance(content, str):
            offsets = word_spans(content).tolist()
            return cls([content[a:b] for a, b in offsets], text=content, token_offsets=offsets)
        return cls(content)

    def __len__(self) -> int:
        return len(self.tokens)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        return list(self.tokens[index]) if isinstance(index, slice) else self.tokens[index]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tokens)

    def __contains__(self, word: object) -> bool:
        return word in self.tokens

    def __repr__(self) -> str:
        doc_id = "" if self.doc_id is None else f", doc_id={self.doc_id!r}"
        return f"Doc({self.text!r}{doc_id})"

    @property
    def has_text(self) -> bool:
        """Whether the original text is known; otherwise `text` is built from the tokens."""
        return self._given_offsets is not None

    @property
    def text(self) -> str:
        """The text of all tokens."""
        if self._text is None:
            self._text = " ".join(self.tokens)
        return self._text

    @property
    def token_offsets(self) -> tuple[Range, ...]:
        """Start and end of each token in the text."""
        if self._token_offsets is None:
            self._token_offsets = tuple(self._iter_token_offsets())
        return self._token_offsets

    def _iter_token_offsets(self) -> Iterator[Range]:
        if self._given_offsets is not None:
            offsets = self._given_offsets if isinstance(self._given_offsets, Sequence) else self._given_offsets.tolist()
            yield from ((start, end) for start, end in offsets)
            return
        position = 0
        for token in self.tokens:
            yield position, position + len(token)
            position += len(token) + 1

    @property
    def char_to_token(self) -> tuple[dict[int, int], dict[int, int]]:
        """Two maps from characters: to the token that starts there, and to one past the token that ends there."""
        if self._char_to_token is None:
            token_starts = {start: number for number, (start, _) in enumerate(self.token_offsets)}
            token_ends = {end: number + 1 for number, (_, end) in enumerate(self.token_offsets)}
            self._char_to_token = token_starts, token_ends
        return self._char_to_token

    def span_text(self, start: int, end: int) -> str:
        """Return the text of a range of tokens, with its original spacing.

        >>> Doc.from_input("Ada left  Oslo.").span_text(1, 3)
        'left  Oslo'
        """
        return self.text[self.token_offsets[start][0] : self.token_offsets[end - 1][1]] if start < end else ""

    def sentence_docs(self) -> list[Doc]:
        """Return each sentence as a `Doc`.

        >>> document = Doc(["Ada", "left", "She", "wrote"], sentences=[(0, 2), (2, 4)])
        >>> [sentence.text for sentence in document.sentence_docs()]
        ['Ada left', 'She wrote']
        """
        return [self] if len(self.sentences) < 2 else [self._slice(*sentence) for sentence in self.sentences]

    def _slice(self, first: int, last: int) -> Doc:
        tokens = self.tokens[first:last]
        if not self.has_text:
            return Doc(tokens, doc_id=self.doc_id)
        offsets = self.token_offsets[first:last]
        char_start = offsets[0][0] if offsets else 0
        shifted = [(start - char_start, end - char_start) for start, end in offsets]
        return Doc(tokens, text=self.span_text(first, last), token_offsets=shifted, doc_id=self.doc_id)

    def report_issue(self, kind: str, detail: str) -> None:
        """Record an issue with this text; the report of the run counts and lists it."""
        self.issues.append(DocIssue(kind, detail))


@dataclass(frozen=True, eq=False)
class Docs:
    """All texts of a dataset: its sentences or its documents.

    data              the dataset, with the sentences of a document next to each other
    sentence_offsets  (T+1,) offsets of the texts, in sentences
    token_order       (N,) original position of each token, or None if the order is unchanged
    sentence_order    (M,) original index of each sentence
    """

    data: Dataset
    sentence_offsets: NDArray[np.int64]
    token_order: NDArray[np.int64] | None
    sentence_order: NDArray[np.int64]
    scope: Scope

    @classmethod
    def from_dataset(cls, data: Dataset, scope: Scope) -> Docs:
        """Return the texts of a dataset; without document ids each sentence is a document."""
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
        """Offsets of the texts, in tokens.  -> (T+1,)"""
        offsets: NDArray[np.int64] = self.data.offsets[self.sentence_offsets]
        return offsets

    def shards(self) -> list[Range]:
        """Return the ranges of texts that are processed together."""
        return list(pairwise(chunk_bounds(self.offsets, SHARD_TOKENS).tolist()))

    def make_docs(self, start: int, stop: int) -> list[Doc]:
        """Return the texts `start` to `stop`."""
        first, last = self.sentence_offsets[[start, stop]].tolist()
        sentence_docs = list(_sentence_docs(self.data[first:last]))
        if self.scope == "sentence":
            return sentence_docs
        bounds = (self.sentence_offsets[start : stop + 1] - first).tolist()
        return [_join_sentences(sentence_docs[a:b]) for a, b in pairwise(bounds)]

    def location(self, doc_index: int) -> str:
        """Return the name of a text for messages."""
        sentence = int(self.sentence_offsets[doc_index])
        doc_name = "" if self.data.doc_ids is None else f"document {self.data.doc_ids[sentence]}"
        if self.scope == "document" and doc_name:
            return doc_name
        position = f"sentence {self.sentence_order[sentence]}"
        return f"{doc_name}, {position}" if doc_name else position


def _sentence_docs(data: Dataset) -> Iterator[Doc]:
    """Yield each sentence of the dataset."""
    tokens, bounds = data.tokens.to_list(), data.offsets.tolist()
    doc_ids = [None] * len(data) if data.doc_ids is None else data.doc_ids.to_list()
    if data.text is None:
        for (a, b), doc_id in zip(pairwise(bounds), doc_ids, strict=True):
            yield Doc(tokens[a:b], doc_id=doc_id)
        return
    texts, token_offsets = data.text.sentences.to_list(), data.text.token_offsets
    for (a, b), text, doc_id in zip(pairwise(bounds), texts, doc_ids, strict=True):
        yield Doc(tokens[a:b], text=text, token_offsets=token_offsets[a:b], doc_id=doc_id)


def _join_sentences(docs: list[Doc]) -> Doc:
    """Join the sentences of a document into one `Doc`."""
    if len(docs) == 1:
        return docs[0]
    tokens = [token for doc in docs for token in doc]
    starts = lengths_to_offsets(len(doc) for doc in docs).tolist()
    doc_id, bounds = docs[0].doc_id, list(pairwise(starts))
    if not docs[0].has_text:
        return Doc(tokens, doc_id=doc_id, sentences=bounds)
    char_starts = lengths_to_offsets(len(doc.text) + 1 for doc in docs).tolist()
    token_offsets = [
        (char_start + start, char_start + end)
        for doc, char_start in zip(docs, char_starts, strict=False)
        for start, end in doc.token_offsets
    ]
    text = " ".join(doc.text for doc in docs)
    return Doc(tokens, text=text, token_offsets=token_offsets, doc_id=doc_id, sentences=bounds)
