"""Searchable index of all sentences with the spans of models, gold, majority vote and sources.

All columns are packed, so that an index of a million sentences can stay on disk and be read page by page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset
from convener.data.predictions import Predictions
from convener.data.ragged import StringArray, lengths_to_offsets
from convener.data.spans import Spans
from convener.errors import DataError, UnknownNameError, unknown_name_message
from convener.evaluation.metrics import labels_to_spans, span_keys
from convener.evaluation.source_analysis import vote_counts_and_conflicts
from convener.report.source_quality import spans_without_votes

TrackKind = Literal["model", "gold", "vote", "source"]
SentenceFilter = Literal[
    "source_conflict",
    "low_confidence",
    "error",
    "no_source",
    "differs_from_majority",
    "no_votes",
    "models_differ",
]
FILTERS: tuple[SentenceFilter, ...] = get_args(SentenceFilter)
Order = Literal["text", "entropy", "conflict"]
ORDERS: tuple[Order, ...] = get_args(Order)
LOW_CONFIDENCE = 0.7
"""A sentence with a label below this probability matches the filter `low_confidence`."""
DIGITS = 3
"""Decimals of entropies and scores; sorting uses the rounded values that are shown."""
BLOCK_SIZE = 1 << 20
"""Tokens or sentences processed at a time."""
_METADATA_FILE = "sentences.json"
_COLUMNS = ("span_offsets", "track", "start", "end", "type", "score", "entropy", "conflict", "filters")
"""Columns of an index that are stored in a file each."""
_TEXT_COLUMNS = ("tokens", "lowercase_text")


class Track(NamedTuple):
    """A model, gold, majority vote or a source: anything that marks spans."""

    kind: TrackKind
    name: str


class Query(NamedTuple):
    """Which sentences to show, in which order; empty fields match everything."""

    text: str = ""
    filter: str = ""
    """One of `FILTERS`."""
    type: str = ""
    source: str = ""
    order: str = "text"

    def check(self, sentence_index: SentenceIndex) -> None:
        """Raise an error for unknown names."""
        sources = [track.name for track in sentence_index.tracks if track.kind == "source"]
        for field, value, known in (
            ("filter", self.filter, FILTERS),
            ("type", self.type, sentence_index.types),
            ("source", self.source, sources),
        ):
            if value and value not in known:
                raise UnknownNameError(unknown_name_message(field, value, known))
        if self.order not in ORDERS:
            raise UnknownNameError(unknown_name_message("order", self.order, ORDERS))


@dataclass(frozen=True, eq=False, kw_only=True)
class SentenceIndex:
    """Spans of all tracks by sentence, and values of each sentence.

    types, tracks                         names; spans refer to them by number
    tokens, offsets                       tokens and sentence boundaries, as in `Dataset`
    span_offsets (M+1,)                   where the spans of each sentence start
    track, start, end, type, score (S,)   spans ordered by sentence and track; score is NaN if there is none
    entropy (M,)                          in nats, summed over tokens
    conflict (M,)                         number of tokens on which sources conflict
    filters (M,)                          one bit for each of `FILTERS` that the sentence matches
    """

    types: tuple[str, ...]
    tracks: tuple[Track, ...]
    tokens: StringArray
    offsets: NDArray[np.int64]
    span_offsets: NDArray[np.int64]
    track: NDArray[np.int16]
    start: NDArray[np.int32]
    end: NDArray[np.int32]
    type: NDArray[np.int16]
    score: NDArray[np.float32]
    entropy: NDArray[np.float32]
    conflict: NDArray[np.int32]
    filters: NDArray[np.uint8]
    lowercase_text: StringArray | None = None
    """Lower-case sentences for the text search; computed on first use if None."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def record(self, number: int) -> dict[str, Any]:
        """One sentence as JSON values.

        n: number, t: tokens, s: spans as [track, start, end, type, score if any], e: entropy, c: conflict,
        f: bits of the matching filters.
        """
        if not 0 <= number < len(self):
            raise UnknownNameError(f"no sentence {number}; the index has {len(self)}")
        rows = slice(int(self.span_offsets[number]), int(self.span_offsets[number + 1]))
        columns = (self.track, self.start, self.end, self.type, self.score)
        spans = zip(*(column[rows].tolist() for column in columns), strict=True)
        tokens = self.tokens[int(self.offsets[number]) : int(self.offsets[number + 1])]
        return {
            "n": number,
            "t": tokens.to_list(),
            "s": [
                [track, start, end, type_id, *([] if score != score else [round(score, DIGITS)])]
                for track, start, end, type_id, score in spans
            ],
            "e": round(float(self.entropy[number]), DIGITS),
            "c": int(self.conflict[number]),
            "f": int(self.filters[number]),
        }

    def find(self, query: Query) -> NDArray[np.int64]:
        """Numbers of the matching sentences in the requested order."""
        query.check(self)
        mask = np.ones(len(self), bool)
        if query.filter:
            mask &= self._matches_filter(query.filter)
        if query.type or query.source:
            mask &= self._with_spans(query.type, query.source)
        if query.text:
            mask &= self._containing(query.text)
        matches = np.flatnonzero(mask)
        if query.order == "text":
            return matches
        sort_key = self.entropy if query.order == "entropy" else self.conflict
        return matches[np.argsort(-sort_key[matches], kind="stable")]

    def counts(self) -> dict[SentenceFilter, int]:
        """Number of sentences that match each filter."""
        return {name: int(np.count_nonzero(self._matches_filter(name))) for name in FILTERS}

    def _matches_filter(self, filter_name: str) -> NDArray[np.bool_]:
        mask: NDArray[np.bool_] = (self.filters >> FILTERS.index(filter_name)) & 1 > 0
        return mask

    def _with_spans(self, type_name: str, source: str) -> NDArray[np.bool_]:
        """Sentences with a span of the type (any track), of the source (any type), or of both.  -> (M,)"""
        span_mask = np.ones(len(self.track), bool)
        if type_name:
            span_mask &= self.type == self.types.index(type_name)
        if source:
            span_mask &= self.track == self.tracks.index(Track("source", source))
        mask = np.zeros(len(self), bool)
        mask[np.searchsorted(self.span_offsets, np.flatnonzero(span_mask), side="right") - 1] = True
        return mask

    def _containing(self, text: str) -> NDArray[np.bool_]:
        """Sentences that contain the text, ignoring case.  -> (M,)"""
        search_text = self.search_text
        needle = text.replace("\n", " ").lower().encode("utf-8", "surrogatepass")
        # The rest of the sentence is skipped: one match per sentence is enough.
        matches = re.finditer(re.escape(needle) + rb"[^\n]*", search_text.data.tobytes())
        starts = np.fromiter((match.start() for match in matches), np.int64)
        mask = np.zeros(len(self), bool)
        mask[np.searchsorted(search_text.offsets, starts, side="right") - 1] = True
        return mask

    @cached_property
    def search_text(self) -> StringArray:
        """Lower-case sentences, one line each."""
        return lowercase_sentences(self.tokens, self.offsets) if self.lowercase_text is None else self.lowercase_text

    def save(self, folder: Path) -> None:
        """Write the index into an existing folder."""
        metadata = {"types": self.types, "tracks": self.tracks}
        (folder / _METADATA_FILE).write_text(json.dumps(metadata), encoding="utf-8")
        np.save(folder / "offsets.npy", self.offsets)
        for name in _COLUMNS:
            np.save(folder / f"{name}.npy", getattr(self, name))
        for name, strings in zip(_TEXT_COLUMNS, (self.tokens.compact(), self.search_text), strict=True):
            np.save(folder / f"{name}.data.npy", strings.data)
            np.save(folder / f"{name}.offsets.npy", strings.offsets)

    @classmethod
    def open(cls, folder: Path) -> SentenceIndex:
        """An index written by `save`, memory-mapped."""
        try:
            metadata = json.loads((folder / _METADATA_FILE).read_text(encoding="utf-8"))
            strings: dict[str, Any] = {
                name: StringArray(_load_mmap(folder, f"{name}.data"), _load_mmap(folder, f"{name}.offsets"))
                for name in _TEXT_COLUMNS
            }
            columns: dict[str, Any] = {name: _load_mmap(folder, name) for name in ("offsets", *_COLUMNS)}
            tracks = tuple(Track(*track) for track in metadata["tracks"])
            sentence_index = cls(types=tuple(metadata["types"]), tracks=tracks, **strings, **columns)
            sentence_index._check()
        except (OSError, EOFError, ValueError, LookupError, TypeError) as error:
            raise DataError(f"{folder}: damaged: {error}") from error
        return sentence_index

    def _check(self) -> None:
        """Raise an error if the sizes of the columns do not match."""
        lengths = [len(getattr(self, name)) for name in ("tokens", "search_text", *_COLUMNS)]
        sentences, spans = len(self), int(self.span_offsets[-1])
        expected = [int(self.offsets[-1]), sentences, sentences + 1, *[spans] * 5, *[sentences] * 3]
        if lengths != expected:
            raise ValueError(f"expected columns of lengths {expected}, got {lengths}")


