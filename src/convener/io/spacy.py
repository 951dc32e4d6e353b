"""spaCy's DocBin: one Doc per sentence, one span group per source.

`doc.ents` are the gold entities of a dataset or the entities of predictions. Predictions are also in
`doc.spans["convener"]`, with their scores in its attrs, as in spaCy's span categorizer. Other information is stored as
plain values in `doc.user_data["convener"]` and in the attrs of groups; the user data of the first Doc contains the
metadata.

With text, `doc.text` is the text of the sentence, character by character. What stands between tokens, except for one
space, becomes a space token, as in spaCy's own tokenizer; `doc.user_data["convener"]["gaps"]` lists these tokens, which
are no tokens of the dataset.
"""

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

from convener.data.dataset import Dataset
from convener.data.issues import Issues, error_location, wrap_errors
from convener.data.predictions import Predictions
from convener.data.ragged import locate
from convener.data.tags import ABSTAIN
from convener.errors import DataError, FormatError, require
from convener.io.builder import GOLD, PREDICTIONS, DatasetBuilder
from convener.io.doc_layout import DocLayout, exact_layout, joined_layout
from convener.io.formats import (
    CAPABILITIES,
    FileContent,
    Format,
    LabeledData,
    ReadOptions,
    WriteOptions,
    check_unicode,
    get_dataset,
)
from convener.io.metadata import Metadata, apply_read_options, unfiltered

USER_DATA_KEY = "convener"
"""Key in `doc.user_data`."""
VERSION_1_KEYS = {"facts": "metadata", "chars": "token_offsets", "char_start": "doc_offset"}
"""Keys in `doc.user_data` of files of version 1, and their names since version 2."""
PREDICTIONS_GROUP = "convener"
"""Span group of predictions."""


def read(path: Path, options: ReadOptions, issues: Issues) -> FileContent:
    """Read a DocBin: span groups are sources, entities are gold; a native file is restored exactly."""
    return read_docs(_read_docs(path), path, options, issues)


def read_docs(docs: list[Any], path: Path, options: ReadOptions, issues: Issues) -> FileContent:
    """Read docs as `read` does; `path` is their name in messages."""
    metadata = None
    for doc in docs:
        if "metadata" in (user_data := _get_user_data(doc)):
            raw = user_data["metadata"]
            metadata = Metadata.from_json(raw if isinstance(raw, str) else "", str(path))
            break
    if metadata is None:
        with wrap_errors(str(path), "DocBin"):
            content = _Reader(path, None, options, issues).read(docs)
        return FileContent(content, Metadata().undecided_sources(get_dataset(content).sources, options))
    docs = [doc for doc in docs if not _get_user_data(doc).get("empty")]
    with wrap_errors(str(path), "DocBin"):
        content = _Reader(path, metadata, unfiltered(options), issues).read(docs)
    return FileContent(apply_read_options(metadata.restore(content), options, str(path)))


def to_docs(content: LabeledData) -> list[Any]:
    """Return a Doc for each sentence, with span groups, entities and user data."""
    return list(_iter_docs(content))


def _iter_docs(content: LabeledData) -> Iterator[Any]:
    spacy_tokens, vocab = _import_spacy("spacy.tokens"), _import_spacy("spacy.vocab").Vocab()
    _check_names(content)
    writer = _Writer(content, spacy_tokens, vocab)
    metadata_json = Metadata.from_content(content).to_json()
    for number in range(len(get_dataset(content))):
        doc = writer.make_doc(number)
        if number == 0:
            doc.user_data[USER_DATA_KEY]["metadata"] = metadata_json
        yield doc


def write(content: LabeledData, path: Path, options: WriteOptions) -> None:
    """Write a DocBin with span groups, entities and user data."""
    spacy_tokens = _import_spacy("spacy.tokens")
    doc_bin = spacy_tokens.DocBin(attrs=["ENT_IOB", "ENT_TYPE"], store_user_data=True)
    if not len(get_dataset(content)):
        doc = spacy_tokens.Doc(_import_spacy("spacy.vocab").Vocab(), words=[], spaces=[])
        doc.user_data[USER_DATA_KEY] = {"metadata": Metadata.from_content(content).to_json(), "empty": True}
        doc_bin.add(doc)
    with _cached_registries():
        for doc in _iter_docs(content):
            doc_bin.add(doc)
        path.write_bytes(doc_bin.to_bytes())


