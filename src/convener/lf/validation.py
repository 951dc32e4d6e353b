"""Validation of the spans that a labeling function returns."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import index
from typing import Any

import numpy as np

from convener.data.alignment import MisalignmentPolicy, OverlapPolicy, align_to_tokens, select_non_overlapping
from convener.data.dataset import Text
from convener.data.issues import Issues, short_repr
from convener.data.ragged import StringArray
from convener.data.spans import Spans
from convener.data.tags import ABSTAIN, TagSet
from convener.errors import DataError
from convener.lf.doc import Doc

Span = tuple[int, int, str]
"""Start, end (exclusive) and label."""
INVALID = "invalid"
"""Kind of the issues of spans that were dropped as invalid."""


def validate_spans(
    output: Iterable[Span] | int | None,
    doc: Doc,
    *,
    labels: tuple[str, ...],
    in_chars: bool,
    on_overlap: OverlapPolicy,
    on_misaligned: MisalignmentPolicy,
) -> list[Span] | None:
    """Return non-overlapping spans in tokens, in text order; None if the function abstains.

    Invalid spans (not two integers and a known label, outside the text, across sentences) are
    dropped. Spans that are not aligned to tokens and spans that overlap are resolved by policy, as
    in `convener.data.alignment`. Each case is reported as an issue of the document.
    """
    items, abstains = _collect(output)
    if abstains:
        return None
    if not in_chars and _is_valid(items, doc, labels):
        return list(items)
    size = len(doc.text) if in_chars else len(doc)
    spans = [span for item in items if (span := _check_span(item, size, labels, doc))]
    if not spans:
        return spans
    if in_chars:
        spans = _to_token_spans(spans, doc, labels, on_misaligned)
    # Duplicates are dropped without an issue.
    spans = [span for span in dict.fromkeys(spans) if _in_one_sentence(span, doc)]
    ordered = sorted(spans)
    if any(right[0] < left[1] for left, right in pairwise(ordered)):
        return _resolve_overlaps(spans, doc, labels, on_overlap)
    return ordered


def _is_valid(items: Sequence[Any], doc: Doc, labels: tuple[str, ...]) -> bool:
    """Return whether the spans are valid, ordered and disjoint already, the common case."""
    if len(doc.sentences) > 1:
        return False
    position = 0
    for span in items:
        if type(span) is not tuple or len(span) != 3:
            return False
        start, end, label = span
        if type(start) is not int or type(end) is not int or type(label) is not str:
            return False
        if not position <= start < end or label not in labels:
            return False
        position = end
    return position <= len(doc)


def _collect(output: Any) -> tuple[Sequence[Any], bool]:
    """Return the items of the output and whether the function abstains; a generator may `return ABSTAIN`."""
    if output is None:
        return (), False
    if isinstance(output, list | tuple):
        return output, False
    if _is_abstain(output):
        return (), True
    if isinstance(output, str):
        raise DataError(f"expected spans (start, end, label), got the string {short_repr(output)}")
    try:
        iterator = iter(output)
    except TypeError:
        raise DataError(f"expected spans (start, end, label), got {short_repr(output)}") from None
    items: list[Any] = []
    while True:
        try:
            items.append(next(iterator))
        except StopIteration as stop:
            return items, _is_abstain(stop.value)


def _is_abstain(value: Any) -> bool:
    return isinstance(value, int) and value == ABSTAIN


def _check_span(item: Any, size: int, labels: tuple[str, ...], doc: Doc) -> Span | None:
    """Return the span, or None with an issue if it is invalid."""
    try:
        start, end, label = item
        start, end = index(start), index(end)
    except (TypeError, ValueError):
        doc.report_issue(INVALID, f"expected (start, end, label), got {short_repr(item)}")
        return None
    if not isinstance(label, str) or label not in labels:
        doc.report_issue(INVALID, f"{start}-{end}: unknown label {short_repr(label)}; expected {', '.join(labels)}")
    elif not 0 <= start < end <= size:
        doc.report_issue(INVALID, f"span {start}-{end} ({label}) is not a range within 0-{size}")
    else:
        return start, end, label
    return None


def _in_one_sentence(span: Span, doc: Doc) -> bool:
    if len(doc.sentences) < 2:
        return True
    number = bisect_right(doc.sentences, (span[0], len(doc))) - 1
    if span[1] <= doc.sentences[number][1]:
        return True
    doc.report_issue(INVALID, f"span {doc.span_text(*span[:2])!r} ({span[2]}) crosses a sentence boundary")
    return False


def _to_token_spans(spans: list[Span], doc: Doc, labels: tuple[str, ...], policy: MisalignmentPolicy) -> list[Span]:
    """Convert character spans to token spans, in input order."""
    token_starts, token_ends = doc.char_to_token
    aligned: dict[int, Span] = {}
    for number, (start, end, label) in enumerate(spans):
        first, last = token_starts.get(start), token_ends.get(end)
        if first is not None and last is not None and first < last:
            aligned[number] = first, last, label
    if len(aligned) == len(spans):
        return list(aligned.values())
    # Only misaligned spans need the general alignment.
    misaligned = [number for number in range(len(spans)) if number not in aligned]
    token_offsets = np.array(doc.token_offsets, np.int32).reshape(-1, 2)
    issues = Issues()
    realigned, kept = align_to_tokens(
        _to_spans([spans[number] for number in misaligned], labels),
        Text(StringArray.from_list([doc.text]), token_offsets, np.zeros(1, np.int64)),
        np.array([0, len(doc)]),
        policy,
        source="it",
        where=lambda _: "text",
        issues=issues,
    )
    _copy_issues(issues, doc)
    aligned |= {misaligned[position]: span for position, span in zip(kept, _from_spans(realigned, labels), strict=True)}
    return [aligned[number] for number in sorted(aligned)]


def _resolve_overlaps(spans: list[Span], doc: Doc, labels: tuple[str, ...], policy: OverlapPolicy) -> list[Span]:
    """Return the spans that remain after overlaps are resolved."""
    packed, issues = _to_spans(spans, labels), Issues()
    kept = select_non_overlapping(packed, TagSet(labels), policy, source="it", where=lambda _: "text", issues=issues)
    _copy_issues(issues, doc)
    return _from_spans(packed.take(kept), labels)


def _copy_issues(issues: Issues, doc: Doc) -> None:
    for issue in issues:
        doc.report_issue(issue.kind, issue.detail)


def _to_spans(spans: list[Span], labels: tuple[str, ...]) -> Spans:
    return Spans.from_rows((0, start, end, labels.index(label)) for start, end, label in spans)


def _from_spans(spans: Spans, labels: tuple[str, ...]) -> list[Span]:
    return [(start, end, labels[kind]) for _, start, end, kind in spans]
