"""Combinators of document scope."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from convener.data.tags import ABSTAIN
from convener.lf.combinators import document_majority, propagate
from convener.lf.doc import Doc
from convener.lf.function import LabelingFunction, labeling_function
from convener.lf.validation import Span


def document(*sentences: str) -> Doc:
    words = [sentence.split() for sentence in sentences]
    bounds, at = [], 0
    for some in words:
        bounds.append((at, at + len(some)))
        at += len(some)
    return Doc([word for some in words for word in some], doc_id="d", sentences=bounds)


@labeling_function(["PER", "ORG"])
def marked(doc: Doc) -> Iterator[Span]:
    """Words after a mark: p for a person, o for an organisation."""
    for number in range(1, len(doc)):
        if doc[number - 1] in ("p", "o"):
            yield number, number + 1, "PER" if doc[number - 1] == "p" else "ORG"


def test_propagate_marks_every_occurrence() -> None:
    doc = document("p Ray left", "Ray and p Ada", "so did Ada")
    assert propagate(marked).label(doc) == [
        (1, 2, "PER"),
        (3, 4, "PER"),
        (6, 7, "PER"),
        (9, 10, "PER"),
    ]
    assert propagate(marked).name == "marked everywhere"
    assert propagate(marked).scope == "document"


def test_the_most_frequent_label_wins_then_the_first() -> None:
    doc = document("p Ray", "o Ray", "o Ray", "Ray")
    assert {label for *_, label in propagate(marked).label(doc) or ()} == {"ORG"}
    tie = document("p Ray", "o Ray", "Ray")
    assert {label for *_, label in propagate(marked).label(tie) or ()} == {"PER"}
    assert document_majority(marked).label(doc) == [(1, 2, "ORG"), (3, 4, "ORG"), (5, 6, "ORG")]
    assert document_majority(marked).name == "marked by majority"


def test_abstaining_is_propagated() -> None:
    abstaining = LabelingFunction(name="s", labels=("A",), func=lambda doc: ABSTAIN)
    assert propagate(abstaining).label(document("a", "b")) is None


@given(
    st.lists(st.lists(st.sampled_from("abc"), max_size=5), min_size=1, max_size=3),
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=3), max_size=3),
)
def test_occurrences_match_a_naive_search(sentences: list[list[str]], phrases: list[list[str]]) -> None:
    """Phrases are marked once in the first sentence; every other occurrence must be found."""
    texts = [" ".join(words) for words in (*phrases, *sentences)]
    doc = document(*texts)

    @labeling_function(["X"], scope="document")
    def first(doc: Doc) -> list[Span]:
        return [(*bounds, "X") for bounds in doc.sentences[: len(phrases)]]

    known = {tuple(phrase) for phrase in phrases}
    expected = []
    for begin, end in doc.sentences:
        places = [(a, b) for a in range(begin, end) for b in range(a + 1, end + 1) if tuple(doc[a:b]) in known]
        kept: list[tuple[int, int]] = []
        for a, b in sorted(places, key=lambda span: (span[0] - span[1], span[0])):
            if not any(a < d and c < b for c, d in kept):
                kept.append((a, b))
        expected += [(a, b, "X") for a, b in sorted(kept)]
    assert propagate(first).label(doc) == expected
