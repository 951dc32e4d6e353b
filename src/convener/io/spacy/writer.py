"""Writes spaCy's DocBin."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import ABSTAIN, Dataset
from convener.errors import FormatError
from convener.io.facts import Facts
from convener.io.files import check_unicode
from convener.io.formats import Content, data_of
from convener.io.options import WriteOptions
from convener.io.spacy.docbin import LABELS_GROUP, NOTE, plugins_found_once, spacy
from convener.packed import piece_at
from convener.predictions import Predictions


def write(content: Content, path: Path, options: WriteOptions) -> None:
    """A DocBin with span groups, entities and user data."""
    tokens, vocab = spacy("spacy.tokens"), spacy("spacy.vocab").Vocab()
    data = data_of(content)
    _check_names(content)
    writer = _Writer(content, tokens, vocab)
    box = tokens.DocBin(attrs=["ENT_IOB", "ENT_TYPE"], store_user_data=True)
    facts = Facts.of(content).to_json()
    if not len(data):
        doc = tokens.Doc(vocab, words=[], spaces=[])
        doc.user_data[NOTE] = {"facts": facts, "empty": True}
        box.add(doc)
    with plugins_found_once():
        for number in range(len(data)):
            doc = writer.doc(number)
            if number == 0:
                doc.user_data[NOTE]["facts"] = facts
            box.add(doc)
        path.write_bytes(box.to_bytes())


def _check_names(content: Content) -> None:
    data = data_of(content)
    if isinstance(content, Predictions) and LABELS_GROUP in data.sources:
        raise FormatError(
            f"a .spacy file of labels cannot hold a source named {LABELS_GROUP!r}; rename it"
        )
    check_unicode(data)
    empty = np.flatnonzero(data.tokens.lengths == 0)
    if len(empty):
        sentence = piece_at(data.offsets, int(empty[0]))
        token = int(empty[0] - data.offsets[sentence])
        raise FormatError(f"sentence {sentence}: token {token} is empty, which spaCy cannot hold")


class _Writer:
    """Makes the Doc of each sentence."""

    def __init__(self, content: Content, tokens: Any, vocab: Any) -> None:
        self.tokens, self.vocab, self.content = tokens, vocab, content
        self.data = data = data_of(content)
        self.spans = [self._marks(data.votes[:, k]) for k in range(len(data.sources))]
        self.illegal = [_is_illegal(data, data.votes[:, k]) for k in range(len(data.sources))]
        tagged = content.labels if isinstance(content, Predictions) else data.gold
        self.entities = None if tagged is None else self._marks(tagged)
        self.gold_illegal = data.gold is not None and _is_illegal(data, data.gold)
        self.scores: NDArray[np.float32] | None = None
        self.score_bounds = np.zeros(len(data) + 1, np.int64)
        if isinstance(content, Predictions) and content.spans.score is not None:
            self.scores = content.spans.score
            self.score_bounds = content.spans.bounds(len(data))

    def _marks(self, labels: NDArray[np.int16]) -> list[list[tuple[int, int, str]]]:
        types = self.data.tags.types
        spans = self.data.tags.spans(labels, self.data.offsets).by_sentence(len(self.data))
        return [[(start, end, types[kind]) for start, end, kind in row] for row in spans]

    def doc(self, number: int) -> Any:
        """One sentence."""
        data = self.data
        here = slice(int(data.offsets[number]), int(data.offsets[number + 1]))
        words = data.tokens[here].to_list()
        spaces = [True] * (len(words) - 1) + [False] * bool(words)
        note: dict[str, Any] = {}
        if data.text is not None:
            text, chars = data.text.text[number], data.text.chars[here]
            kept = _spaces(words, text, chars)
            if kept is None:
                note |= {"text": text, "chars": chars.ravel().tolist()}
            spaces = spaces if kept is None else kept
            note["char_start"] = int(data.text.starts[number])
        if data.documents is not None:
            note["doc_id"] = data.documents[number]
        doc = self.tokens.Doc(self.vocab, words=words, spaces=spaces)
        doc.user_data[NOTE] = note
        for k, name in enumerate(data.sources):
            self._vote(doc, k, name, number, data.votes[here, k])
        self._entities(doc, number, here, note)
        return doc

    def _group(self, doc: Any, name: str, marks: list[tuple[int, int, str]], attrs: Any) -> None:
        spans = [self.tokens.Span(doc, start, end, label=kind) for start, end, kind in marks]
        doc.spans[name] = self.tokens.SpanGroup(doc, name=name, spans=spans, attrs=attrs)

    def _vote(self, doc: Any, k: int, name: str, number: int, votes: NDArray[np.int16]) -> None:
        abstains = votes == ABSTAIN
        attrs: dict[str, Any] = {"silence": self.data.silence[k]}
        attrs["abstains"] = bool(len(votes)) and bool(abstains.all())
        if self.illegal[k] or (abstains.any() and not abstains.all()):
            attrs["votes"] = votes.tolist()  # what spans cannot say
        self._group(doc, name, self.spans[k][number], attrs)

    def _entities(self, doc: Any, number: int, here: slice, note: dict[str, Any]) -> None:
        if self.entities is None:
            return
        marks = self.entities[number]
        spans = [self.tokens.Span(doc, start, end, label=kind) for start, end, kind in marks]
        doc.set_ents(spans, default="outside")
        if self.gold_illegal and self.data.gold is not None:
            note["gold"] = self.data.gold[here].tolist()
        if not isinstance(self.content, Predictions):
            return
        attrs = {}
        if self.scores is not None:
            first, last = self.score_bounds[number : number + 2]
            attrs["scores"] = self.scores[first:last].tolist()
        self._group(doc, LABELS_GROUP, marks, attrs)
        if self.content.probabilities is not None:
            rows = np.ascontiguousarray(self.content.probabilities[here], "<f4")
            note["probabilities"] = rows.tobytes()


def _is_illegal(data: Dataset, labels: NDArray[np.int16]) -> bool:
    return data.tags.repair(labels, data.offsets)[1] > 0


def _spaces(words: list[str], text: str, chars: NDArray[np.int32]) -> list[bool] | None:
    """Which words are followed by a space, if words and single spaces make the text."""
    edges = [0, *chars.ravel().tolist(), len(text)]
    if not words:
        return [] if not text else None
    if any(text[a:b] != word for word, (a, b) in zip(words, chars.tolist(), strict=True)):
        return None
    gaps = [text[a:b] for a, b in list(pairwise(edges))[::2]]
    if gaps[0] or any(gap not in ("", " ") for gap in gaps):
        return None
    begins = np.cumsum([0, *(len(w) + len(g) for w, g in zip(words, gaps[1:], strict=True))])
    if begins[:-1].tolist() != chars[:, 0].tolist():
        return None  # tokens that overlap or go back
    return [gap == " " for gap in gaps[1:]]
