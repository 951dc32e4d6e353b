"""From spans as a labeling function gives them to spans that count."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np

from convener.data import ABSTAIN, Text
from convener.errors import DataError
from convener.io.align import settled as without_overlap
from convener.io.align import token_spans
from convener.io.messages import shown
from convener.io.options import Misaligned, Overlap
from convener.io.report import Report
from convener.lf.view import View
from convener.packed import Strings
from convener.spans import Spans
from convener.tags import TagSet

Span = tuple[int, int, str]
"""Start, end (exclusive) and entity type."""
INVALID = "invalid"


def settled(
    found: Iterable[Span] | int | None,
    view: View,
    *,
    labels: tuple[str, ...],
    in_chars: bool,
    on_overlap: Overlap,
    on_misaligned: Misaligned,
) -> list[Span] | None:
    """Spans in words, in the order of the text, none overlapping; None where it abstains.

    A span that is no span of this text (not two numbers and one of the labels, outside the text,
    across sentences) is left out and noted as invalid. Characters that cut through a word and
    spans that overlap are settled as `convener.io.align` does, and noted.
    """
    given, abstains = _collected(found)
    if abstains:
        return None
    if not in_chars and _is_settled(given, view, labels):
        return list(given)
    size = len(view.text) if in_chars else len(view)
    spans = [span for item in given if (span := _checked(item, size, labels, view))]
    if not spans:
        return spans
    if in_chars:
        spans = _in_words(spans, view, labels, on_misaligned)
    # What is said twice is said.
    spans = [span for span in dict.fromkeys(spans) if _in_one_sentence(span, view)]
    ordered = sorted(spans)
    if any(after[0] < before[1] for before, after in pairwise(ordered)):
        return _apart(spans, view, labels, on_overlap)
    return ordered


def _is_settled(given: Sequence[Any], view: View, labels: tuple[str, ...]) -> bool:
    """Whether there is nothing to do, as is usual: valid spans in order, none overlapping."""
    if len(view.sentences) > 1:
        return False
    at = 0
    for span in given:
        if type(span) is not tuple or len(span) != 3:
            return False
        start, end, label = span
        if type(start) is not int or type(end) is not int or type(label) is not str:
            return False
        if not at <= start < end or label not in labels:
            return False
        at = end
    return at <= len(view)


def _collected(found: Any) -> tuple[Sequence[Any], bool]:
    """All that was found, and whether the function abstains; it may also `return` that."""
    if found is None:
        return (), False
    if isinstance(found, list | tuple):
        return found, False
    if _abstains(found):
        return (), True
    if isinstance(found, str):
        raise DataError(f"expected spans (start, end, label), got the string {shown(found)}")
    try:
        iterator = iter(found)
    except TypeError:
        raise DataError(f"expected spans (start, end, label), got {shown(found)}") from None
    given: list[Any] = []
    while True:
        try:
            given.append(next(iterator))
        except StopIteration as stop:
            return given, _abstains(stop.value)


def _abstains(value: Any) -> bool:
    return isinstance(value, int) and value == ABSTAIN


def _checked(item: Any, size: int, labels: tuple[str, ...], view: View) -> Span | None:
    """The span, or None and a note if it is none of this text."""
    try:
        start, end, label = item
        start, end = index(start), index(end)
    except (TypeError, ValueError):
        view.note(INVALID, f"expected (start, end, label), got {shown(item)}")
        return None
    if not isinstance(label, str) or label not in labels:
        view.note(INVALID, f"{start}-{end}: label {shown(label)} is not of {', '.join(labels)}")
    elif not 0 <= start < end <= size:
        view.note(INVALID, f"{start}-{end} {label} is not a range of the text's 0-{size}")
    else:
        return start, end, label
    return None


def _in_one_sentence(span: Span, view: View) -> bool:
    if len(view.sentences) < 2:
        return True
    number = bisect_right(view.sentences, (span[0], len(view))) - 1
    if span[1] <= view.sentences[number][1]:
        return True
    view.note(INVALID, f"{view.said(*span[:2])!r} {span[2]} goes beyond its sentence")
    return False


def _in_words(
    spans: list[Span], view: View, labels: tuple[str, ...], policy: Misaligned
) -> list[Span]:
    """Character spans as spans of words, in the order in which they came."""
    begins, ends = view.edges
    words: dict[int, Span] = {}
    for number, (start, end, label) in enumerate(spans):
        first, last = begins.get(start), ends.get(end)
        if first is not None and last is not None and first < last:
            words[number] = first, last, label
    if len(words) == len(spans):
        return list(words.values())
    # Only what is cut through takes the long way.
    odd = [number for number in range(len(spans)) if number not in words]
    places = np.array(view.chars, np.int32).reshape(-1, 2)
    report = Report()
    mended, stays = token_spans(
        _packed([spans[number] for number in odd], labels),
        Text(Strings.of([view.text]), places, np.zeros(1, np.int64)),
        np.array([0, len(view)]),
        policy,
        source="it",
        where=lambda _: "text",
        report=report,
    )
    _pass_on(report, view)
    words |= {odd[at]: span for at, span in zip(stays, _unpacked(mended, labels), strict=True)}
    return [words[number] for number in sorted(words)]


def _apart(spans: list[Span], view: View, labels: tuple[str, ...], policy: Overlap) -> list[Span]:
    """Those that stay of spans that overlap."""
    packed, report = _packed(spans, labels), Report()
    stays = without_overlap(
        packed, TagSet(labels), policy, source="it", where=lambda _: "text", report=report
    )
    _pass_on(report, view)
    return _unpacked(packed.take(stays), labels)


def _pass_on(report: Report, view: View) -> None:
    for case in report:
        view.note(case.kind, case.detail)


def _packed(spans: list[Span], labels: tuple[str, ...]) -> Spans:
    return Spans.of((0, start, end, labels.index(label)) for start, end, label in spans)


def _unpacked(spans: Spans, labels: tuple[str, ...]) -> list[Span]:
    return [(start, end, labels[kind]) for _, start, end, kind in spans]