def build_sentence_index(
    data: Dataset, predictions: Sequence[Predictions], vote_labels: NDArray[np.int16] | None = None
) -> SentenceIndex:
    """Index of a dataset with the predictions of one or several models and the labels of majority vote.

    Entropy and most filters refer to the first model.
    """
    source_spans = [labels_to_spans(column, data.offsets, data.tags) for column in data.votes.T]
    predicted_spans = [item.spans for item in predictions]
    gold = None if data.gold is None else data.tags.spans(data.gold, data.offsets)
    vote_spans = None if vote_labels is None else data.tags.spans(vote_labels, data.offsets)
    tracks = [(Track("model", item.model), item.spans) for item in predictions]
    tracks += [] if gold is None else [(Track("gold", "gold"), gold)]
    tracks += [] if vote_spans is None else [(Track("vote", "majority vote"), vote_spans)]
    tracks += [(Track("source", name), spans) for name, spans in zip(data.sources, source_spans, strict=True)]
    _, conflicted = vote_counts_and_conflicts(data)
    conflict = _sum_by_sentence(conflicted, data.offsets).astype(np.int32)
    entropy, low_confidence = _entropy_and_low_confidence(predictions[0])
    flags: dict[SentenceFilter, NDArray[np.bool_] | None] = {
        "source_conflict": (conflict > 0) | _partly_overlapping_sentences(source_spans, data),
        "low_confidence": low_confidence > 0,
        "error": None if gold is None else _differing_sentences([predicted_spans[0], gold], len(data)),
        "no_source": _sentence_mask(
            predicted_spans[0].sentence[spans_without_votes(predicted_spans[0], data)], len(data)
        ),
        "differs_from_majority": None
        if vote_spans is None
        else _differing_sentences([predicted_spans[0], vote_spans], len(data)),
        "no_votes": _sum_by_sentence(np.logical_or.reduce(data.votes > 0, axis=1), data.offsets) == 0,
        "models_differ": _differing_sentences(predicted_spans, len(data)),
    }
    filters = np.zeros(len(data), np.uint8)
    for bit, name in enumerate(FILTERS):
        if (mask := flags[name]) is not None:
            filters |= mask.astype(np.uint8) << np.uint8(bit)
    return SentenceIndex(
        types=data.tags.types,
        tracks=tuple(track for track, _ in tracks),
        tokens=data.tokens,
        offsets=data.offsets,
        entropy=np.round(entropy, DIGITS).astype(np.float32),
        conflict=conflict,
        filters=filters,
        **_concat_tracks([spans for _, spans in tracks], len(data)),
    )


