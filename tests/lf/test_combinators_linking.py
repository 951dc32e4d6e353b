"""Linking functions, and their use by linked-hmm."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import convener as cv
from convener.errors import ConvenerWarning
from convener.lf.combinators import LINK_PREFIX, as_linking, linking_function
from convener.lf.gazetteer import gazetteer
from convener.models.linked_hmm import LinkedHMMConfig

pytestmark = pytest.mark.slow


@given(st.sets(st.integers(1, 7)))
def test_linked_tokens_form_spans(links: set[int]) -> None:
    made = linking_function("X", name="some")(lambda doc: links)
    spans = made([*"abcdefgh"]) or []
    assert {word for start, end, _ in spans for word in range(start + 1, end)} == links
    assert all(end - start > 1 for start, end, _ in spans)


def test_the_first_token_cannot_be_linked() -> None:
    wrong = linking_function("X", name="wrong")(lambda doc: [0])
    with pytest.warns(ConvenerWarning, match=r"invalid: span -1-1 \(X\)"):
        assert wrong(["a"]) == []


def test_names_get_the_link_prefix() -> None:
    names = gazetteer(["New York"], "LOC", name="cities")
    assert as_linking(names).name == "link-cities"
    assert as_linking(names, name="link-x").name == "link-x"
    assert LinkedHMMConfig().prefix == LINK_PREFIX


def test_abstaining_is_propagated() -> None:
    abstaining = cv.labeling_function(["LOC"], name="s")(lambda doc: cv.ABSTAIN)
    assert as_linking(abstaining)(["a"]) is None


def test_linked_hmm_uses_linking_functions() -> None:
    first = gazetteer(["Ada"], "PER", name="first")

    @linking_function("PER")
    def capitals(words: Any) -> Any:
        return [i for i in range(1, len(words)) if words[i - 1].istitle() and words[i].istitle()]

    text = cv.tokenize(["Ada Lovelace wrote", "she left"] * 30)
    data = cv.apply_lfs([first, capitals], text, cache=False)
    tags = cv.get_model("linked-hmm")().fit(data).predict(data).tags()
    assert tags[0] == ["B-PER", "I-PER", "O"]
