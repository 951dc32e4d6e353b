"""Alignment of annotated spans to tokens, and resolution of overlaps, with named policies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from convener.data.dataset import Dataset, Text
from convener.data.issues import Issues
from convener.data.ragged import StringArray, concat_ranges, lengths_to_offsets
from convener.data.schemes import is_sentence_start
from convener.data.spans import Spans
from convener.data.tags import TagSet
from convener.errors import DataError

OverlapPolicy = Literal["longest", "first", "error"]
MisalignmentPolicy = Literal["expand", "contract", "drop", "error"]
Locator = Callable[[int], str]
"""Location of a sentence, for messages: "train.jsonl:12"."""
Ints = NDArray[np.int64] | NDArray[np.int32] | NDArray[np.int16]


def longest_first(start: Ints, end: Ints, tie_break: Ints) -> NDArray[np.int64]:
    """Order of preference: longest, then leftmost, then by `tie_break`.  -> (S,)"""
    return np.lexsort((tie_break, start, start.astype(np.int64) - end))


def resolve_overlaps(sentence: Ints, start: Ints, end: Ints, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each span the index of the kept span it loses to, or -1 if it is kept.

    Spans are considered in the given order; a span is dropped if it overlaps a kept span of the same sentence.
    sentence, start, end, order (S,) -> (S,)
    """
    result = np.full(len(order), -1, np.int64)
    by_position = np.lexsort((start, sentence))
    sentences, starts, ends = sentence[by_position], start[by_position], end[by_position]
    # Sorted by start, any overlap in a sentence implies an overlap of neighbours.
    overlaps = (sentences[1:] == sentences[:-1]) & (starts[1:] < ends[:-1])
    if not overlaps.any():
        return result
    contested = np.isin(sentence, sentences[1:][overlaps])
    # In order of preference, so that the index of a candidate is its rank.
    candidates = order[contested[order]]
    _, group = np.unique(sentence[candidates], return_inverse=True)
    first, last = start[candidates].astype(np.int64), end[candidates].astype(np.int64)
    group_length = np.zeros(int(group.max()) + 1, np.int64)
    np.maximum.at(group_length, group, last)
    base = lengths_to_offsets(group_length)[group]
    winner = _resolve_greedily(base + first, last - first, int(group_length.sum()))
    result[candidates] = np.where(winner >= 0, candidates[winner], -1)
    return result


def _resolve_greedily(start: NDArray[np.int64], length: NDArray[np.int64], num_cells: int) -> NDArray[np.int64]:
    """`resolve_overlaps` for spans on one line of `num_cells` cells, in order of preference.

    Each round keeps every span that no better remaining span overlaps, and drops the spans it overlaps: the same result
    as considering them one by one, in a few passes.
    """
    no_owner = len(start)
    owner = np.full(num_cells, no_owner, np.int64)
    remaining = np.arange(no_owner)
    while len(remaining):
        cells = concat_ranges(start[remaining], length[remaining])
        bounds = lengths_to_offsets(length[remaining])[:-1]
        best = np.full(num_cells, no_owner, np.int64)
        np.minimum.at(best, cells, np.repeat(remaining, length[remaining]))
        taken = np.minimum.reduceat(best[cells], bounds) == remaining
        owner[cells[np.repeat(taken, length[remaining])]] = np.repeat(remaining[taken], length[remaining][taken])
        free = np.minimum.reduceat(owner[cells], bounds) == no_owner
        remaining = remaining[free]
    cells = concat_ranges(start, length)
    span_of_cell = np.repeat(np.arange(no_owner), length)
    better = np.flatnonzero(owner[cells] < span_of_cell)
    result = np.full(no_owner, -1, np.int64)
    # Assigned in reverse, so that the first such cell of a span decides.
    result[span_of_cell[better[::-1]]] = owner[cells[better[::-1]]]
    return result


def select_non_overlapping(
    spans: Spans,
    tags: TagSet,
    policy: OverlapPolicy,
    *,
    source: str,
    where: Locator,
    issues: Issues,
) -> NDArray[np.int64]:
    """Indices of the spans that are kept when spans of one source overlap, in text order.

    Policy "longest" prefers the longest span, then the leftmost, then the first given; "first" the first given; "error"
    raises. Every dropped span is added to `issues`.
    """
    input_order = np.arange(len(spans))
    order = longest_first(spans.start, spans.end, input_order) if policy == "longest" else input_order
    winner = resolve_overlaps(spans.sentence, spans.start, spans.end, order)
    for index in np.flatnonzero(winner >= 0).tolist():
        kept_span, dropped_span = (_describe_span(spans, item, tags) for item in (winner[index], index))
        location = where(int(spans.sentence[index]))
        if policy == "error":
            raise DataError(f"{location}: spans {kept_span} and {dropped_span} (source {source}) overlap")
        issues.add("overlap", location, source, f"kept {kept_span}, dropped {dropped_span}")
    kept = np.flatnonzero(winner < 0)
    return kept[np.lexsort((spans.start[kept], spans.sentence[kept]))]


def _describe_span(spans: Spans, index: int, tags: TagSet) -> str:
    return f"{spans.start[index]}-{spans.end[index]} {tags.types[spans.type[index]]}"