def lowercase_sentences(tokens: StringArray, offsets: NDArray[np.int64]) -> StringArray:
    r"""Lower-case sentences, tokens separated by spaces, one line each.

    >>> list(lowercase_sentences(StringArray.from_list(["Ada", "WROTE", "Ö"]), np.array([0, 2, 3])))
    ['ada wrote\n', 'ö\n']
    """
    lines = []
    for first in range(0, len(offsets) - 1, BLOCK_SIZE):
        bounds = offsets[first : first + BLOCK_SIZE + 1]
        block = tokens[int(bounds[0]) : int(bounds[-1])].to_list()
        for a, b in pairwise((bounds - bounds[0]).tolist()):
            line = " ".join(block[a:b]).replace("\n", " ").lower() + "\n"
            lines.append(line.encode("utf-8", "surrogatepass"))
    data = np.frombuffer(b"".join(lines), np.uint8)
    return StringArray(data, lengths_to_offsets(len(line) for line in lines))


def _load_mmap(folder: Path, name: str) -> NDArray[Any]:
    array: NDArray[Any] = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    return array


def _concat_tracks(spans_by_track: Sequence[Spans], num_sentences: int) -> dict[str, Any]:
    """Spans of all tracks as columns, ordered by sentence and track."""
    track = np.repeat(np.arange(len(spans_by_track)), [len(spans) for spans in spans_by_track])
    sentence = np.concatenate([spans.sentence for spans in spans_by_track])
    order = np.lexsort((track, sentence))
    scores = [
        np.full(len(spans), np.nan, np.float32) if spans.score is None else spans.score for spans in spans_by_track
    ]
    columns = {
        name: np.concatenate([getattr(spans, name) for spans in spans_by_track])[order]
        for name in ("start", "end", "type")
    }
    return {
        **columns,
        "track": track[order].astype(np.int16),
        "score": np.concatenate(scores)[order].astype(np.float32),
        "span_offsets": np.searchsorted(sentence[order], np.arange(num_sentences + 1)).astype(np.int64),
    }


