"""Writes spaCy's DocBin."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.errors import FormatError
from convener.io.facts import Metadata
from convener.io.files import check_unicode
from convener.io.formats import LabeledData, get_dataset
from convener.io.options import WriteOptions
from convener.io.spacy.docbin import (
    PREDICTIONS_GROUP,
    USER_DATA_KEY,
    cached_registries,
    import_spacy,
)
from convener.packed import row_at
from convener.predictions import Predictions


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """A DocBin with span groups, entities and user data."""
    spacy_tokens, vocab = import_spacy("spacy.tokens"), import_spacy("spacy.vocab").Vocab()
    data = get_dataset(content)
    _check_names(content)
    writer = _Writer(content, spacy_tokens, vocab)
    doc_bin = spacy_tokens.DocBin(attrs=["ENT_IOB", "ENT_TYPE"], store_user_data=True)
    metadata_json = Metadata.from_content(content).to_json()
    if not len(data):
        doc = spacy_tokens.Doc(vocab, words=[], spaces=[])
        doc.user_data[USER_DATA_KEY] = {"facts": metadata_json, "empty": True}
        doc_bin.add(doc)
    with cached_registries():
        for number in range(len(data)):
            doc = writer.make_doc(number)
            if number == 0:
                doc.user_data[USER_DATA_KEY]["facts"] = metadata_json
            doc_bin.add(doc)
        path.write_bytes(doc_bin.to_bytes())


def _check_names(content: LabeledData) -> None:
    data = get_dataset(content)
    if isinstance(content, Predictions) and PREDICTIONS_GROUP in data.sources:
        raise FormatError(f"a .spacy file of labels cannot hold a source named {PREDICTIONS_GROUP!r}; rename it")
    check_unicode(data)
    empty = np.flatnonzero(data.tokens.lengths == 0)
    if len(empty):
        sentence = row_at(data.offsets, int(empty[0]))
        token = int(empty[0] - data.offsets[sentence])
        raise FormatError(f"sentence {sentence}: token {token} is empty, which spaCy cannot hold")


class _Writer:
    """Makes the Doc of each sentence."""

    def __init__(self, content: LabeledData, spacy_tokens: Any, vocab: Any) -> None:
        self.spacy_tokens, self.vocab, self.content = spacy_tokens, vocab, content
        self.data = data = get_dataset(content)
        self.source_spans = [self._spans_by_sentence(data.votes[:, k]) for k in range(len(data.sources))]
        self.has_illegal_votes = [_is_illegal(data, data.votes[:, k]) for k in range(len(data.sources))]
        labels = content.labels if isinstance(content, Predictions) else data.gold
        self.entities = None if labels is None else self._spans_by_sentence(labels)
        self.has_illegal_gold = data.gold is not None and _is_illegal(data, data.gold)
        self.scores: NDArray[np.float32] | None = None
        self.score_offsets = np.zeros(len(data) + 1, np.int64)
        if isinstance(content, Predictions) and content.spans.score is not None:
            self.scores = content.spans.score
            self.score_offsets = content.spans.sentence_offsets(len(data))

    def _spans_by_sentence(self, labels: NDArray[np.int16]) -> list[list[tuple[int, int, str]]]:
        types = self.data.tags.types
        spans = self.data.tags.spans(labels, self.data.offsets).by_sentence(len(self.data))
        return [[(start, end, types[type_index]) for start, end, type_index in row] for row in spans]

    def make_doc(self, sentence: int) -> Any:
        """One sentence."""
        data = self.data
        token_slice = slice(int(data.offsets[sentence]), int(data.offsets[sentence + 1]))
        words = data.tokens[token_slice].to_list()
        spaces = [True] * (len(words) - 1) + [False] * bool(words)
        user_data: dict[str, Any] = {}
        if data.text is not None:
            text, token_offsets = (
                data.text.sentences[sentence],
                data.text.token_offsets[token_slice],
            )
            exact_spaces = _trailing_spaces(words, text, token_offsets)
            if exact_spaces is None:
                user_data |= {"text": text, "chars": token_offsets.ravel().tolist()}
            spaces = spaces if exact_spaces is None else exact_spaces
            user_data["char_start"] = int(data.text.doc_offsets[sentence])
        if data.doc_ids is not None:
            user_data["doc_id"] = data.doc_ids[sentence]
        doc = self.spacy_tokens.Doc(self.vocab, words=words, spaces=spaces)
        doc.user_data[USER_DATA_KEY] = user_data
        for k, name in enumerate(data.sources):
            self._add_votes(doc, k, name, sentence, data.votes[token_slice, k])
        self._add_entities(doc, sentence, token_slice, user_data)
        return doc

    def _add_group(self, doc: Any, name: str, span_tuples: list[tuple[int, int, str]], attrs: Any) -> None:
        spans = [self.spacy_tokens.Span(doc, start, end, label=entity_type) for start, end, entity_type in span_tuples]
        doc.spans[name] = self.spacy_tokens.SpanGroup(doc, name=name, spans=spans, attrs=attrs)

    def _add_votes(self, doc: Any, k: int, name: str, sentence: int, votes: NDArray[np.int16]) -> None:
        abstained = votes == ABSTAIN
        attrs: dict[str, Any] = {"silence": self.data.silence[k]}
        attrs["abstains"] = bool(len(votes)) and bool(abstained.all())
        if self.has_illegal_votes[k] or (abstained.any() and not abstained.all()):
            attrs["votes"] = votes.tolist()  # what spans cannot say
        self._add_group(doc, name, self.source_spans[k][sentence], attrs)

    def _add_entities(self, doc: Any, sentence: int, token_slice: slice, user_data: dict[str, Any]) -> None:
        if self.entities is None:
            return
        span_tuples = self.entities[sentence]
        spans = [self.spacy_tokens.Span(doc, start, end, label=entity_type) for start, end, entity_type in span_tuples]
        doc.set_ents(spans, default="outside")
        if self.has_illegal_gold and self.data.gold is not None:
            user_data["gold"] = self.data.gold[token_slice].tolist()
        if not isinstance(self.content, Predictions):
            return
        attrs = {}
        if self.scores is not None:
            first, last = self.score_offsets[sentence : sentence + 2]
            attrs["scores"] = self.scores[first:last].tolist()
        self._add_group(doc, PREDICTIONS_GROUP, span_tuples, attrs)
        if self.content.probabilities is not None:
            rows = np.ascontiguousarray(self.content.probabilities[token_slice], "<f4")
            user_data["probabilities"] = rows.tobytes()


def _is_illegal(data: Dataset, labels: NDArray[np.int16]) -> bool:
    return data.tags.repair(labels, data.offsets)[1] > 0


def _trailing_spaces(words: list[str], text: str, token_offsets: NDArray[np.int32]) -> list[bool] | None:
    """Which words are followed by a space, if words and single spaces make the text."""
    boundaries = [0, *token_offsets.ravel().tolist(), len(text)]
    if not words:
        return [] if not text else None
    if any(text[a:b] != word for word, (a, b) in zip(words, token_offsets.tolist(), strict=True)):
        return None
    gaps = [text[a:b] for a, b in list(pairwise(boundaries))[::2]]
    if gaps[0] or any(gap not in ("", " ") for gap in gaps):
        return None
    word_starts = np.cumsum([0, *(len(w) + len(g) for w, g in zip(words, gaps[1:], strict=True))])
    if word_starts[:-1].tolist() != token_offsets[:, 0].tolist():
        return None  # tokens that overlap or go back
    return [gap == " " for gap in gaps[1:]]
