"""Validation of spans, compared with the alignment of the readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from convener.data.alignment import MisalignmentPolicy, OverlapPolicy, SpanAligner
from convener.data.dataset import Dataset, Text
from convener.data.issues import Issues
from convener.data.ragged import StringArray
from convener.data.spans import Spans
from convener.data.tags import ABSTAIN, TagSet
from convener.errors import DataError
from convener.io.formats import ReadOptions
from convener.lf.doc import Doc
from convener.lf.validation import Span, validate_spans

LABELS = ("PER", "LOC")


def validate(found: Any, doc: Doc, **policies: Any) -> list[Span] | None:
    given = {"in_chars": False, "on_overlap": "longest", "on_misaligned": "expand"} | policies
    return validate_spans(found, doc, labels=LABELS, **given)


@st.composite
def character_spans(draw: DrawFn) -> tuple[str, list[Span]]:
    text = draw(st.text("ab 北.", min_size=1, max_size=12))
    edges = st.lists(st.integers(0, len(text)), min_size=2, max_size=2, unique=True).map(sorted)
    spans = draw(st.lists(st.tuples(edges, st.sampled_from(LABELS)), max_size=5, unique_by=str))
    return text, [(start, end, label) for (start, end), label in spans]


@given(
    character_spans(),
    st.sampled_from(["expand", "contract", "drop"]),
    st.sampled_from(["longest", "first"]),
)
def test_character_spans_are_aligned_as_by_the_readers(
    drawn: tuple[str, list[Span]], misaligned: MisalignmentPolicy, overlap: OverlapPolicy
) -> None:
    text, spans = drawn
    doc = Doc.from_input(text)
    tags = TagSet(LABELS)
    data = Dataset(
        tags=tags,
        tokens=StringArray.from_list(doc.tokens),
        offsets=np.array([0, len(doc)]),
        sources=(),
        votes=np.zeros((len(doc), 0), np.int16),
        unmarked=(),
        text=Text(
            StringArray.from_list([text]),
            np.array(doc.token_offsets, np.int32).reshape(-1, 2),
            np.zeros(1, np.int64),
        ),
    )
    report = Issues()
    options = ReadOptions(on_misaligned=misaligned, on_overlap=overlap)
    rows = Spans.from_rows((0, a, b, LABELS.index(label)) for a, b, label in spans)
    labels, _ = SpanAligner(data, options.on_overlap, options.on_misaligned, report, str).labels(rows, "it")
    found = validate(spans, doc, in_chars=True, on_misaligned=misaligned, on_overlap=overlap)
    assert found is not None
    again = Spans.from_rows((0, a, b, LABELS.index(label)) for a, b, label in found)
    assert tags.labels(again, data.offsets).tolist() == labels.tolist()
    expected_kinds = [case.kind for case in report]
    kinds = [issue.kind for issue in doc.issues]
    assert kinds.count("misaligned") == expected_kinds.count("misaligned")
    # Spans that were aligned to the same tokens do not overlap here.
    assert kinds.count("overlap") <= expected_kinds.count("overlap")


@given(
    st.lists(
        st.tuples(st.integers(-1, 6), st.integers(-1, 6), st.sampled_from([*LABELS, "X"])),
        max_size=6,
    )
)
def test_each_span_is_kept_or_reported(spans: list[Span]) -> None:
    doc = Doc(["a", "b", "c", "d", "e"])
    found = validate(spans, doc)
    assert found is not None
    valid = {span for span in spans if 0 <= span[0] < span[1] <= 5 and span[2] in LABELS}
    assert set(found) <= valid
    assert found == sorted(found)
    cells = [cell for start, end, _ in found for cell in range(start, end)]
    assert len(cells) == len(set(cells))
    kinds = [issue.kind for issue in doc.issues]
    assert kinds.count("invalid") == sum(span not in valid for span in spans)
    assert kinds.count("overlap") == len(valid) - len(found)
    for lost in valid - set(found):  # what gives way gives way to something no shorter
        assert any(a < lost[1] and lost[0] < b and b - a >= lost[1] - lost[0] for a, b, _ in found)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "got None"),
        ("abc", "label 'c'"),  # three things, but no numbers
        ((0, 1), "got (0, 1)"),
        ((0.0, 1, "PER"), "got (0.0, 1, 'PER')"),
        ((0, 1, 7), "unknown label 7; expected PER, LOC"),
        ((0, 1, ["PER"]), "unknown label ['PER']"),
        ((1, 1, "PER"), "span 1-1 (PER) is not a range within 0-3"),
        ((2, 4, "PER"), "span 2-4 (PER) is not a range"),
        (Ellipsis, "got Ellipsis"),
    ],
)
def test_invalid_spans_are_dropped_and_reported(given: Any, message: str) -> None:
    doc = Doc(["a", "b", "c"])
    assert validate([given, (0, 1, "PER")], doc) == [(0, 1, "PER")]
    (issue,) = doc.issues
    assert issue.kind == "invalid"
    if given != "abc":
        assert message in issue.detail


def test_numpy_integers_are_accepted() -> None:
    given = [(np.int32(0), np.int64(1), "PER"), [np.uint8(0), 1, "PER"]]
    (span,) = validate(given, Doc(["a"])) or []
    assert span == (0, 1, "PER")
    assert all(type(item) is int for item in span[:2])


def test_a_span_across_sentences_is_dropped_and_reported() -> None:
    doc = Doc(["a", "b", "c", "d"], sentences=[(0, 2), (2, 2), (2, 4)])
    assert validate([(1, 3, "PER"), (0, 2, "LOC"), (2, 4, "LOC")], doc) == [
        (0, 2, "LOC"),
        (2, 4, "LOC"),
    ]
    assert [issue.detail for issue in doc.issues] == ["span 'b c' (PER) crosses a sentence boundary"]


def generator(*spans: Span, end: Any = None) -> Iterator[Span]:
    yield from spans
    return end


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, []),
        ([], []),
        (ABSTAIN, None),
        (np.int16(-1).item(), None),
        (generator(), []),
        (generator((0, 1, "PER")), [(0, 1, "PER")]),
        (generator(end=ABSTAIN), None),
        ({(0, 1, "PER")}, [(0, 1, "PER")]),
    ],
)
def test_no_spans_and_abstaining_differ(found: Any, expected: Any) -> None:
    assert validate(found, Doc(["a"])) == expected


@pytest.mark.parametrize("found", [5, True, "PER", 1.5])
def test_output_that_is_not_a_list_of_spans_is_an_error(found: Any) -> None:
    with pytest.raises(DataError, match="expected spans"):
        validate(found, Doc(["a"]))


def test_the_first_of_overlapping_spans_can_be_kept() -> None:
    doc = Doc(["a", "b", "c"])
    spans = [(1, 2, "PER"), (0, 3, "LOC")]
    assert validate(spans, doc, on_overlap="first") == [(1, 2, "PER")]
    assert validate(spans, doc) == [(0, 3, "LOC")]
    assert [issue.kind for issue in doc.issues] == ["overlap", "overlap"]


@pytest.mark.parametrize(
    ("policy", "spans", "in_chars"),
    [
        ("on_overlap", [(0, 2, "PER"), (1, 3, "PER")], False),
        ("on_misaligned", [(0, 1, "PER")], True),
    ],
)
def test_overlaps_and_misalignment_can_be_errors(policy: str, spans: list[Span], in_chars: bool) -> None:
    with pytest.raises(DataError):
        validate(spans, Doc(["aa", "b", "c"]), in_chars=in_chars, **{policy: "error"})


def test_every_policy_is_supported() -> None:
    assert set(get_args(MisalignmentPolicy)) == {"expand", "contract", "drop", "error"}
