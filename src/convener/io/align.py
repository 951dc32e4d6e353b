"""From annotated spans to one label per token: overlaps settled, characters aligned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from convener.data import Dataset, Text
from convener.errors import DataError
from convener.io.options import Misaligned, Overlap, ReadOptions
from convener.io.report import Report
from convener.kernels.overlap import longest_first, rivals
from convener.packed import Strings, offsets_of
from convener.schemes import sentence_starts
from convener.spans import Spans
from convener.tags import TagSet

Where = Callable[[int], str]
"""Names the place of a sentence, for messages: "train.jsonl:12"."""


def settled(
    spans: Spans, tags: TagSet, policy: Overlap, *, source: str, where: Where, report: Report
) -> NDArray[np.int64]:
    """Positions of the spans that stay when one source's spans overlap, in the order of the text.

    "longest": longest first, then leftmost, then first given; "first": first given.
    """
    given = np.arange(len(spans))
    order = longest_first(spans.start, spans.end, given) if policy == "longest" else given
    rival = rivals(spans.sentence, spans.start, spans.end, order)
    for number in np.flatnonzero(rival >= 0).tolist():
        stays, goes = (_spoken(spans, item, tags) for item in (rival[number], number))
        place = where(int(spans.sentence[number]))
        if policy == "error":
            raise DataError(f"{place}: spans {stays} and {goes} of {source} overlap")
        report.add("overlap", place, source, f"kept {stays}, dropped {goes}")
    kept = np.flatnonzero(rival < 0)
    return kept[np.lexsort((spans.start[kept], spans.sentence[kept]))]


def _spoken(spans: Spans, number: int, tags: TagSet) -> str:
    return f"{spans.start[number]}-{spans.end[number]} {tags.types[spans.type[number]]}"


def token_spans(
    spans: Spans,
    text: Text,
    offsets: NDArray[np.int64],
    policy: Misaligned,
    *,
    source: str,
    where: Where,
    report: Report,
    lengths: NDArray[np.int64] | None = None,
) -> tuple[Spans, NDArray[np.int64]]:
    """Character spans as token spans, and which of the given ones they are.

    `spans` counts characters of the sentence's text; text and offsets are the dataset's. Who
    aligns many sources gives the texts' `lengths` in characters, to count them only once.
    """
    lengths = text.text.character_lengths() if lengths is None else lengths
    _check_range(spans, lengths, "text's {} characters", source=source, where=where)
    # One number line for all sentences: sentence m begins at base[m].
    base = offsets_of(lengths + 1)
    edges = text.chars + np.repeat(base[:-1], np.diff(offsets))[:, None]
    given_start, given_end = spans.start + base[spans.sentence], spans.end + base[spans.sentence]
    first: NDArray[np.int64] = np.searchsorted(edges[:, 1], given_start, side="right")
    last: NDArray[np.int64] = np.searchsorted(edges[:, 0], given_end, side="left")
    hit = np.flatnonzero(first < last)
    cuts_start, cuts_end = np.zeros((2, len(spans)), bool)
    cuts_start[hit] = edges[first[hit], 0] != given_start[hit]
    cuts_end[hit] = edges[last[hit] - 1, 1] != given_end[hit]
    wrong = cuts_start | cuts_end | (first >= last)
    if policy == "contract":
        first, last = first + cuts_start, last - cuts_end
    stays = (first < last) & ~(wrong & (policy == "drop"))
    for number in np.flatnonzero(wrong).tolist():
        given = f"{spans.start[number]}-{spans.end[number]}"
        place = where(int(spans.sentence[number]))
        if policy == "error":
            raise DataError(f"{place}: span {given} of {source} does not begin and end at words")
        done = f"dropped {given}"
        if stays[number]:
            now = f"{text.chars[first[number], 0]}-{text.chars[last[number] - 1, 1]}"
            done = f"{given} became {now}"
        report.add("misaligned", place, source, done)
    kept = np.flatnonzero(stays)
    begin = offsets[spans.sentence[kept]]
    start, end = (first[kept] - begin).astype(np.int32), (last[kept] - begin).astype(np.int32)
    return Spans(spans.sentence[kept], start, end, spans.type[kept]), kept


def check_inside(spans: Spans, offsets: NDArray[np.int64], *, source: str, where: Where) -> None:
    """Refuse token spans that are not inside their sentence."""
    _check_range(spans, np.diff(offsets), "sentence's {} tokens", source=source, where=where)


def _check_range(
    spans: Spans, lengths: NDArray[np.int64], size: str, *, source: str, where: Where
) -> None:
    outside = (spans.start < 0) | (spans.start >= spans.end)
    outside |= spans.end > lengths[spans.sentence]
    if outside.any():
        sentence, start, end, _ = next(iter(spans.take(outside)))
        raise DataError(
            f"{where(sentence)}: span {start}-{end} of {source} is not a range of the "
            f"{size.format(lengths[sentence])}"
        )


@dataclass(frozen=True, eq=False)
class Alignment:
    """From spans as given to labels: aligned to tokens, overlaps settled, each case noted."""

    data: Dataset
    options: ReadOptions
    report: Report
    where: Where
    in_tokens: bool = False
    """Whether spans count tokens though there is text."""

    @cached_property
    def _lengths(self) -> NDArray[np.int64] | None:
        return None if self.data.text is None else self.data.text.text.character_lengths()

    def labels(self, spans: Spans, source: str) -> tuple[NDArray[np.int16], NDArray[np.int64]]:
        """Labels of one source's spans, and which of them stay.  -> (N,), positions"""
        data, where, report = self.data, self.where, self.report
        kept = np.arange(len(spans))
        if data.text is None or self.in_tokens:
            check_inside(spans, data.offsets, source=source, where=where)
        else:
            spans, kept = token_spans(
                spans,
                data.text,
                data.offsets,
                self.options.on_misaligned,
                source=source,
                where=where,
                report=report,
                lengths=self._lengths,
            )
        stays = settled(
            spans, data.tags, self.options.on_overlap, source=source, where=where, report=report
        )
        return data.tags.labels(spans.take(stays), data.offsets), kept[stays]


def disordered(text: Text, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which tokens are empty, overlap the one before, or lie outside their text.  -> (N,)"""
    chars = text.chars
    follows = ~sentence_starts(len(chars), offsets)
    before = np.zeros(len(chars), np.int32)
    before[1:][follows[1:]] = chars[:-1, 1][follows[1:]]
    limit = np.repeat(text.text.character_lengths(), np.diff(offsets))
    wrong: NDArray[np.bool_] = (
        (chars[:, 0] < before) | (chars[:, 1] <= chars[:, 0]) | (chars[:, 1] > limit)
    )
    return wrong


def named_documents(ids: Strings) -> Strings | None:
    """Document ids, or None where they only count the sentences: "0", "1", "2", ..."""
    return None if ids == Strings.of(map(str, range(len(ids)))) else ids
