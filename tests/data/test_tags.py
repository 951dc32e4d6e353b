"""TagSet: labels, tags and spans, compared with loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from convener.data.ragged import lengths_to_offsets
from convener.data.schemes import SCHEMES, Scheme
from convener.data.spans import Spans
from convener.data.tags import TagSet
from convener.errors import DataError
from tests.generators import label_arrays, legal_labels, sentence_lengths, span_tables, tag_sets


def may_follow(tags: TagSet, before: int, label: int) -> bool:
    """The definition: I-x only after B-x or I-x."""
    prefix, _, name = tags.names[label].partition("-")
    return prefix != "I" or tags.names[before] in (f"B-{name}", f"I-{name}")


def tags_of_spans(spans: list[tuple[int, int, str]], length: int, scheme: Scheme) -> list[str]:
    """Tags of a sentence, written span by span."""
    single, begin, inside, end = {
        "bio": "BBII",
        "io": "IIII",
        "iobes": "SBIE",
        "biluo": "UBIL",
    }[scheme]
    tags = ["O"] * length
    for start, stop, name in spans:
        letters = [single]
        if stop - start > 1:
            letters = [begin, *inside * (stop - start - 2), end]
        tags[start:stop] = [f"{letter}-{name}" for letter in letters]
    return tags


@given(tag_sets())
def test_the_names_follow_the_order_of_the_types(tags: TagSet) -> None:
    assert len(tags) == len(tags.names) == len(set(tags.names)) == 2 * len(tags.types) + 1
    assert tags.names[0] == "O"
    for number, name in enumerate(tags.types):
        assert tags.names[2 * number + 1] == f"B-{name}"
        assert tags.names[2 * number + 2] == f"I-{name}"
        assert tags.type_index(name) == number


@given(tag_sets())
def test_legal_transitions_match_the_definition(tags: TagSet) -> None:
    size = len(tags)
    expected = [[may_follow(tags, a, b) for b in range(size)] for a in range(size)]
    assert tags.legal_transitions.tolist() == expected
    assert tags.legal_first.tolist() == [not name.startswith("I-") for name in tags.names]


@given(tag_sets(), sentence_lengths(), st.integers(0, 3), st.data())
def test_labels_of_spans_give_the_same_spans(tags: TagSet, lengths: list[int], shift: int, data: st.DataObject) -> None:
    spans = data.draw(span_tables(lengths, len(tags.types)))
    offsets = lengths_to_offsets(lengths) + shift
    labels = tags.labels(spans, offsets)
    expected = []
    for length, here in zip(lengths, spans.by_sentence(len(lengths)), strict=True):
        named = [(start, end, tags.types[kind]) for start, end, kind in here]
        expected += tags_of_spans(named, length, "bio")
    assert [tags.names[label] for label in labels] == expected
    assert list(tags.spans(labels, offsets)) == list(spans)
    assert list(tags.spans(labels, offsets, on_illegal="error")) == list(spans)


@given(tag_sets(), sentence_lengths(), st.data())
def test_repaired_labels_are_legal_and_legal_labels_are_kept(
    tags: TagSet, lengths: list[int], data: st.DataObject
) -> None:
    labels = data.draw(label_arrays(sum(lengths), len(tags), abstain=True))
    offsets = lengths_to_offsets(lengths)
    for policy in ("start", "drop"):
        repaired, count = tags.repair(labels, offsets, policy)
        assert (count == 0) == np.array_equal(repaired, labels)
        assert ((repaired == -1) == (labels == -1)).all()
        assert tags.repair(repaired, offsets, "error")[1] == 0
        for first, last in pairwise(offsets.tolist()):
            path = [0, *np.maximum(repaired[first:last], 0).tolist()]
            assert all(may_follow(tags, a, b) for a, b in pairwise(path))
    kept = tags.repair(labels, offsets, "start")[0]
    assert (((kept + 1) // 2) == ((labels + 1) // 2)).all()


@given(tag_sets(), sentence_lengths(), st.data())
def test_spans_of_illegal_labels_are_those_of_repaired_labels(
    tags: TagSet, lengths: list[int], data: st.DataObject
) -> None:
    labels = data.draw(label_arrays(sum(lengths), len(tags), abstain=True))
    offsets = lengths_to_offsets(lengths)
    for policy in ("start", "drop"):
        expected = []
        legal = tags.repair(labels, offsets, policy)[0]
        for m, (first, last) in enumerate(pairwise(offsets.tolist())):
            sentence = legal[first:last].tolist()
            for start, label in enumerate(sentence):
                if label <= 0 or label % 2 == 0:
                    continue
                end = start + 1
                while end < len(sentence) and sentence[end] == label + 1:
                    end += 1
                expected.append((m, start, end, (label - 1) // 2))
        assert list(tags.spans(labels, offsets, on_illegal=policy)) == expected


@pytest.mark.parametrize("scheme", SCHEMES)
@given(tag_sets(), sentence_lengths(), st.data())
def test_tags_are_written_span_by_span_and_read_back(
    scheme: Scheme, tags: TagSet, lengths: list[int], data: st.DataObject
) -> None:
    labels = data.draw(legal_labels(tags, lengths))
    offsets = lengths_to_offsets(lengths)
    expected = []
    for length, here in zip(lengths, tags.spans(labels, offsets).by_sentence(len(lengths)), strict=True):
        named = [(start, end, tags.types[kind]) for start, end, kind in here]
        expected += tags_of_spans(named, length, scheme)
    written = tags.decode(labels, offsets, scheme)
    assert written == expected
    if scheme != "io":
        assert np.array_equal(tags.encode(written, offsets, on_illegal="error"), labels)
        return
    assert np.array_equal(tags.encode(written, offsets), merged(labels, offsets))


def merged(labels: NDArray[np.int16], offsets: NDArray[np.int64]) -> NDArray[np.int16]:
    """Labels after writing them in IO: adjacent spans of one type are merged."""
    result = labels.copy()
    for first, last in pairwise(offsets.tolist()):
        for t in range(first + 1, last):
            if labels[t] > 0 and (labels[t] + 1) // 2 == (labels[t - 1] + 1) // 2:
                result[t] = 2 * ((labels[t] + 1) // 2)
    return result


def test_without_offsets_tags_are_one_sentence() -> None:
    tags = TagSet(("PER",))
    assert tags.encode(["B-PER", "I-PER"]).tolist() == [1, 2]
    assert tags.encode(["B-PER", "I-PER"], np.array([0, 1, 2])).tolist() == [1, 1]
    assert tags.decode(np.array([1, 2], np.int16), scheme="biluo") == ["B-PER", "L-PER"]
    assert tags.encode([]).tolist() == []
    assert tags.decode(np.zeros(0, np.int16)) == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_abstain_is_an_empty_tag_and_ends_a_span(scheme: Scheme) -> None:
    written = TagSet(("PER",)).decode(np.array([1, -1, 0, 1, 2], np.int16), None, scheme)
    assert written[:2] == [*tags_of_spans([(0, 1, "PER")], 1, scheme), ""]
    assert written[2:] == tags_of_spans([(1, 3, "PER")], 3, scheme)


def test_a_tag_of_an_unknown_type_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(DataError, match=r"no entity type 'PERS'; did you mean 'PER'\?"):
        TagSet(("PER",)).encode(["B-PERS"])


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ((), "at least one entity type"),
        (("",), "non-empty strings without surrounding space, got ''"),
        ((" PER",), "got ' PER'"),
        ((3,), "got 3"),
        (("PER", "LOC", "PER"), "entity types must have different names, got PER, LOC, PER"),
        ("PER", "a list of names, got the string 'PER'"),
    ],
)
def test_invalid_types_are_rejected(types: tuple[str, ...], message: str) -> None:
    with pytest.raises(DataError, match=message):
        TagSet(types)


def test_types_may_be_a_list_and_tag_sets_compare_by_types() -> None:
    assert TagSet(["a", "b"]) == TagSet(("a", "b")) != TagSet(("b", "a"))  # type: ignore[arg-type]
    assert hash(TagSet(("a",))) == hash(TagSet(("a",)))


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ((0, 0, 4, 0), "sentence 0: span 0-4 is not a range of tokens of the sentence"),
        ((0, -1, 2, 0), "sentence 0: span -1-2 is not a range of tokens"),
        ((1, 1, 1, 0), "sentence 1: span 1-1 is not a range of tokens"),
        ((1, 2, 1, 0), "sentence 1: span 2-1 is not a range of tokens"),
        ((2, 0, 1, 0), r"expected sentence of a span in \[0, 2\), found 2"),
        ((-2, 0, 1, 0), r"expected sentence of a span in \[0, 2\), found -2"),
        ((0, 0, 1, 1), r"expected entity type of a span in \[0, 1\), found 1"),
        ((0, 0, 1, -1), r"expected entity type of a span in \[0, 1\), found -1"),
    ],
)
def test_a_span_out_of_range_is_rejected(span: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(DataError, match=message):
        TagSet(("PER",)).labels(Spans.from_rows([(0, 0, 1, 0), span]), np.array([0, 3, 5]))


@pytest.mark.parametrize("second", [(1, 0, 2, 0), (1, 1, 2, 1), (1, 0, 1, 0)])
def test_overlapping_spans_are_rejected(second: tuple[int, int, int, int]) -> None:
    spans = Spans.from_rows([(1, 0, 2, 0), second])
    token = second[1]
    with pytest.raises(DataError, match=f"sentence 1: spans overlap at token {token}"):
        TagSet(("PER", "LOC")).labels(spans, np.array([0, 3, 5]))


@given(tag_sets(), tag_sets(), st.data())
def test_labels_are_remapped_by_type_name(one: TagSet, two: TagSet, data: st.DataObject) -> None:
    labels = data.draw(label_arrays(6, len(one), abstain=True))
    used = {one.types[(label - 1) // 2] for label in labels.tolist() if label > 0}
    if used <= set(two.types):
        expected = [two.names.index(one.names[x]) if x >= 0 else -1 for x in labels.tolist()]
        assert one.remap(labels, two).tolist() == expected
        return
    with pytest.raises(DataError, match="no entity type '"):
        one.remap(labels, two)
