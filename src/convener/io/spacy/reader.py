"""Reads spaCy's DocBin, ours and others'."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset
from convener.errors import DataError
from convener.io.assemble import GOLD, PREDICTIONS, DatasetBuilder
from convener.io.facts import Metadata, apply_read_options, unfiltered
from convener.io.formats import LabeledData, get_dataset
from convener.io.messages import error_location, wrap_errors
from convener.io.options import ReadOptions
from convener.io.report import Issues
from convener.io.spacy.docbin import PREDICTIONS_GROUP, get_user_data, read_docs
from convener.predictions import Predictions


def read(path: Path, options: ReadOptions, issues: Issues) -> LabeledData:
    """Span groups become sources, entities the gold, a file of ours what it was."""
    docs = read_docs(path)
    metadata = None
    for doc in docs:
        if "facts" in (user_data := get_user_data(doc)):
            raw = user_data["facts"]
            metadata = Metadata.from_json(raw if isinstance(raw, str) else "", str(path))
            break
    if metadata is None:
        with wrap_errors(str(path), "DocBin"):
            return _Reader(path, None, options, issues).read(docs)
    docs = [doc for doc in docs if not get_user_data(doc).get("empty")]
    with wrap_errors(str(path), "DocBin"):
        content = _Reader(path, metadata, unfiltered(options), issues).read(docs)
    return apply_read_options(metadata.restore(content), options, str(path))


class _Reader:
    """Docs on their way to a dataset."""

    def __init__(self, path: Path, metadata: Metadata | None, options: ReadOptions, issues: Issues) -> None:
        self.path, self.options, self.issues = path, options, issues
        self.is_native, self.metadata = metadata is not None, metadata or Metadata()
        self.has_predictions = self.metadata.model is not None
        self.builder = DatasetBuilder(options, issues, in_tokens=True)
        self.exact_labels: list[tuple[str, int, NDArray[np.int16]]] = []  # source, first token, labels
        self.scored_sources: set[str] = set()
        self.num_tokens = 0

    def read(self, docs: list[Any]) -> LabeledData:
        """The dataset or the predictions of all docs."""
        if not docs and not self.is_native:
            raise DataError(f"{self.path}: no documents")
        source_names = dict.fromkeys(self.metadata.sources or ())
        for doc in docs:
            source_names |= dict.fromkeys(name for name in doc.spans if not self._is_predictions_group(name))
        has_gold = "gold" in self.metadata.contents
        if not self.is_native:
            has_gold = any(len(doc) and _has_entities(doc) for doc in docs)
        if has_gold:
            self.builder.source_spans(GOLD)
        if self.has_predictions:
            self.builder.source_spans(PREDICTIONS)
        for number, doc in enumerate(docs):
            self._add_doc(doc, f"{self.path}: document {number}", list(source_names), has_gold=has_gold)
        for name in sorted(self.scored_sources):
            self.issues.add("ignored", str(self.path), name, "scores of a source's spans")
        return self._build(docs, list(source_names))

    def _is_predictions_group(self, name: str) -> bool:
        return name == PREDICTIONS_GROUP and self.has_predictions

    def _add_doc(self, doc: Any, where: str, sources: list[str], *, has_gold: bool) -> None:
        words = [token.text for token in doc]
        self._add_sentence(doc, words, where)
        for name in sources:
            if name in doc.spans:
                self._add_group(doc.spans[name], name, name, where)
            elif self.options.silence != "O":
                self.builder.abstain(name)
        if self.has_predictions:
            if PREDICTIONS_GROUP not in doc.spans:
                raise DataError(f"{where}: expected a span group {PREDICTIONS_GROUP!r}, got none")
            self._add_group(doc.spans[PREDICTIONS_GROUP], PREDICTIONS_GROUP, PREDICTIONS, where)
        if has_gold:
            if len(doc) and not _has_entities(doc):
                self.issues.add("gold", where, "gold", "no entities are set; taken as none")
            for span in doc.ents:
                self.builder.add_span(GOLD, span.start, span.end, _label(span, "gold", where))
            if self.is_native and "gold" in get_user_data(doc):
                self._add_exact_labels(GOLD, get_user_data(doc)["gold"], len(words), where)
        self.num_tokens += len(words)

    def _add_sentence(self, doc: Any, words: list[str], where: str) -> None:
        user_data = get_user_data(doc) if self.is_native else {}
        text, token_offsets = None, None
        if not self.is_native or "text" in self.metadata.contents:
            text = str(user_data.get("text", doc.text))
            doc_token_offsets = [(token.idx, token.idx + len(token.text)) for token in doc]
            token_offsets = np.array(user_data.get("chars", doc_token_offsets), np.int32).reshape(-1, 2)
            if len(token_offsets) != len(doc):
                raise DataError(f"{where}: expected chars of {len(doc)} tokens, got {len(token_offsets)}")
        doc_id = str(user_data.get("doc_id", "")) if "documents" in self.metadata.contents else None
        doc_offset = int(user_data.get("char_start", 0))
        self.builder.add_sentence(
            words,
            where=where,
            text=text,
            token_offsets=token_offsets,
            doc_id=doc_id,
            doc_offset=doc_offset,
        )

    def _add_group(self, group: Any, name: str, source: str, where: str) -> None:
        """The spans of one group; in a file of ours also what its attrs say."""
        columns = self.builder.source_spans(source)
        scores = group.attrs.get("scores")
        if scores is not None and source != PREDICTIONS:
            self.scored_sources.add(name)
            scores = None
        if scores is not None and len(scores) != len(group):
            raise DataError(f"{where}: expected {len(group)} scores of {name}, got {len(scores)}")
        span_scores = [float("nan")] * len(group) if scores is None else [float(item) for item in scores]
        for span, score in zip(group, span_scores, strict=True):
            self.builder.add_span(source, span.start, span.end, _label(span, name, where), score)
        if not self.is_native or source == PREDICTIONS:
            return
        if group.attrs.get("abstains"):
            columns.abstained_sentences.append(len(self.builder) - 1)
        if "votes" in group.attrs:
            self._add_exact_labels(source, group.attrs["votes"], len(group.doc), where)

    def _add_exact_labels(self, source: str, raw_labels: Any, num_tokens: int, where: str) -> None:
        labels = np.array(raw_labels)
        if labels.shape != (num_tokens,) or (num_tokens and labels.dtype.kind != "i"):
            raise DataError(f"{where}: expected {num_tokens} votes of {source.strip(chr(0))}")
        if num_tokens and not -1 <= labels.min() <= labels.max() < 2**15:
            raise DataError(f"{where}: votes are not labels, got {labels.min()} to {labels.max()}")
        self.exact_labels.append((source, self.num_tokens, labels.astype(np.int16)))

    def _build(self, docs: list[Any], sources: list[str]) -> LabeledData:
        metadata = self.metadata
        with error_location(str(self.path)):
            content = self.builder.build(types=metadata.types, sources=sources, metadata=metadata)
        data = self._with_exact_labels(get_dataset(content))
        if not isinstance(content, Predictions):
            return data
        return Predictions(
            data=data,
            labels=content.labels,
            probabilities=self._probabilities(data, docs),
            span_scores=content.span_scores if "scores" in metadata.contents else None,
            model=metadata.model or "",
            settings=metadata.model_settings,
        )

    def _with_exact_labels(self, data: Dataset) -> Dataset:
        """The data with the votes that spans could not say."""
        if not self.exact_labels:
            return data
        votes = data.votes.copy()
        gold = None if data.gold is None else data.gold.copy()
        for source, first_token, labels in self.exact_labels:
            if source == GOLD and gold is not None:
                gold[first_token : first_token + len(labels)] = labels
            elif source in data.sources:
                votes[first_token : first_token + len(labels), data.source_index(source)] = labels
        return replace(data, votes=votes, gold=gold)

    def _probabilities(self, data: Dataset, docs: list[Any]) -> NDArray[np.float32] | None:
        if "probabilities" not in self.metadata.contents:
            return None
        num_labels = len(data.fine_tags)
        flat = np.frombuffer(b"".join(get_user_data(doc).get("probabilities", b"") for doc in docs), "<f4")
        if len(flat) != num_labels * len(data.tokens):
            raise DataError(
                f"{self.path}: expected probabilities of {len(data.tokens)} tokens x {num_labels} "
                f"labels, got {len(flat)}"
            )
        return flat.astype(np.float32).reshape(-1, num_labels)


def _has_entities(doc: Any) -> bool:
    return bool(doc.has_annotation("ENT_IOB"))


def _label(span: Any, source: str, where: str) -> str:
    label = str(span.label_)
    if not label:
        raise DataError(f"{where}: span {span.start}-{span.end} of {source} has no label")
    return label
