"""Reads spaCy's DocBin, ours and others'."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset, Text
from convener.errors import DataError, require
from convener.io.assemble import GOLD, LABELS, Assembler
from convener.io.facts import Facts, as_asked, placed, readable
from convener.io.formats import Content
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.packed import Strings
from convener.predictions import Predictions

NOTE = "convener"
"""Our key in `doc.user_data`."""
LABELS_GROUP = "convener"
"""The span group of aggregated labels."""


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """Span groups become sources, entities the gold, a file of ours what it was."""
    docs = _docs(path)
    facts = None
    for doc in docs:
        if "facts" in (note := _note(doc)):
            raw = note["facts"]
            facts = Facts.parse(raw if isinstance(raw, str) else "", str(path))
            break
    if facts is None:
        with readable(str(path), "DocBin"):
            return _Reader(path, None, options, report).content(docs)
    docs = [doc for doc in docs if not _note(doc).get("empty")]
    own = replace(options, sources="all", types=None, silence=None)
    with readable(str(path), "DocBin"):
        content = _Reader(path, facts, own, report).content(docs)
    return as_asked(content, options, str(path))


@contextmanager
def plugins_found_once() -> Iterator[None]:
    """Lets spaCy's packer look for its plugins once, not for every value it packs.

    The search takes a millisecond, and each span group of each document is packed by itself.
    """
    packer = require("srsly.msgpack", extra="spacy", purpose="a .spacy file")
    registries = (packer.msgpack_encoders, packer.msgpack_decoders)
    for registry in registries:
        registry.__dict__["get_all"] = partial(dict, registry.get_all())
    try:
        yield
    finally:
        for registry in registries:
            registry.__dict__.pop("get_all", None)


def _docs(path: Path) -> list[Any]:
    box = require("spacy.tokens", extra="spacy", purpose="a .spacy file").DocBin()
    vocab = require("spacy.vocab", extra="spacy", purpose="a .spacy file").Vocab()
    raw, collects = path.read_bytes(), gc.isenabled()
    try:
        with readable(str(path), "DocBin"), plugins_found_once():
            return list(box.from_bytes(raw).get_docs(vocab))
    finally:
        if collects:
            gc.enable()  # srsly leaves it switched off where it fails


def _note(doc: Any) -> Mapping[str, Any]:
    note = doc.user_data.get(NOTE)
    return note if isinstance(note, dict) else {}


class _Reader:
    """Docs on their way to a dataset."""

    def __init__(
        self, path: Path, facts: Facts | None, options: ReadOptions, report: Report
    ) -> None:
        self.path, self.facts, self.options, self.report = path, facts, options, report
        self.holds = () if facts is None else facts.holds
        self.assembler = Assembler(options, report)
        self.exact: list[tuple[str, int, NDArray[np.int16]]] = []  # source, first token, labels
        self.scored: set[str] = set()
        self.tokens = 0

    def content(self, docs: list[Any]) -> Content:
        """The dataset or the predictions of all docs."""
        if not docs and self.facts is None:
            raise DataError(f"{self.path}: no documents")
        known = dict.fromkeys(self.facts.sources if self.facts else ())
        for doc in docs:
            known |= dict.fromkeys(name for name in doc.spans if not self._is_labels(name))
        with_gold = "gold" in self.holds or (
            self.facts is None and any(len(doc) and _is_tagged(doc) for doc in docs)
        )
        if with_gold:
            self.assembler.source(GOLD)
        if "labels" in self.holds:
            self.assembler.source(LABELS)
        for number, doc in enumerate(docs):
            self._add(doc, f"{self.path}: document {number}", list(known), gold=with_gold)
        for name in sorted(self.scored):
            self.report.add("ignored", str(self.path), name, "scores of a source's spans")
        return self._built(docs, list(known))

    def _is_labels(self, name: str) -> bool:
        return name == LABELS_GROUP and "labels" in self.holds

    def _add(self, doc: Any, where: str, sources: list[str], *, gold: bool) -> None:
        words = [token.text for token in doc]
        self.assembler.sentence(words, where=where)
        for name in sources:
            if name in doc.spans:
                self._group(doc.spans[name], name, name, where)
            elif self.options.silence != "O":
                self.assembler.unseen(name)
        if "labels" in self.holds:
            if LABELS_GROUP not in doc.spans:
                raise DataError(f"{where}: expected a span group {LABELS_GROUP!r}, got none")
            self._group(doc.spans[LABELS_GROUP], LABELS_GROUP, LABELS, where)
        if gold:
            if len(doc) and not _is_tagged(doc):
                self.report.add("gold", where, "gold", "no entities are set; taken as none")
            for span in doc.ents:
                self.assembler.span(GOLD, span.start, span.end, _label(span, "gold", where))
            if self.facts is not None and "gold" in _note(doc):
                self._exactly(GOLD, _note(doc)["gold"], len(words), where)
        self.tokens += len(words)

    def _group(self, group: Any, name: str, source: str, where: str) -> None:
        """The spans of one group; in a file of ours also what its attrs say."""
        marks = self.assembler.source(source)
        scores = group.attrs.get("scores")
        if scores is not None and source != LABELS:
            self.scored.add(name)
            scores = None
        if scores is not None and len(scores) != len(group):
            raise DataError(f"{where}: expected {len(group)} scores of {name}, got {len(scores)}")
        values = [float("nan")] * len(group) if scores is None else [float(item) for item in scores]
        for span, score in zip(group, values, strict=True):
            self.assembler.span(source, span.start, span.end, _label(span, name, where), score)
        if self.facts is None or source == LABELS:
            return
        if group.attrs.get("abstains"):
            marks.unseen.append(len(self.assembler) - 1)
        if "votes" in group.attrs:
            self._exactly(source, group.attrs["votes"], len(group.doc), where)

    def _exactly(self, source: str, values: Any, count: int, where: str) -> None:
        labels = np.array(values)
        if labels.shape != (count,) or (count and labels.dtype.kind != "i"):
            raise DataError(f"{where}: expected {count} votes of {source.strip(chr(0))}")
        if count and not -1 <= labels.min() <= labels.max() < 2**15:
            raise DataError(f"{where}: votes are not labels, got {labels.min()} to {labels.max()}")
        self.exact.append((source, self.tokens, labels.astype(np.int16)))

    def _built(self, docs: list[Any], sources: list[str]) -> Content:
        facts = self.facts
        silence: Any = "O"
        if facts is not None:
            silence = dict.fromkeys(sources, "O") | dict(
                zip(facts.sources, facts.silence, strict=True)
            )
        with placed(str(self.path)):
            content = self.assembler.build(
                types=None if facts is None else facts.types, sources=sources, silence=silence
            )
        data = content.data if isinstance(content, Predictions) else content
        data = self._mended(data)
        if facts is None or "text" in self.holds:
            data = replace(data, text=self._text(docs))
        if "documents" in self.holds:
            data = replace(
                data, documents=Strings.of(str(_note(doc).get("doc_id", "")) for doc in docs)
            )
        if not isinstance(content, Predictions):
            return data
        return self._predictions(content, data, docs)

    def _mended(self, data: Dataset) -> Dataset:
        """The data with the votes that spans could not say."""
        if not self.exact:
            return data
        votes = data.votes.copy()
        gold = None if data.gold is None else data.gold.copy()
        for source, first, labels in self.exact:
            if source == GOLD and gold is not None:
                gold[first : first + len(labels)] = labels
            elif source in data.sources:
                votes[first : first + len(labels), data.source_number(source)] = labels
        return replace(data, votes=votes, gold=gold)

    def _text(self, docs: list[Any]) -> Text:
        texts, chars, starts = [], [np.zeros((0, 2), np.int32)], []
        for number, doc in enumerate(docs):
            note = _note(doc) if self.facts is not None else {}
            edges = [(token.idx, token.idx + len(token.text)) for token in doc]
            kept = note.get("chars", edges)
            pairs = np.array(kept, np.int32).reshape(-1, 2)
            if len(pairs) != len(doc):
                where = f"{self.path}: document {number}"
                raise DataError(f"{where}: expected chars of {len(doc)} tokens, got {len(pairs)}")
            texts.append(str(note.get("text", doc.text)))
            chars.append(pairs)
            starts.append(int(note.get("char_start", 0)))
        return Text(Strings.of(texts), np.concatenate(chars), np.array(starts, np.int64))

    def _predictions(self, content: Predictions, data: Dataset, docs: list[Any]) -> Predictions:
        size, rows = len(data.tags), None
        if "probabilities" in self.holds:
            raw = b"".join(_note(doc).get("probabilities", b"") for doc in docs)
            flat = np.frombuffer(raw, "<f4")
            if len(flat) != size * len(data.tokens):
                raise DataError(
                    f"{self.path}: expected probabilities of {len(data.tokens)} tokens x {size} "
                    f"labels, got {len(flat)}"
                )
            rows = flat.astype(np.float32).reshape(-1, size)
        scores = content.scores if "scores" in self.holds else None
        if "scores" in self.holds and scores is None:
            scores = np.zeros(0, np.float32)
        facts = self.facts
        return Predictions(
            data=data,
            labels=content.labels,
            probabilities=rows,
            scores=scores,
            model="" if facts is None else facts.model,
            settings={} if facts is None else facts.settings,
        )


def _is_tagged(doc: Any) -> bool:
    return bool(doc.has_annotation("ENT_IOB"))


def _label(span: Any, source: str, where: str) -> str:
    label = str(span.label_)
    if not label:
        raise DataError(f"{where}: span {span.start}-{span.end} of {source} has no label")
    return label