def _entropy_and_low_confidence(
    predictions: Predictions,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Entropy and number of low-confidence labels of each sentence.  -> (M,), (M,)"""
    offsets = predictions.data.offsets
    if predictions.probabilities is None:
        return np.zeros((2, len(offsets) - 1))[0], np.zeros(len(offsets) - 1)
    entropy, low_confidence = np.zeros((2, len(predictions.labels)))
    for first in range(0, len(entropy), BLOCK_SIZE):
        block = slice(first, first + BLOCK_SIZE)
        probabilities = np.asarray(predictions.probabilities[block], np.float64)
        log_probs = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
        entropy[block] = -(probabilities * log_probs).sum(axis=1)
        low_confidence[block] = probabilities[np.arange(len(probabilities)), predictions.labels[block]] < LOW_CONFIDENCE
    return _sum_by_sentence(entropy, offsets), _sum_by_sentence(low_confidence, offsets)


def _sum_by_sentence(values: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Sums over the tokens of each sentence.  (N,) -> (M,)"""
    total = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    sums: NDArray[np.float64] = np.maximum(total[offsets[1:]] - total[offsets[:-1]], 0.0)
    return sums


def _differing_sentences(span_sets: Sequence[Spans], num_sentences: int) -> NDArray[np.bool_]:
    """Sentences in which the span sets differ from the first.  -> (M,)"""
    mask = np.zeros(num_sentences, bool)
    keys = span_keys(*span_sets)
    for spans, key in zip(span_sets[1:], keys[1:], strict=True):
        mask[span_sets[0].sentence[~np.isin(keys[0], key)]] = True
        mask[spans.sentence[~np.isin(key, keys[0])]] = True
    return mask


def _sentence_mask(sentence_ids: NDArray[np.int64], num_sentences: int) -> NDArray[np.bool_]:
    """Mask of these sentences.  -> (M,)"""
    mask = np.zeros(num_sentences, bool)
    mask[sentence_ids] = True
    return mask


def _partly_overlapping_sentences(source_spans: Sequence[Spans], data: Dataset) -> NDArray[np.bool_]:
    """Sentences in which spans of two sources overlap with different boundaries.  -> (M,)"""
    if not source_spans:
        return np.zeros(len(data), bool)
    sentence, start, end = (
        np.concatenate([getattr(spans, name) for spans in source_spans]).astype(np.int64)
        for name in ("sentence", "start", "end")
    )
    rows = np.unique(np.stack([sentence, start, end], axis=1), axis=0)
    sentence_starts = data.offsets[rows[:, 0]]
    first, last = sentence_starts + rows[:, 1], np.maximum.accumulate(sentence_starts + rows[:, 2])
    return _sentence_mask(rows[1:, 0][first[1:] < last[:-1]], len(data))