class _Reader:
    """Converts documents to a dataset."""

    def __init__(self, path: Path, metadata: Metadata | None, options: ReadOptions, issues: Issues) -> None:
        self.path, self.options, self.issues = path, options, issues
        self.is_native, self.metadata = metadata is not None, metadata or Metadata()
        self.has_predictions = self.metadata.model is not None
        self.builder = DatasetBuilder(options, issues, in_tokens=True)
        self.exact_labels: list[tuple[str, int, NDArray[np.int16]]] = []  # source, first token, labels
        self.scored_sources: set[str] = set()
        self.num_tokens = 0
        self.first_token = [0]  # of the current document: number of tokens before each token of the Doc

    def read(self, docs: list[Any]) -> LabeledData:
        """Return the dataset or the predictions of all documents."""
        if not docs and not self.is_native:
            raise DataError(f"{self.path}: the file contains no documents")
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
            self.issues.add("ignored", str(self.path), name, "span scores of a source")
        return self._build(docs, list(source_names))

    def _is_predictions_group(self, name: str) -> bool:
        return name == PREDICTIONS_GROUP and self.has_predictions

    def _add_doc(self, doc: Any, where: str, sources: list[str], *, has_gold: bool) -> None:
        words = self._add_sentence(doc, where)
        for name in sources:
            if name in doc.spans:
                self._add_group(doc.spans[name], name, name, where)
            elif self.options.unmarked != "abstain":
                self.builder.abstain(name)
        if self.has_predictions:
            if PREDICTIONS_GROUP not in doc.spans:
                raise DataError(f"{where}: expected a span group {PREDICTIONS_GROUP!r}, got none")
            self._add_group(doc.spans[PREDICTIONS_GROUP], PREDICTIONS_GROUP, PREDICTIONS, where)
        if has_gold:
            if len(doc) and not _has_entities(doc):
                self.issues.add("gold", where, "gold", "entities are not set; treated as no entities")
            for span in doc.ents:
                self._add_span(GOLD, span, _label(span, "gold", where))
            if self.is_native and "gold" in _get_user_data(doc):
                self._add_exact_labels(GOLD, _get_user_data(doc)["gold"], len(words), where)
        self.num_tokens += len(words)

    def _add_sentence(self, doc: Any, where: str) -> list[str]:
        """Add the sentence of a document and return its tokens."""
        user_data = _get_user_data(doc) if self.is_native else {}
        is_token = np.ones(len(doc), bool)
        gaps = np.array(user_data.get("gaps", []))
        if len(gaps):
            if gaps.dtype.kind != "i" or gaps.min() < 0 or gaps.max() >= len(doc):
                raise DataError(f"{where}: 'gaps' must be indices of the {len(doc)} tokens")
            is_token[gaps] = False
        self.first_token = np.append(0, np.cumsum(is_token)).tolist()
        tokens = [token for token, kept in zip(doc, is_token.tolist(), strict=True) if kept]
        words = user_data.get("tokens", [token.text for token in tokens])
        if not isinstance(words, list | tuple) or [type(word) for word in words] != [str] * len(tokens):
            raise DataError(f"{where}: 'tokens' must be a list of {len(tokens)} strings")
        text, token_offsets = None, None
        if not self.is_native or "text" in self.metadata.contents:
            text = str(user_data.get("text", doc.text))
            doc_token_offsets = [(token.idx, token.idx + len(token.text)) for token in tokens]
            token_offsets = np.array(user_data.get("token_offsets", doc_token_offsets), np.int32).reshape(-1, 2)
            if len(token_offsets) != len(tokens):
                raise DataError(f"{where}: expected token_offsets for {len(tokens)} tokens, got {len(token_offsets)}")
        doc_id = str(user_data.get("doc_id", "")) if "documents" in self.metadata.contents else None
        doc_offset = int(user_data.get("doc_offset", 0))
        self.builder.add_sentence(
            words,
            where=where,
            text=text,
            token_offsets=token_offsets,
            doc_id=doc_id,
            doc_offset=doc_offset,
        )
        return list(words)

    def _add_span(self, source: str, span: Any, label: str, score: float = float("nan")) -> None:
        """Add a span of the current document; its tokens are counted without those of gaps."""
        self.builder.add_span(source, self.first_token[span.start], self.first_token[span.end], label, score)

    def _add_group(self, group: Any, name: str, source: str, where: str) -> None:
        """Add the spans of a group, and in a native file also the votes in its attrs."""
        columns = self.builder.source_spans(source)
        scores = group.attrs.get("scores")
        if scores is not None and source != PREDICTIONS:
            self.scored_sources.add(name)
            scores = None
        if scores is not None and len(scores) != len(group):
            raise DataError(f"{where}: expected {len(group)} scores ({name}), got {len(scores)}")
        span_scores = [float("nan")] * len(group) if scores is None else [float(item) for item in scores]
        for span, score in zip(group, span_scores, strict=True):
            self._add_span(source, span, _label(span, name, where), score)
        if not self.is_native or source == PREDICTIONS:
            return
        if group.attrs.get("abstain", group.attrs.get("abstains")):
            columns.abstained_sentences.append(len(self.builder) - 1)
        if "votes" in group.attrs:
            self._add_exact_labels(source, group.attrs["votes"], self.first_token[-1], where)

    def _add_exact_labels(self, source: str, raw_labels: Any, num_tokens: int, where: str) -> None:
        """Record labels of the current document that spans cannot represent."""
        labels = np.array(raw_labels)
        if labels.shape != (num_tokens,) or (num_tokens and labels.dtype.kind != "i"):
            raise DataError(f"{where}: expected {num_tokens} votes ({source.strip(chr(0))})")
        if num_tokens and not -1 <= labels.min() <= labels.max() < 2**15:
            raise DataError(f"{where}: votes must be label ids, got {labels.min()} to {labels.max()}")
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
            **metadata.prediction_fields(),
        )

    def _with_exact_labels(self, data: Dataset) -> Dataset:
        """Return the data with the labels that spans cannot represent."""
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
        flat = np.frombuffer(b"".join(_get_user_data(doc).get("probabilities", b"") for doc in docs), "<f4")
        if len(flat) != num_labels * len(data.tokens):
            raise DataError(
                f"{self.path}: expected probabilities for {len(data.tokens)} tokens x {num_labels} labels, "
                f"got {len(flat)} values"
            )
        return flat.astype(np.float32).reshape(-1, num_labels)


