"""Alignment of character spans to tokens, and resolution of overlaps."""

from __future__ import annotations

import numpy as np
import pytest

from convener.data.alignment import align_to_tokens, check_range, drop_default_doc_ids, select_non_overlapping
from convener.data.dataset import Text
from convener.data.issues import Issues
from convener.data.ragged import StringArray
from convener.data.spans import Spans
from convener.data.tags import TagSet
from convener.errors import DataError

TAGS = TagSet(("PER", "LOC"))
OFFSETS = np.array([0, 2, 2, 4])
TEXT = Text(
    StringArray.from_list(["Ada 👩‍🔬x", "", "new york"]),
    np.array([[0, 3], [4, 8], [0, 3], [4, 8]], np.int32),
    np.zeros(3, np.int64),
)


def where(sentence: int) -> str:
    return f"f:{sentence}"


def aligned(policy: str, *rows: tuple[int, int, int, int]) -> tuple[list[tuple[int, ...]], Issues]:
    report = Issues()
    spans, _ = align_to_tokens(
        Spans.from_rows(rows),
        TEXT,
        OFFSETS,
        policy,
        source="a",
        where=where,
        issues=report,  # type: ignore[arg-type]
    )
    return [tuple(span) for span in spans], report


@pytest.mark.parametrize("policy", ["expand", "contract", "drop", "error"])
def test_aligned_spans_are_kept(policy: str) -> None:
    found, report = aligned(policy, (0, 0, 3, 0), (0, 4, 8, 1), (2, 0, 8, 1))
    assert found == [(0, 0, 1, 0), (0, 1, 2, 1), (2, 0, 2, 1)]
    assert len(report) == 0


def test_misaligned_spans_follow_the_policy(tmp_path: object) -> None:
    cut = (2, 1, 8, 1)
    assert aligned("expand", cut)[0] == [(2, 0, 2, 1)]
    assert aligned("contract", cut)[0] == [(2, 1, 2, 1)]
    assert aligned("drop", cut)[0] == []
    assert str(next(iter(aligned("expand", cut)[1]))) == "f:2: misaligned (a): 1-8 became 0-8"
    assert str(next(iter(aligned("drop", cut)[1]))) == "f:2: misaligned (a): dropped 1-8"
    with pytest.raises(DataError, match=r"^f:2: span 1-8 \(source a\) is not aligned to token boundaries$"):
        aligned("error", cut)


def test_spans_without_tokens_are_dropped_and_recorded() -> None:
    assert aligned("expand", (2, 3, 4, 0))[0] == []
    found, report = aligned("contract", (2, 1, 2, 0))
    assert found == []
    assert report.counts() == {"misaligned": 1}


@pytest.mark.parametrize("span", [(-1, 2), (2, 2), (0, 9), (1, 0)])
def test_spans_outside_the_text_are_rejected(span: tuple[int, int]) -> None:
    with pytest.raises(DataError, match=r"^f:2: span .* is not a range of the text's 8 characters"):
        aligned("expand", (2, *span, 0))


def test_token_spans_outside_their_sentence_are_rejected() -> None:
    check_range(Spans.from_rows([(0, 0, 2, 0)]), np.diff(OFFSETS), "sentence's {} tokens", source="a", where=where)
    message = "^f:1: span 0-1 of a is not a range of the sentence's 0 tokens$"
    with pytest.raises(DataError, match=message):
        check_range(Spans.from_rows([(1, 0, 1, 0)]), np.diff(OFFSETS), "sentence's {} tokens", source="a", where=where)


def kept(policy: str) -> tuple[list[int], Issues]:
    report = Issues()
    spans = Spans.from_rows([(0, 1, 2, 0), (0, 0, 2, 1), (2, 1, 2, 0), (2, 0, 1, 0)])
    stays = select_non_overlapping(spans, TAGS, policy, source="a", where=where, issues=report)  # type: ignore[arg-type]
    return stays.tolist(), report


def test_overlaps_are_resolved_and_recorded() -> None:
    longest, report = kept("longest")
    assert longest == [1, 3, 2]
    assert report.summary() == "1 overlap; first: f:0: overlap (a): kept 0-2 LOC, dropped 1-2 PER"
    assert kept("first")[0] == [0, 3, 2]
    with pytest.raises(DataError, match=r"^f:0: spans 1-2 PER and 0-2 LOC \(source a\) overlap$"):
        kept("error")


def test_running_numbers_are_no_document_ids() -> None:
    assert drop_default_doc_ids(StringArray.from_list(["0", "1"])) is None
    assert drop_default_doc_ids(StringArray.from_list(["0", "2"])) == StringArray.from_list(["0", "2"])
