"""Reads spaCy's DocBin, ours and others'."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError
from convener.io.assemble import GOLD, LABELS, Assembler
from convener.io.facts import Facts, as_asked, everything
from convener.io.formats import Content, data_of
from convener.io.messages import placed, readable
from convener.io.options import ReadOptions
from convener.io.report import Report
from convener.io.spacy.docbin import LABELS_GROUP, docs_in, note_of
from convener.predictions import Predictions


def read(path: Path, options: ReadOptions, report: Report) -> Content:
    """Span groups become sources, entities the gold, a file of ours what it was."""
    docs = docs_in(path)
    facts = None
    for doc in docs:
        if "facts" in (note := note_of(doc)):
            raw = note["facts"]
            facts = Facts.parse(raw if isinstance(raw, str) else "", str(path))
            break
    if facts is None:
        with readable(str(path), "DocBin"):
            return _Reader(path, None, options, report).content(docs)
    docs = [doc for doc in docs if not note_of(doc).get("empty")]
    with readable(str(path), "DocBin"):
        content = _Reader(path, facts, everything(options), report).content(docs)
    return as_asked(facts.restored(content), options, str(path))


class _Reader:
    """Docs on their way to a dataset."""

    def __init__(
        self, path: Path, facts: Facts | None, options: ReadOptions, report: Report
    ) -> None:
        self.path, self.options, self.report = path, options, report
        self.own, self.facts = facts is not None, facts or Facts()
        self.predicted = self.facts.model is not None
        self.assembler = Assembler(options, report, in_tokens=True)
        self.exact: list[tuple[str, int, NDArray[np.int16]]] = []  # source, first token, labels
        self.scored: set[str] = set()
        self.tokens = 0

    def content(self, docs: list[Any]) -> Content:
        """The dataset or the predictions of all docs."""
        if not docs and not self.own:
            raise DataError(f"{self.path}: no documents")
        known = dict.fromkeys(self.facts.sources or ())
        for doc in docs:
            known |= dict.fromkeys(name for name in doc.spans if not self._is_labels(name))
        with_gold = "gold" in self.facts.holds
        if not self.own:
            with_gold = any(len(doc) and _is_tagged(doc) for doc in docs)
        if with_gold:
            self.assembler.source(GOLD)
        if self.predicted:
            self.assembler.source(LABELS)
        for number, doc in enumerate(docs):
            self._add(doc, f"{self.path}: document {number}", list(known), gold=with_gold)
        for name in sorted(self.scored):
            self.report.add("ignored", str(self.path), name, "scores of a source's spans")
        return self._built(docs, list(known))

    def _is_labels(self, name: str) -> bool:
        return name == LABELS_GROUP and self.predicted

    def _add(self, doc: Any, where: str, sources: list[str], *, gold: bool) -> None:
        words = [token.text for token in doc]
        self._sentence(doc, words, where)
        for name in sources:
            if name in doc.spans:
                self._group(doc.spans[name], name, name, where)
            elif self.options.silence != "O":
                self.assembler.unseen(name)
        if self.predicted:
            if LABELS_GROUP not in doc.spans:
                raise DataError(f"{where}: expected a span group {LABELS_GROUP!r}, got none")
            self._group(doc.spans[LABELS_GROUP], LABELS_GROUP, LABELS, where)
        if gold:
            if len(doc) and not _is_tagged(doc):
                self.report.add("gold", where, "gold", "no entities are set; taken as none")
            for span in doc.ents:
                self.assembler.span(GOLD, span.start, span.end, _label(span, "gold", where))
            if self.own and "gold" in note_of(doc):
                self._exactly(GOLD, note_of(doc)["gold"], len(words), where)
        self.tokens += len(words)

    def _sentence(self, doc: Any, words: list[str], where: str) -> None:
        note = note_of(doc) if self.own else {}
        text, chars = None, None
        if not self.own or "text" in self.facts.holds:
            text = str(note.get("text", doc.text))
            edges = [(token.idx, token.idx + len(token.text)) for token in doc]
            chars = np.array(note.get("chars", edges), np.int32).reshape(-1, 2)
            if len(chars) != len(doc):
                raise DataError(f"{where}: expected chars of {len(doc)} tokens, got {len(chars)}")
        document = str(note.get("doc_id", "")) if "documents" in self.facts.holds else None
        start = int(note.get("char_start", 0))
        self.assembler.sentence(
            words, where=where, text=text, chars=chars, document=document, start=start
        )

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
        if not self.own or source == LABELS:
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
        with placed(str(self.path)):
            content = self.assembler.build(types=facts.types, sources=sources, facts=facts)
        data = self._mended(data_of(content))
        if not isinstance(content, Predictions):
            return data
        return Predictions(
            data=data,
            labels=content.labels,
            probabilities=self._probabilities(data, docs),
            scores=content.scores if "scores" in facts.holds else None,
            model=facts.model or "",
            settings=facts.settings,
        )

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

    def _probabilities(self, data: Dataset, docs: list[Any]) -> NDArray[np.float32] | None:
        if "probabilities" not in self.facts.holds:
            return None
        size = len(data.fine_tags)
        flat = np.frombuffer(
            b"".join(note_of(doc).get("probabilities", b"") for doc in docs), "<f4"
        )
        if len(flat) != size * len(data.tokens):
            raise DataError(
                f"{self.path}: expected probabilities of {len(data.tokens)} tokens x {size} "
                f"labels, got {len(flat)}"
            )
        return flat.astype(np.float32).reshape(-1, size)


def _is_tagged(doc: Any) -> bool:
    return bool(doc.has_annotation("ENT_IOB"))


def _label(span: Any, source: str, where: str) -> str:
    label = str(span.label_)
    if not label:
        raise DataError(f"{where}: span {span.start}-{span.end} of {source} has no label")
    return label
