"""Builds a dataset from sentences and their spans."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from convener.data.alignment import SpanAligner
from convener.data.dataset import Dataset, Text
from convener.data.issues import Issues
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.data.spans import Spans
from convener.data.tags import ABSTAIN, TagSet
from convener.errors import DataError, UnknownNameError, unknown_name_message
from convener.io.formats import ReadOptions
from convener.io.metadata import Metadata, build_tag_set

GOLD = "\0gold"
PREDICTIONS = "\0predictions"
"""Reserved source names of gold and predicted spans."""
DISPLAY_NAMES = {GOLD: "gold", PREDICTIONS: "predictions"}
"""Reserved names as messages show them."""
_MAX_OFFSET = 2**31 - 1
"""Largest offset that fits 32 bits."""


@dataclass
class SpanColumns:
    """The spans of one source as columns, and the sentences it abstained on."""

    sentence: array[int] = field(default_factory=lambda: array("q"))
    start: array[int] = field(default_factory=lambda: array("q"))
    end: array[int] = field(default_factory=lambda: array("q"))
    type: array[int] = field(default_factory=lambda: array("q"))
    score: array[float] = field(default_factory=lambda: array("f"))
    abstained_sentences: array[int] = field(default_factory=lambda: array("q"))


class StringArrayBuilder:
    """Collects strings in one UTF-8 buffer, without keeping Python objects."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._lengths = array("q")

    def extend(self, strings: Iterable[str]) -> None:
        """Add strings."""
        pieces = list(strings)
        joined = "".join(pieces)
        self._bytes += joined.encode("utf-8", "surrogatepass")
        if joined.isascii():
            self._lengths.extend(map(len, pieces))
        else:
            self._lengths.extend(
                len(text if text.isascii() else text.encode("utf-8", "surrogatepass")) for text in pieces
            )

    def build(self) -> StringArray:
        """Return all strings added so far."""
        return StringArray(
            np.frombuffer(bytes(self._bytes), np.uint8),
            lengths_to_offsets(np.frombuffer(self._lengths, np.int64)),
        )