def align_to_tokens(
    spans: Spans,
    text: Text,
    offsets: NDArray[np.int64],
    policy: MisalignmentPolicy,
    *,
    source: str,
    where: Locator,
    issues: Issues,
    lengths: NDArray[np.int64] | None = None,
) -> tuple[Spans, NDArray[np.int64]]:
    """Convert character spans to token spans; also return the index of each in the given spans.

    `spans` count characters of the text of their sentence; text and offsets are those of the dataset. `lengths` (M,),
    the numbers of characters of the texts, may be passed to avoid computing them for every source.
    """
    lengths = text.sentences.character_lengths() if lengths is None else lengths
    check_range(spans, lengths, "text's {} characters", source=source, where=where)
    # One axis for all sentences: sentence m begins at base[m].
    base = lengths_to_offsets(lengths + 1)
    token_bounds = text.token_offsets + np.repeat(base[:-1], np.diff(offsets))[:, None]
    span_start, span_end = spans.start + base[spans.sentence], spans.end + base[spans.sentence]
    first: NDArray[np.int64] = np.searchsorted(token_bounds[:, 1], span_start, side="right")
    last: NDArray[np.int64] = np.searchsorted(token_bounds[:, 0], span_end, side="left")
    touching = np.flatnonzero(first < last)
    cuts_start, cuts_end = np.zeros((2, len(spans)), bool)
    cuts_start[touching] = token_bounds[first[touching], 0] != span_start[touching]
    cuts_end[touching] = token_bounds[last[touching] - 1, 1] != span_end[touching]
    misaligned = cuts_start | cuts_end | (first >= last)
    if policy == "contract":
        first, last = first + cuts_start, last - cuts_end
    keep = (first < last) & ~(misaligned & (policy == "drop"))
    for index in np.flatnonzero(misaligned).tolist():
        original = f"{spans.start[index]}-{spans.end[index]}"
        location = where(int(spans.sentence[index]))
        if policy == "error":
            raise DataError(f"{location}: span {original} (source {source}) is not aligned to token boundaries")
        action = f"dropped {original}"
        if keep[index]:
            adjusted = f"{text.token_offsets[first[index], 0]}-{text.token_offsets[last[index] - 1, 1]}"
            action = f"{original} became {adjusted}"
        issues.add("misaligned", location, source, action)
    kept = np.flatnonzero(keep)
    sentence_start = offsets[spans.sentence[kept]]
    start, end = ((bound[kept] - sentence_start).astype(np.int32) for bound in (first, last))
    return Spans(spans.sentence[kept], start, end, spans.type[kept]), kept


def check_range(spans: Spans, lengths: NDArray[np.int64], limit_format: str, *, source: str, where: Locator) -> None:
    """Check that spans lie inside texts or sentences of these lengths (M,)."""
    outside = (spans.start < 0) | (spans.start >= spans.end)
    outside |= spans.end > lengths[spans.sentence]
    if outside.any():
        sentence, start, end, _ = next(iter(spans.take(outside)))
        raise DataError(
            f"{where(sentence)}: span {start}-{end} of {source} is not a range of the "
            f"{limit_format.format(lengths[sentence])}"
        )


@dataclass(frozen=True, eq=False)
class SpanAligner:
    """Converts spans of sources to labels: aligns them to tokens, resolves overlaps, and records issues."""

    data: Dataset
    on_overlap: OverlapPolicy
    on_misaligned: MisalignmentPolicy
    issues: Issues
    where: Locator
    in_tokens: bool = False
    """Whether spans count tokens even if the data has text."""

    @cached_property
    def _text_lengths(self) -> NDArray[np.int64] | None:
        return None if self.data.text is None else self.data.text.sentences.character_lengths()

    def labels(self, spans: Spans, source: str) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
        """Labels (N,) of the spans of one source, and the indices of the spans that are kept."""
        data, where, issues = self.data, self.where, self.issues
        kept = np.arange(len(spans))
        if data.text is None or self.in_tokens:
            check_range(spans, data.lengths, "sentence's {} tokens", source=source, where=where)
        else:
            spans, kept = align_to_tokens(
                spans,
                data.text,
                data.offsets,
                self.on_misaligned,
                source=source,
                where=where,
                issues=issues,
                lengths=self._text_lengths,
            )
        selected = select_non_overlapping(spans, data.tags, self.on_overlap, source=source, where=where, issues=issues)
        return data.tags.labels(spans.take(selected), data.offsets), kept[selected]


def misordered_tokens(text: Text, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which tokens are empty, overlap the previous token, or lie outside their text.  -> (N,)"""
    token_offsets = text.token_offsets
    continues = ~is_sentence_start(len(token_offsets), offsets)
    previous_end = np.zeros(len(token_offsets), np.int32)
    previous_end[1:][continues[1:]] = token_offsets[:-1, 1][continues[1:]]
    text_lengths = np.repeat(text.sentences.character_lengths(), np.diff(offsets))
    misordered: NDArray[np.bool_] = (
        (token_offsets[:, 0] < previous_end)
        | (token_offsets[:, 1] <= token_offsets[:, 0])
        | (token_offsets[:, 1] > text_lengths)
    )
    return misordered


def drop_default_doc_ids(ids: StringArray) -> StringArray | None:
    """Document ids, or None if they only number the sentences: "0", "1", "2", ..."""
    return None if ids == StringArray.from_list(map(str, range(len(ids)))) else ids