def _has_entities(doc: Any) -> bool:
    return bool(doc.has_annotation("ENT_IOB"))


def _label(span: Any, source: str, where: str) -> str:
    label = str(span.label_)
    if not label:
        raise DataError(f"{where}: span {span.start}-{span.end} ({source}) has no label")
    return label


def _check_names(content: LabeledData) -> None:
    """Raise FormatError for source names and tokens that spaCy cannot store."""
    data = get_dataset(content)
    if isinstance(content, Predictions) and PREDICTIONS_GROUP in data.sources:
        raise FormatError(f"a .spacy file of predictions cannot store a source named {PREDICTIONS_GROUP!r}; rename it")
    check_unicode(data)
    empty = np.flatnonzero(data.tokens.lengths == 0)
    if len(empty):
        sentence, token = locate(data.offsets, int(empty[0]))
        raise FormatError(f"sentence {sentence}: token {token} is empty, which spaCy cannot store")


class _Writer:
    """Builds the Doc of each sentence."""

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
        """Return the Doc of one sentence."""
        data = self.data
        token_slice = slice(int(data.offsets[sentence]), int(data.offsets[sentence + 1]))
        words = data.tokens[token_slice].to_list()
        layout = joined_layout(words)
        user_data: dict[str, Any] = {}
        if data.text is not None:
            text, token_offsets = data.text.sentences[sentence], data.text.token_offsets[token_slice]
            exact = exact_layout(text, token_offsets)
            if exact is None:
                user_data |= {"text": text, "token_offsets": token_offsets.ravel().tolist()}
            else:
                layout = exact
                if exact.gaps:
                    user_data["gaps"] = list(exact.gaps)
                if [exact.words[position] for position in exact.positions] != words:
                    user_data["tokens"] = words
            user_data["doc_offset"] = int(data.text.doc_offsets[sentence])
        if data.doc_ids is not None:
            user_data["doc_id"] = data.doc_ids[sentence]
        doc = self.spacy_tokens.Doc(self.vocab, words=layout.words, spaces=layout.spaces)
        doc.user_data[USER_DATA_KEY] = user_data
        for k, name in enumerate(data.sources):
            self._add_votes(doc, layout, k, name, sentence, data.votes[token_slice, k])
        self._add_entities(doc, layout, sentence, token_slice, user_data)
        return doc

    def _spans(self, doc: Any, layout: DocLayout, span_tuples: list[tuple[int, int, str]]) -> list[Any]:
        """Return spans of the tokens of the dataset as spans of the Doc."""
        positions = layout.positions
        return [
            self.spacy_tokens.Span(doc, positions[start], positions[end - 1] + 1, label=entity_type)
            for start, end, entity_type in span_tuples
        ]

    def _add_group(self, doc: Any, name: str, spans: list[Any], attrs: Any) -> None:
        doc.spans[name] = self.spacy_tokens.SpanGroup(doc, name=name, spans=spans, attrs=attrs)

    def _add_votes(
        self, doc: Any, layout: DocLayout, k: int, name: str, sentence: int, votes: NDArray[np.int16]
    ) -> None:
        abstained = votes == ABSTAIN
        attrs: dict[str, Any] = {"unmarked": self.data.unmarked[k]}
        attrs["abstain"] = bool(len(votes)) and bool(abstained.all())
        if self.has_illegal_votes[k] or (abstained.any() and not abstained.all()):
            attrs["votes"] = votes.tolist()  # spans cannot represent these votes
        self._add_group(doc, name, self._spans(doc, layout, self.source_spans[k][sentence]), attrs)

    def _add_entities(
        self, doc: Any, layout: DocLayout, sentence: int, token_slice: slice, user_data: dict[str, Any]
    ) -> None:
        if self.entities is None:
            return
        spans = self._spans(doc, layout, self.entities[sentence])
        doc.set_ents(spans, default="outside")
        if self.has_illegal_gold and self.data.gold is not None:
            user_data["gold"] = self.data.gold[token_slice].tolist()
        if not isinstance(self.content, Predictions):
            return
        attrs = {}
        if self.scores is not None:
            first, last = self.score_offsets[sentence : sentence + 2]
            attrs["scores"] = self.scores[first:last].tolist()
        self._add_group(doc, PREDICTIONS_GROUP, spans, attrs)
        if self.content.probabilities is not None:
            rows = np.ascontiguousarray(self.content.probabilities[token_slice], "<f4")
            user_data["probabilities"] = rows.tobytes()


