"""Sentences as small values: tokens, text, and spans with their text, label, position and score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from convener.data.spans import Spans
from convener.data.tags import ABSTAIN

if TYPE_CHECKING:
    from convener.data.dataset import Dataset

BLOCK_SENTENCES = 1024
"""Number of sentences that are unpacked at a time."""


@dataclass(frozen=True, slots=True)
class TextSpan:
    """One span of a sentence.

    text                  its characters, as they are in the text
    label                 entity type
    start, end            its tokens, with an exclusive end
    start_char, end_char  its characters in the text of the sentence, with an exclusive end
    score                 probability of a predicted span; None if unknown

    >>> sentence = TokenizedText.from_tokens(["Ada", "Lovelace", "wrote"])
    >>> sentence.span(0, 2, "PER", 0.9)
    TextSpan(text='Ada Lovelace', label='PER', start=0, end=2, start_char=0, end_char=12, score=0.9)
    """

    text: str
    label: str
    start: int
    end: int
    start_char: int
    end_char: int
    score: float | None = None


@dataclass(frozen=True, kw_only=True)
class TokenizedText:
    """Tokens and their positions in a text.

    tokens         the tokens
    text           the text; where it is unknown, the tokens joined by single spaces
    token_offsets  start and end of each token in the text
    doc_id         id of the document, if known
    """

    tokens: tuple[str, ...]
    text: str
    token_offsets: tuple[tuple[int, int], ...] = field(repr=False)
    doc_id: str | None = None

    @classmethod
    def from_tokens(cls, tokens: Sequence[str], doc_id: str | None = None) -> TokenizedText:
        """Tokens whose text is unknown: joined by single spaces."""
        ends = np.cumsum([len(token) + 1 for token in tokens]) - 1
        offsets = tuple((end - len(token), end) for token, end in zip(tokens, ends.tolist(), strict=True))
        return TokenizedText(tokens=tuple(tokens), text=" ".join(tokens), token_offsets=offsets, doc_id=doc_id)

    def span(self, start: int, end: int, label: str, score: float | None = None) -> TextSpan:
        """The span of the tokens `start` to `end` (exclusive)."""
        first, last = self.token_offsets[start][0], self.token_offsets[end - 1][1]
        return TextSpan(self.text[first:last], label, start, end, first, last, score)

    def spans_of(self, rows: Sequence[tuple[int, int, int]], types: Sequence[str]) -> tuple[TextSpan, ...]:
        """The spans of rows (start, end, index of the type)."""
        return tuple(self.span(start, end, types[type_index]) for start, end, type_index in rows)


@dataclass(frozen=True, kw_only=True)
class Sentence(TokenizedText):
    """A sentence of predictions: `tokens`, `text`, `token_offsets`, `doc_id`, and the predicted `spans`."""

    spans: tuple[TextSpan, ...] = ()

    def _repr_html_(self) -> str:
        from convener.data.highlight import sentences_html  # imported here, since it imports this module

        return sentences_html([self])


@dataclass(frozen=True, kw_only=True)
class AnnotatedSentence(TokenizedText):
    """A sentence of a dataset: `tokens`, `text`, `token_offsets`, `doc_id`, gold spans and votes.

    gold   gold spans, None if there are no gold labels
    votes  the spans of each source by its name, None where the source abstains
    """

    gold: tuple[TextSpan, ...] | None = None
    votes: Mapping[str, tuple[TextSpan, ...] | None] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        from convener.data.highlight import annotated_html  # imported here, since it imports this module

        return annotated_html([self])


def tokenized_texts(data: Dataset) -> Iterator[TokenizedText]:
    """The tokens and the text of each sentence."""
    for first in range(0, len(data), BLOCK_SENTENCES):
        yield from _tokenized_block(data[first : first + BLOCK_SENTENCES])


def predicted_sentences(data: Dataset, spans: Spans) -> Iterator[Sentence]:
    """Each sentence with its spans."""
    types, num_spans = data.tags.types, 0
    scores: Sequence[float | None] = [None] * len(spans) if spans.score is None else spans.score.tolist()
    for text, rows in zip(tokenized_texts(data), spans.by_sentence(len(data)), strict=True):
        found = tuple(
            text.span(start, end, types[type_index], score)
            for (start, end, type_index), score in zip(rows, scores[num_spans : num_spans + len(rows)], strict=True)
        )
        num_spans += len(rows)
        yield Sentence(**vars(text), spans=found)


def annotated_sentences(data: Dataset) -> Iterator[AnnotatedSentence]:
    """Each sentence with its gold spans and the spans of each source."""
    for first in range(0, len(data), BLOCK_SENTENCES):
        part = data[first : first + BLOCK_SENTENCES]
        texts = list(_tokenized_block(part))
        gold = None if part.gold is None else _spans_by_sentence(part, texts, part.gold)
        votes = [_votes_by_sentence(part, texts, column) for column in part.votes.T]
        for number, text in enumerate(texts):
            yield AnnotatedSentence(
                **vars(text),
                gold=None if gold is None else gold[number],
                votes={name: column[number] for name, column in zip(part.sources, votes, strict=True)},
            )


def _tokenized_block(data: Dataset) -> Iterator[TokenizedText]:
    tokens, bounds = data.tokens.to_list(), list(pairwise(data.offsets.tolist()))
    doc_ids: list[Any] = [None] * len(data) if data.doc_ids is None else data.doc_ids.to_list()
    if data.text is None:
        for (start, end), doc_id in zip(bounds, doc_ids, strict=True):
            yield TokenizedText.from_tokens(tokens[start:end], doc_id)
        return
    texts, offsets = data.text.sentences.to_list(), list(map(tuple, data.text.token_offsets.tolist()))
    for (start, end), text, doc_id in zip(bounds, texts, doc_ids, strict=True):
        yield TokenizedText(
            tokens=tuple(tokens[start:end]), text=text, token_offsets=tuple(offsets[start:end]), doc_id=doc_id
        )


def _spans_by_sentence(
    data: Dataset, texts: list[TokenizedText], labels: NDArray[np.int16]
) -> list[tuple[TextSpan, ...]]:
    rows = data.tags.spans(labels, data.offsets).by_sentence(len(data))
    return [text.spans_of(spans, data.tags.types) for text, spans in zip(texts, rows, strict=True)]


def _votes_by_sentence(
    data: Dataset, texts: list[TokenizedText], votes: NDArray[np.int16]
) -> list[tuple[TextSpan, ...] | None]:
    """The spans of one source; None for sentences with tokens on all of which it abstains."""
    num_votes = np.diff(np.concatenate([[0], np.cumsum(votes != ABSTAIN)])[data.offsets])
    abstains = ((num_votes == 0) & (data.lengths > 0)).tolist()
    spans = _spans_by_sentence(data, texts, votes)
    return [None if is_empty else found for is_empty, found in zip(abstains, spans, strict=True)]
