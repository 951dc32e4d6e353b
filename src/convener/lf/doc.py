"""A dataset as labeling functions see it: as sentences, or as documents."""

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

Scope = Literal["sentence", "document"]


class DocIssue(NamedTuple):
    """Something a report should tell of a text: what kind of thing, and what happened."""

    kind: str
    detail: str


class Doc(Sequence[str]):
    """One sentence, or one document: a sequence of words that knows its text.

    All functions see the same view, so nothing of it can be changed; `note` adds to the report.

    tokens     the words
    text       the text they were cut from; where none is known, the words joined by one space.
               A document's is the text of its sentences, joined by one space
    chars      start and end of each word in `text`
    document   the id of the document, if known
    sentences  start and end of each sentence, in words
    notes      what the report should tell

    >>> view = Doc.from_input("Ada left  Oslo.")
    >>> list(view), view[1], view.token_offsets[2], view.text[10:14]
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
            raise DataError("text and the places of its words go together, got only one of them")
        self.tokens = tuple(tokens)
        self.doc_id = doc_id
        self.sentences = ((0, len(self.tokens)),) if sentences is None else tuple(sentences)
        self.issues: list[DocIssue] = []
        self._text, self._given_offsets = text, token_offsets
        self._token_offsets: tuple[Range, ...] | None = None
        self._char_to_token: tuple[dict[int, int], dict[int, int]] | None = None

    @classmethod
    def from_input(cls, content: Doc | Sequence[str] | str) -> Doc:
        """A view of a list of words, or of a text, which is cut into words."""
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
        doc_id = "" if self.doc_id is None else f", document={self.doc_id!r}"
        return f"View({self.text!r}{doc_id})"

    @property
    def has_text(self) -> bool:
        """Whether its text is known, rather than made of its words."""
        return self._given_offsets is not None

    @property
    def text(self) -> str:
        """The text of all its words."""
        if self._text is None:
            self._text = " ".join(self.tokens)
        return self._text

    @property
    def token_offsets(self) -> tuple[Range, ...]:
        """Start and end of each word in the text."""
        if self._token_offsets is None:
            self._token_offsets = tuple(self._iter_token_offsets())
        return self._token_offsets

    def _iter_token_offsets(self) -> Iterator[Range]:
        if self._given_offsets is not None:
            offsets = self._given_offsets if isinstance(self._given_offsets, Sequence) else self._given_offsets.tolist()
            yield from ((start, end) for start, end in offsets)
            return
        position = 0
        for word in self.tokens:
            yield position, position + len(word)
            position += len(word) + 1

    @property
    def char_to_token(self) -> tuple[dict[int, int], dict[int, int]]:
        """The word that begins at a character, and the word before which one ends."""
        if self._char_to_token is None:
            token_starts = {start: number for number, (start, _) in enumerate(self.token_offsets)}
            token_ends = {end: number + 1 for number, (_, end) in enumerate(self.token_offsets)}
            self._char_to_token = token_starts, token_ends
        return self._char_to_token

    def span_text(self, start: int, end: int) -> str:
        """The text of some words, as it stands.

        >>> Doc.from_input("Ada left  Oslo.").span_text(1, 3)
        'left  Oslo'
        """
        return self.text[self.token_offsets[start][0] : self.token_offsets[end - 1][1]] if start < end else ""

    def sentence_docs(self) -> list[Doc]:
        """Its sentences, each as a view of its own.

        >>> document = Doc(["Ada", "left", "She", "wrote"], sentences=[(0, 2), (2, 4)])
        >>> [part.text for part in document.sentence_docs()]
        ['Ada left', 'She wrote']
        """
        return [self] if len(self.sentences) < 2 else [self._slice(*sentence) for sentence in self.sentences]

    def _slice(self, first: int, last: int) -> Doc:
        words = self.tokens[first:last]
        if not self.has_text:
            return Doc(words, doc_id=self.doc_id)
        offsets = self.token_offsets[first:last]
        char_start = offsets[0][0] if offsets else 0
        shifted = [(start - char_start, end - char_start) for start, end in offsets]
        return Doc(words, text=self.span_text(first, last), token_offsets=shifted, doc_id=self.doc_id)

    def report_issue(self, kind: str, detail: str) -> None:
        """Let the report of the run count and list something that happened in this text."""
        self.issues.append(DocIssue(kind, detail))


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