class DatasetBuilder:
    """Collects sentences and their spans, then builds the dataset.

    Call `add_sentence`, then `add_span` and `abstain` for that sentence as often as needed. Span offsets count
    characters if sentences have text, unless `in_tokens` is set; otherwise tokens. `build` resolves overlaps and
    misaligned spans by the policies of the options and adds each case to `issues`.
    """

    def __init__(self, options: ReadOptions, issues: Issues, *, in_tokens: bool = False) -> None:
        self._options, self._issues, self._in_tokens = options, issues, in_tokens
        self._tokens, self._texts, self._locations = (StringArrayBuilder() for _ in range(3))
        self._doc_ids, self._has_doc_ids = StringArrayBuilder(), False
        self._lengths, self._doc_offsets = array("q"), array("q")
        self._token_offsets: list[NDArray[np.int32]] = []
        self._span_columns: dict[str, SpanColumns] = {}
        self._types: dict[str, int] = {}
        self._has_text: bool | None = None

    def add_sentence(
        self,
        tokens: Sequence[str],
        *,
        where: str,
        text: str | None = None,
        token_offsets: NDArray[np.int32] | None = None,
        doc_id: str | None = None,
        doc_offset: int = 0,
    ) -> None:
        """Start the next sentence; with text, `token_offsets` (T, 2) are start and end of its T tokens in it."""
        if self._has_text is None:
            self._has_text = text is not None
        if self._has_text != (text is not None):
            raise DataError(f"{where}: text must be given for every sentence or for none")
        if text is not None:
            if token_offsets is None or token_offsets.shape != (len(tokens), 2):
                raise DataError(f"{where}: expected [start, end] for each of {len(tokens)} tokens")
            self._texts.extend([text])
            self._token_offsets.append(token_offsets)
        self._tokens.extend(tokens)
        self._lengths.append(len(tokens))
        self._doc_offsets.append(doc_offset)
        self._locations.extend([where])
        self._doc_ids.extend([str(len(self) - 1) if doc_id is None else doc_id])
        self._has_doc_ids |= doc_id is not None

    def __len__(self) -> int:
        return len(self._lengths)

    @property
    def observed_types(self) -> tuple[str, ...]:
        """Entity types of all spans so far, by first appearance."""
        return tuple(self._types)

    def source_spans(self, name: str) -> SpanColumns:
        """Return the spans of a source so far; registers the source if it is new."""
        columns = self._span_columns.get(name)
        if columns is None:
            columns = self._span_columns[name] = SpanColumns()
        return columns

    def add_span(self, source: str, start: int, end: int, entity_type: str, score: float = float("nan")) -> None:
        """Add a span of a source to the current sentence."""
        if not (-_MAX_OFFSET < start < _MAX_OFFSET and -_MAX_OFFSET < end < _MAX_OFFSET):
            location = self._locations.build()[-1]
            display_name = DISPLAY_NAMES.get(source, source)
            raise DataError(f"{location}: span {start}-{end} of {display_name} is out of range")
        columns = self.source_spans(source)
        columns.sentence.append(len(self) - 1)
        columns.start.append(start)
        columns.end.append(end)
        columns.type.append(self._types.setdefault(entity_type, len(self._types)))
        columns.score.append(score)

    def abstain(self, source: str) -> None:
        """Record that the source abstains on the current sentence."""
        self.source_spans(source).abstained_sentences.append(len(self) - 1)

    def build(
        self,
        *,
        types: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        metadata: Metadata = Metadata(),  # noqa: B008
        probabilities: NDArray[np.float32] | None = None,
    ) -> Dataset | Predictions:
        """Return the dataset, or predictions if predicted spans were added.

        `types` and `sources` fix the order; `metadata` holds the other properties stated in the file.
        """
        names = self._source_names(sources)
        tags = build_tag_set(types or self._options.types, self._types, self._options.default_types)
        data = self._dataset_without_votes(tags).with_coarse(metadata.coarse)
        locations = self._locations.build()
        aligner = SpanAligner(
            data,
            self._options.on_overlap,
            self._options.on_misaligned,
            self._issues,
            locations.__getitem__,
            self._in_tokens,
        )
        votes = np.empty((len(data.tokens), len(names)), np.int16)
        for column, name in enumerate(names):
            votes[:, column] = self._labels(name, aligner)[0]
        data = data.with_sources(names, votes, metadata.unmarked_by_source(names, self._options))
        if GOLD in self._span_columns:
            data = data.with_gold(self._labels(GOLD, aligner)[0])
        if PREDICTIONS not in self._span_columns and (metadata.model is None or len(self)):
            return metadata.restore(data)
        labels, scores = self._labels(PREDICTIONS, aligner)
        predictions = Predictions(
            data=data,
            labels=labels,
            probabilities=probabilities,
            **metadata.prediction_fields(),
        )
        default_scores = predictions.spans.score
        scores_are_default = default_scores is not None and np.array_equal(scores, default_scores)
        if not scores_are_default and len(scores) and not np.isnan(scores).any():
            predictions = replace(predictions, span_scores=scores)
        return metadata.restore(predictions)

    def _source_names(self, sources: Sequence[str] | None) -> list[str]:
        """Return the sources selected by the options: given ones first, then others by first appearance."""
        names = list(sources or ())
        names += [name for name in self._span_columns if name not in DISPLAY_NAMES and name not in names]
        if isinstance(self._options.sources, str):
            return names
        for name in self._options.sources:
            if name not in names:
                raise UnknownNameError(unknown_name_message("source", name, names))
        return list(self._options.sources)

    def _dataset_without_votes(self, tags: TagSet) -> Dataset:
        offsets = lengths_to_offsets(np.frombuffer(self._lengths, np.int64))
        text = None
        if self._has_text:
            token_offsets = np.concatenate([np.zeros((0, 2), np.int32), *self._token_offsets])
            text = Text(self._texts.build(), token_offsets, np.array(self._doc_offsets, np.int64))
        return Dataset(
            tags=tags,
            tokens=self._tokens.build(),
            offsets=offsets,
            sources=(),
            votes=np.zeros((int(offsets[-1]), 0), np.int16),
            unmarked=(),
            text=text,
            doc_ids=self._doc_ids.build() if self._has_doc_ids else None,
        )

    def _labels(self, name: str, aligner: SpanAligner) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
        """Return the labels of a source and the scores of the spans that were kept.  -> (N,), (S,)"""
        columns, data = self.source_spans(name), aligner.data
        display_name = DISPLAY_NAMES.get(name, name)
        type_indices = np.zeros(len(self._types), np.int16)
        for entity_type, number in self._types.items():
            if entity_type in data.tags.types:
                type_indices[number] = data.tags.type_index(entity_type)
            elif (unknown := np.flatnonzero(np.frombuffer(columns.type, np.int64) == number)).size:
                location = aligner.where(columns.sentence[int(unknown[0])])
                problem = unknown_name_message("entity type", entity_type, data.tags.types)
                raise DataError(f"{location}: {problem} ({display_name})")
        spans = Spans(
            np.array(columns.sentence, np.int64),
            np.array(columns.start, np.int32),
            np.array(columns.end, np.int32),
            type_indices[np.array(columns.type, np.int64)],
        )
        labels, kept = aligner.labels(spans, display_name)
        abstained = np.zeros(len(data), bool)
        abstained[np.array(columns.abstained_sentences, np.int64)] = True
        labels[np.repeat(abstained, data.lengths)] = ABSTAIN
        return labels, np.array(columns.score, np.float32)[kept]
