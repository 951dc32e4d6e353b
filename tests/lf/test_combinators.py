"""Combinators, compared with operations on sets of spans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.data.tags import ABSTAIN
from convener.errors import ConfigError
from convener.lf.combinators import difference, intersection, keep_labels, map_labels, only_if, union
from convener.lf.doc import Doc
from convener.lf.function import LabelingFunction, labeling_function
from convener.lf.gazetteer import gazetteer
from convener.lf.validation import Span

WORDS = ["a", "b", "c", "d", "e"]
LABELS = ("PER", "LOC")


def fixed(spans: list[Span] | None, name: str = "f", **settings: Any) -> LabelingFunction:
    """A function that always returns the same spans."""
    settings = {"labels": LABELS, **settings}
    return LabelingFunction(name=name, func=lambda doc: ABSTAIN if spans is None else spans, **settings)


edges = st.lists(st.integers(0, 5), min_size=2, max_size=2, unique=True).map(sorted)
spans = st.tuples(edges, st.sampled_from(LABELS)).map(lambda pair: (*pair[0], pair[1]))


@st.composite
def answers(draw: Any) -> list[Span] | None:
    """Spans that do not overlap, or None."""
    if draw(st.integers(0, 4)) == 0:
        return None
    kept: list[Span] = []
    for span in draw(st.lists(spans, max_size=4)):
        if not any(span[0] < b and a < span[1] for a, b, _ in kept):
            kept.append(span)
    return sorted(kept)


def overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


@given(st.lists(answers(), min_size=1, max_size=3))
def test_union_returns_all_spans_that_do_not_overlap(message: list[list[Span] | None]) -> None:
    doc = Doc(WORDS)
    found = union(*(fixed(spans) for spans in message), name="u").label(doc)
    if all(spans is None for spans in message):
        assert found is None
        return
    assert found is not None
    every = {span for spans in message for span in spans or ()}
    assert set(found) <= every
    for span in every - set(found):
        assert any(overlap(span, other) for other in found)
    assert len(doc.issues) == len(every) - len(found)


@given(answers(), answers())
def test_intersection_returns_spans_found_by_all(one: list[Span] | None, other: list[Span] | None) -> None:
    found = intersection(fixed(one), fixed(other), name="i")(WORDS)
    expected = None if one is None or other is None else sorted(set(one) & set(other))
    assert found == expected


@given(answers(), st.lists(answers(), max_size=2))
def test_difference_drops_spans_that_overlap_others(one: list[Span] | None, others: list[list[Span] | None]) -> None:
    found = difference(fixed(one), *(fixed(spans) for spans in others))(WORDS)
    taken = [span for spans in others for span in spans or ()]
    expected = None
    if one is not None:
        expected = [span for span in one if not any(overlap(span, other) for other in taken)]
    assert found == expected


@given(answers())
def test_keep_labels_and_map_labels_select_by_label(message: list[Span] | None) -> None:
    only = keep_labels(fixed(message), "LOC")
    assert only.labels == ("LOC",)
    new = map_labels(fixed(message), {"PER": "HUMAN"})
    assert new.labels == ("HUMAN", "LOC")
    if message is None:
        assert only(WORDS) is new(WORDS) is None
        return
    assert only(WORDS) == [span for span in message if span[2] == "LOC"]
    assert new(WORDS) == [(a, b, {"PER": "HUMAN"}.get(label, label)) for a, b, label in message]


@pytest.mark.parametrize("make", [lambda f: keep_labels(f, "LOCC"), lambda f: map_labels(f, {"LOCC": "X"})])
def test_labels_must_be_known(make: Any) -> None:
    with pytest.raises(ConfigError, match="no label of f 'LOCC'; did you mean 'LOC'"):
        make(fixed([]))


def test_mapping_all_labels_to_none_is_an_error() -> None:
    with pytest.raises(Exception, match="at least one entity type"):
        map_labels(fixed([]), {"PER": None, "LOC": None})


def test_only_if_calls_the_function_only_where_the_condition_holds() -> None:
    asked: list[int] = []

    def find_all(docs: Sequence[Doc]) -> list[list[Span]]:
        asked.append(len(docs))
        return [[(0, 1, "LOC")] for _ in docs]

    dear = LabelingFunction(name="dear", labels=("LOC",), batch_func=find_all)
    rare = only_if(dear, lambda doc: "a" in doc)
    docs = [Doc(["a"]), Doc(["b"]), Doc(["c", "a"])]
    assert rare.label_batch(docs) == [[(0, 1, "LOC")], None, [(0, 1, "LOC")]]
    assert asked == [2]
    assert only_if(fixed(None), lambda doc: True)(WORDS) is None


def test_a_combination_inherits_the_settings_of_its_parts() -> None:
    reads_all = fixed([], unmarked="outside", in_main_process=True, scope="document")
    made = union(reads_all, fixed([]), name="u")
    assert (made.unmarked, made.in_main_process, made.scope) == ("outside", True, "document")
    assert union(fixed([]), reads_all, name="u", unmarked="outside").unmarked == "outside"
    assert union(fixed([]), name="u").scope == "sentence"
    assert difference(fixed([], labels=("PER",)), fixed([])).labels == ("PER",)
    with pytest.raises(ConfigError, match="at least one labeling function"):
        union(name="u")


def test_functions_of_sentence_scope_are_called_on_each_sentence() -> None:
    seen: list[str] = []

    @labeling_function(["PER"])
    def first(doc: Doc) -> Any:
        seen.append(doc.text)
        if doc[0] == "c":
            return ABSTAIN
        return [(0, 1, "PER"), (0, 9, "PER")]

    whole = fixed([], scope="document")
    document = Doc(["a", "b", "c", "d"], sentences=[(0, 1), (1, 2), (2, 4)])
    assert union(first, whole, name="u").label(document) == [(0, 1, "PER"), (1, 2, "PER")]
    assert seen == ["a", "b", "c d"]
    assert [issue.kind for issue in document.issues] == ["invalid", "invalid"]  # passed on
    alone = Doc(["c"])
    assert union(first, fixed(None, scope="document"), name="u").label(alone) is None


def test_the_fingerprint_depends_on_the_parts() -> None:
    one, other = gazetteer(["a"], "A"), gazetteer(["b"], "A")
    made = union(one, other, name="u")
    assert made.fingerprint() == union(one, gazetteer(["b"], "A"), name="v").fingerprint()
    digests = {
        made.fingerprint(),
        union(one, name="u").fingerprint(),
        intersection(one, other, name="u").fingerprint(),
        difference(one, other).fingerprint(),
        map_labels(one, {"A": "B"}).fingerprint(),
        map_labels(one, {"A": "C"}).fingerprint(),
        only_if(one, lambda doc: "a" in doc).fingerprint(),
        only_if(one, lambda doc: "b" in doc).fingerprint(),
    }
    assert len(digests) == 8


def test_prior_precision_is_inherited_from_a_single_function() -> None:
    places = gazetteer(["Oslo"], "LOC", name="places", prior_precision=0.9)
    others = gazetteer(["Oslo Bank"], "ORG", name="others", prior_precision=0.6)
    assert difference(places, others).prior_precision == keep_labels(places, "LOC").prior_precision == 0.9
    assert difference(places, others, prior_precision=0.95).prior_precision == 0.95
    assert union(places, others, name="both").prior_precision is None


def test_combinations_keep_coarse_labels() -> None:
    some = gazetteer({"ENT": ["Oslo"], "PER": ["Ada"]}, name="some", coarse={"ENT": "any"})
    places = gazetteer(["Oslo"], "LOC", name="places")
    assert union(some, places, name="both").coarse == {"ENT": "any"}
    assert keep_labels(some, "PER").coarse == {}
    assert difference(places, some).coarse == {}
    renamed = map_labels(some, {"ENT": "NAME"}, coarse={"NAME": "PER, LOC"})
    assert renamed.coarse == {"NAME": "PER, LOC"}
    with pytest.raises(ConfigError, match="no coarse label of places 'ENT'"):
        gazetteer(["Oslo"], "LOC", name="places", coarse={"ENT": "any"})