def _is_illegal(data: Dataset, labels: NDArray[np.int16]) -> bool:
    return data.tags.repair(labels, data.offsets)[1] > 0


def _import_spacy(module: str) -> Any:
    """Import a module of spaCy or srsly; a MissingDependencyError names the extra."""
    return require(module, extra="spacy", purpose="the spaCy format")


@contextmanager
def _cached_registries() -> Iterator[None]:
    """Make srsly look up its msgpack plugins once instead of once per serialized value.

    The look-up takes about a millisecond, and every span group of every document is serialized on its own.
    """
    packer = _import_spacy("srsly.msgpack")
    registries = (packer.msgpack_encoders, packer.msgpack_decoders)
    for registry in registries:
        registry.__dict__["get_all"] = partial(dict, registry.get_all())
    try:
        yield
    finally:
        for registry in registries:
            registry.__dict__.pop("get_all", None)


def _read_docs(path: Path) -> list[Any]:
    """Return all documents of a file."""
    doc_bin, vocab = _import_spacy("spacy.tokens").DocBin(), _import_spacy("spacy.vocab").Vocab()
    raw, gc_was_enabled = path.read_bytes(), gc.isenabled()
    try:
        with wrap_errors(str(path), "DocBin"), _cached_registries():
            return list(doc_bin.from_bytes(raw).get_docs(vocab))
    finally:
        if gc_was_enabled:
            gc.enable()  # srsly disables it and does not restore it on failure


def _get_user_data(doc: Any) -> Mapping[str, Any]:
    """Return the values that convener stored in a document; empty for external documents."""
    user_data: Any = doc.user_data.get(USER_DATA_KEY)
    if not isinstance(user_data, dict):
        return {}
    return {VERSION_1_KEYS.get(str(key), str(key)): value for key, value in user_data.items()}


FORMAT = Format(
    name="spacy",
    summary="spaCy DocBin for `spacy train`, sources as span groups",
    suffixes=(".spacy",),
    capabilities=frozenset(CAPABILITIES),
    read=read,
    write=write,
)
